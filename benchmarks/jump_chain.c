/* The jump chain of src/sojourn/simulation/jump_chain.py in plain C, counting nothing but the mean staleness.
 *
 * The same draws from the same streams, so the same jumps: the benchmark checks that the sums agree exactly. */

#include <math.h>
#include <stdint.h>

#define MOVE 0x9E3779B97F4A7C15ull

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
    double bound;
    uint32_t first, busy; /* where its part of the list of busy clients begins, and how many are busy */
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

static inline uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

static inline double unit(uint64_t bits)
{
    return (double)(int64_t)(bits >> 11) * 0x1p-53;
}

static __attribute__((noinline)) double edge_case(int64_t layer, double x, struct chain *chain, uint64_t *key)
{
    const double *edge = chain->edge, *height = chain->height;
    double shift = 0;
    for (;;) {
        if (layer == 0) {
            shift += edge[1];
        } else {
            *key += MOVE;
            if (height[layer] + (height[layer + 1] - height[layer]) * unit(mix(*key)) < exp(-x))
                return shift + x;
        }
        *key += MOVE;
        uint64_t bits = mix(*key);
        layer = bits & 255;
        x = unit(bits) * edge[layer];
        if (x < edge[layer + 1])
            return shift + x;
    }
}

static inline double exponential(struct chain *chain, uint64_t *key)
{
    *key += MOVE;
    uint64_t bits = mix(*key);
    int64_t layer = bits & 255;
    double x = unit(bits) * chain->edge[layer];
    return x < chain->edge[layer + 1] ? x : edge_case(layer, x, chain, key);
}

/* The next client to finish, its class and its place in the list of busy clients. */
static inline uint32_t finish(struct chain *chain, uint64_t *serve, uint64_t *ticks, double *now, int64_t *c,
                              int64_t *place)
{
    struct class *classes = chain->classes;
    for (;;) {
        double total = 0;
        for (int64_t i = 0; i < chain->class_count; i++)
            total += classes[i].bound * classes[i].busy;
        *now += exponential(chain, ticks) / total;
        *serve += MOVE;
        double left = unit(mix(*serve)) * total;
        int64_t i = 0;
        double share = classes[0].bound * classes[0].busy;
        while (left >= share && i < chain->class_count - 1) {
            left -= share;
            i++;
            share = classes[i].bound * classes[i].busy;
        }
        int64_t at = (int64_t)(left / classes[i].bound);
        if (at >= classes[i].busy)
            at = (int64_t)classes[i].busy - 1;
        if (at < 0)
            continue;
        uint32_t client = chain->busy[classes[i].first + at];
        double rate = chain->groups[chain->clients[client].group].rate;
        *c = i;
        *place = at;
        if (rate == classes[i].bound)
            return client;
        *serve += MOVE;
        if (unit(mix(*serve)) * classes[i].bound < rate)
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
    double now = 0;
    int64_t c, place, stop = chain->step + steps;
    for (int64_t step = chain->step; step < stop; step++) {
        struct client *from = &clients[finish(chain, &serve, &ticks, &now, &c, &place)];
        uint32_t slot = from->head;
        struct group *group = &chain->groups[from->group];
        group->arrivals++;
        group->staleness += step - slots[slot].dispatched_step;
        from->head = slots[slot].following;
        if (--from->length == 0) {
            struct class *class = &chain->classes[c];
            class->busy--;
            chain->busy[class->first + place] = chain->busy[class->first + class->busy];
        }

        uint32_t client = draw(chain, &route);
        struct client *to = &clients[client];
        slots[slot].dispatched_step = step + 1;
        if (to->length++ == 0) {
            struct class *class = &chain->classes[chain->groups[to->group].class];
            to->head = slot;
            chain->busy[class->first + class->busy++] = client;
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
