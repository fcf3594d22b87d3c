"""A pretended crew: actors without Ray, on a clock that the test sets, or that compute at once."""

import time
from collections import deque

from sojourn.live.engines.ray.actor import Clients
from sojourn.live.engines.ray.crew import Said
from sojourn.live.engines.ray.errand import Errand, array_of


class Crew:
    """Actors that say only what a test lets them say, and a clock that stands still unless somebody waits."""

    def __init__(self):
        self.clock, self.lives, self.called, self.said, self.stopped = 0.0, {}, [], deque(), 0

    def start(self, actor):
        self.lives[actor] = self.lives.get(actor, 0) + 1
        return self.lives[actor]

    def call(self, actor, offer):
        self.called.append((actor, offer.name))

    def hear(self, timeout):
        if self.said:
            return self.said.popleft()
        self.clock += max(timeout, 0.0)
        return None

    def stop(self):
        self.stopped += 1

    def say(self, actor, name=None, result=None, wrong="", died=False, life=None):
        """Let an actor say something now."""
        life = self.lives[actor] if life is None else life
        self.said.append(Said(actor, life, name, result, wrong, died, self.clock))


class AtOnce(Crew):
    """Actors that build their clients from errands and compute when they are called, in this process."""

    def __init__(self, errands: list[Errand]):
        super().__init__()
        self.clock, self._actors = time.monotonic(), [Clients(errand) for errand in errands]

    def start(self, actor):
        life = super().start(actor)
        self.say(actor, wrong=self._actors[actor].begin())
        return life

    def call(self, actor, offer):
        self.clock = time.monotonic()
        model = array_of(offer.params), None if offer.stats is None else array_of(offer.stats)
        client, nth, _ = offer.name
        result = self._actors[actor].work(model, client, nth, offer.step, offer.step_size, offer.steps)
        self.say(actor, offer.name, result)

    def hear(self, timeout):
        found = super().hear(0.0)
        if found is None and timeout > 0:
            time.sleep(timeout)
        return found
