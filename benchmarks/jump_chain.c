/* The jump chain of src/sojourn/timing/simulate/jump_chain.py in plain C, counting nothing but the mean staleness.
 *
 * The same draws from the same streams, so the same jumps: the benchmark checks that the sums agree exactly. */

#include "streams.h"

struct client {
    uint32_t head, tail, length, group;
};

struct slot {
    int64_t dispatched_step;
    uint32_t following;
};

struct group {
    double rate, keep;
    uint32_t other, first, members, class;
    int64_t arrivals, staleness;
};

struct class {
    double bound, inverse, reach; /* largest rate, 1 / bound, busy rate of all classes up to and with this one */
    uint32_t first, busy;         /* where its part of the list of busy clients begins, and how many are busy */
};

struct chain {
    struct client *clients;
    struct slot *slots;
    struct group *groups;
    struct class *classes;
    uint32_t *busy;
    const double *edge, *height;
    int64_t group_count, class_count, step;
    uint64_t route, serve, ticks;
    double clock;
};

/* Bring the classes up to date; returns the total rate of the busy clients. */
static inline double add_up(struct chain *chain)
{
    double total = 0;
    for (int64_t i = 0; i < chain->class_count; i++) {
        total += chain->classes[i].bound * chain->classes[i].busy;
        chain->classes[i].reach = total;
    }
    return total;
}

/* The next client to finish, its class and its place in the list of busy clients. */
static inline uint32_t finish(struct chain *chain, uint64_t *serve, uint64_t *ticks, double *now, double total,
                              struct class **class, uint32_t *place)
{
    for (;;) {
        *now += exponential(chain->edge, chain->height, ticks) / total;
        *serve += MOVE;
        double point = unit(mix(*serve)) * total, begin = 0;
        int64_t c = 0;
        for (int64_t i = 0; i < chain->class_count - 1; i++) {
            double reach = chain->classes[i].reach;
            int beyond = point >= reach;
            c += beyond;
            begin = beyond ? reach : begin;
        }
        *class = &chain->classes[c];
        uint32_t drawn = (uint32_t)((point - begin) * (*class)->inverse);
        *place = (*class)->first + (drawn < (*class)->busy ? drawn : (*class)->busy - 1);
        uint32_t client = chain->busy[*place];
        double rate = chain->groups[chain->clients[client].group].rate;
        if (rate == (*class)->bound)
            return client;
        *serve += MOVE;
        if (unit(mix(*serve)) * (*class)->bound < rate)
            return client;
    }
}

/* A group by the alias table, a client of it uniformly. */
static inline uint32_t draw(struct chain *chain, uint64_t *route)
{
    *route += MOVE;
    double column = unit(mix(*route)) * chain->group_count;
    int64_t g = (int64_t)column;
    if (column - g >= chain->groups[g].keep)
        g = chain->groups[g].other;
    uint32_t client = chain->groups[g].first;
    if (chain->groups[g].members > 1) {
        *route += MOVE;
        client += (uint32_t)(unit(mix(*route)) * chain->groups[g].members);
    }
    return client;
}

void advance(struct chain *chain, int64_t steps)
{
    struct client *clients = chain->clients;
    struct slot *slots = chain->slots;
    uint64_t route = chain->route, serve = chain->serve, ticks = chain->ticks;
    double now = 0, total = add_up(chain);
    struct class *class;
    uint32_t place;
    int64_t stop = chain->step + steps;
    for (int64_t step = chain->step; step < stop; step++) {
        struct client *from = &clients[finish(chain, &serve, &ticks, &now, total, &class, &place)];
        uint32_t slot = from->head;
        struct group *group = &chain->groups[from->group];
        group->arrivals++;
        group->staleness += step - slots[slot].dispatched_step;
        from->head = slots[slot].following;
        if (--from->length == 0) {
            class->busy--;
            chain->busy[place] = chain->busy[class->first + class->busy];
            total = add_up(chain);
        }

        uint32_t client = draw(chain, &route);
        struct client *to = &clients[client];
        slots[slot].dispatched_step = step + 1;
        if (to->length++ == 0) {
            class = &chain->classes[chain->groups[to->group].class];
            to->head = slot;
            chain->busy[class->first + class->busy++] = client;
            total = add_up(chain);
        } else {
            slots[to->tail].following = slot;
        }
        to->tail = slot;
    }
    chain->route = route;
    chain->serve = serve;
    chain->ticks = ticks;
    chain->step = stop;
    chain->clock += now;
}
