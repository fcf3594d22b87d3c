"""A capped network by the enumeration of all its states: from its rules alone, without the product form.

A client has three stations: its way down, its queue with one server, its way up. A state is the number of tasks in
each. Links of mean 0 are left out. All durations are exponential; the tasks on a link do not wait for each other.
"""

import itertools

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.linalg import spsolve

DOWN, QUEUE, UP = range(3)


class States:
    """All states, their stationary law by global balance, and the mean staleness by a tagged task."""

    def __init__(self, w, mu, down, up, cap, tasks):
        self.w, self.mu, self.down, self.up, self.cap = (np.asarray(x, dtype=float) for x in (w, mu, down, up, cap))
        self.n, self.tasks = len(self.w), tasks
        ways = [self.ways(i) for i in range(self.n)]
        self.found = [sum(x, ()) for x in itertools.product(*ways) if sum(map(sum, x)) == tasks]
        self.index = {x: k for k, x in enumerate(self.found)}
        self.law = self.balance()
        self.array = np.array(self.found, dtype=float).reshape(-1, self.n, 3)

    def ways(self, i):
        """What client i may hold at its three stations."""
        most = [self.tasks if self.down[i] else 0, self.tasks, self.tasks if self.up[i] else 0]
        all_ways = itertools.product(*(range(m + 1) for m in most))
        return [x for x in all_ways if sum(x) <= min(self.cap[i], self.tasks)]

    def departures(self, x):
        """(rate, client, station) of everything that may happen next."""
        for i in range(self.n):
            if x[3 * i + DOWN]:
                yield x[3 * i + DOWN] / self.down[i], i, DOWN
            if x[3 * i + QUEUE]:
                yield self.mu[i], i, QUEUE
            if x[3 * i + UP]:
                yield x[3 * i + UP] / self.up[i], i, UP

    def outcomes(self, x, i, station):
        """(probability, state after, client that gets a new task or None) of a departure."""
        y = list(x)
        y[3 * i + station] -= 1
        if station == DOWN or (station == QUEUE and self.up[i]):
            y[3 * i + station + 1] += 1
            yield 1.0, tuple(y), None
            return
        weights = [self.w[j] * (sum(y[3 * j : 3 * j + 3]) < self.cap[j]) for j in range(self.n)]
        for j in np.flatnonzero(weights):
            z = list(y)
            z[3 * j + self.entry(j)] += 1
            yield weights[j] / sum(weights), tuple(z), int(j)

    def entry(self, j):
        return DOWN if self.down[j] else QUEUE

    def balance(self):
        size = len(self.found)
        rates = np.zeros((size, size))
        for x in self.found:
            for rate, i, station in self.departures(x):
                for chance, y, _ in self.outcomes(x, i, station):
                    rates[self.index[x], self.index[y]] += rate * chance
                    rates[self.index[x], self.index[x]] -= rate * chance
        system = np.vstack([rates.T, np.ones(size)])
        return np.linalg.lstsq(system, np.append(np.zeros(size), 1.0), rcond=None)[0]

    @property
    def held(self):
        return self.law @ self.array.sum(axis=2)

    @property
    def queue(self):
        return self.law @ self.array[:, :, QUEUE]

    @property
    def busy(self):
        return self.law @ (self.array[:, :, QUEUE] > 0)

    @property
    def covariance(self):
        centred = self.array.sum(axis=2) - self.held
        return (centred * self.law[:, None]).T @ centred

    def entries(self):
        """Tasks sent to each client per unit of time, and the law of the states that they then see, tagged."""
        flow, tagged = np.zeros(self.n), [{} for _ in range(self.n)]
        for x, weight in zip(self.found, self.law, strict=True):
            for rate, i, station in self.departures(x):
                for chance, y, j in self.outcomes(x, i, station):
                    if j is not None:
                        state = (y, j, self.entry(j), y[3 * j + QUEUE] - 1)
                        flow[j] += weight * rate * chance
                        tagged[j][state] = tagged[j].get(state, 0.0) + weight * rate * chance
        return flow, tagged

    def tagged_moves(self, state):
        """(rate, completions by others, state after or None) for a task at `client`, with `ahead` in its queue."""
        x, client, at, ahead = state
        for rate, i, station in self.departures(x):
            there = x[3 * i + station]
            own = i == client and station == at
            mine = (1.0 if ahead == 0 else 0.0) if station == QUEUE else 1 / there
            for chance, y, j in self.outcomes(x, i, station):
                if own and mine:
                    following = (y, client, at + 1, x[3 * i + QUEUE] if at == DOWN else 0)
                    yield rate * chance * mine, 0, following if j is None else None
                if not own or mine < 1:
                    moved = ahead - (own and station == QUEUE)
                    yield rate * chance * (1 - mine if own else 1.0), j is not None, (y, client, at, moved)

    def staleness(self):
        """Mean completions by others while a tagged task is under way, given the client that it went to."""
        flow, tagged = self.entries()
        number = {}
        todo = [state for law in tagged for state in law]
        moves = {}
        while todo:
            state = todo.pop()
            if state in number:
                continue
            number[state] = len(number)
            moves[state] = list(self.tagged_moves(state))
            todo.extend(following for _, _, following in moves[state] if following is not None)
        entries, right = [], np.zeros(len(number))
        for state, k in number.items():
            for rate, others, following in moves[state]:
                right[k] += rate * others
                entries.append((rate, k, k))
                if following is not None:
                    entries.append((-rate, k, number[following]))
        value, row, column = zip(*entries, strict=True)
        expected = np.atleast_1d(spsolve(coo_matrix((value, (row, column))).tocsc(), right))
        means = [sum(p * expected[number[state]] for state, p in law.items()) for law in tagged]
        return np.array(means) / flow
