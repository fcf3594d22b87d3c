/* The jump chain of src/sojourn/timing/simulate/one_each.py in plain C, counting nothing but the mean staleness.
 *
 * The same draws from the same streams, so the same jumps: the benchmark checks that the sums agree exactly. */

#include "streams.h"

struct client {
    int64_t dispatched_step;
    uint32_t group, unused;
};

struct group {
    double rate, weight;
    uint32_t rate_class, weight_class;
    int64_t arrivals, staleness;
};

struct pool {
    double bound, inverse, reach; /* largest value, 1 / bound, sum of all classes up to and with this one */
    uint32_t first, size;         /* where its part of the list begins, and how many are in it */
};

struct chain {
    struct client *clients;
    struct group *groups;
    struct pool *working, *resting; /* classes of rates and of weights */
    uint32_t *busy, *idle;
    const double *edge, *height;
    int64_t rate_classes, weight_classes, step;
    uint64_t route, serve, ticks;
    double clock;
};

static inline double add_up(struct pool *pools, int64_t count)
{
    double total = 0;
    for (int64_t i = 0; i < count; i++) {
        total += pools[i].bound * pools[i].size;
        pools[i].reach = total;
    }
    return total;
}

/* The class that a point on the line falls into, and the place in the list. */
static inline struct pool *draw(struct pool *pools, int64_t count, double point, uint32_t *place)
{
    double begin = 0;
    int64_t c = 0;
    for (int64_t i = 0; i < count - 1; i++) {
        double reach = pools[i].reach;
        int beyond = point >= reach;
        c += beyond;
        begin = beyond ? reach : begin;
    }
    uint32_t drawn = (uint32_t)((point - begin) * pools[c].inverse);
    uint32_t last = (pools[c].size ? pools[c].size : 1) - 1;
    *place = pools[c].first + (drawn < last ? drawn : last);
    return &pools[c];
}

void advance(struct chain *chain, int64_t steps)
{
    struct client *clients = chain->clients;
    struct group *groups = chain->groups;
    uint64_t route = chain->route, serve = chain->serve, ticks = chain->ticks;
    double now = 0, total = add_up(chain->working, chain->rate_classes);
    int64_t stop = chain->step + steps;
    for (int64_t step = chain->step; step < stop; step++) {
        struct pool *pool;
        struct group *group;
        uint32_t client, place;
        for (;;) {
            now += exponential(chain->edge, chain->height, &ticks) / total;
            serve += MOVE;
            pool = draw(chain->working, chain->rate_classes, unit(mix(serve)) * total, &place);
            client = chain->busy[place];
            group = &groups[clients[client].group];
            if (group->rate == pool->bound)
                break;
            serve += MOVE;
            if (unit(mix(serve)) * pool->bound < group->rate)
                break;
        }
        group->arrivals++;
        group->staleness += step - clients[client].dispatched_step;
        chain->busy[place] = chain->busy[pool->first + --pool->size];
        pool = &chain->resting[group->weight_class];
        chain->idle[pool->first + pool->size++] = client;

        double room = add_up(chain->resting, chain->weight_classes);
        for (;;) {
            route += MOVE;
            pool = draw(chain->resting, chain->weight_classes, unit(mix(route)) * room, &place);
            client = chain->idle[place];
            group = &groups[clients[client].group];
            if (group->weight == pool->bound)
                break;
            route += MOVE;
            if (unit(mix(route)) * pool->bound < group->weight)
                break;
        }
        chain->idle[place] = chain->idle[pool->first + --pool->size];
        pool = &chain->working[group->rate_class];
        chain->busy[pool->first + pool->size++] = client;
        clients[client].dispatched_step = step + 1;
        total = add_up(chain->working, chain->rate_classes);
    }
    chain->route = route;
    chain->serve = serve;
    chain->ticks = ticks;
    chain->step = stop;
    chain->clock += now;
}
