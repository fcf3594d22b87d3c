/* The event engine of src/sojourn/simulation/engine.py in plain C, for the plain network only: routed tasks, one
 * service time each, no links, nobody leaves; it counts nothing but the mean staleness.
 *
 * The same durations from the same names and the same routing, so the same order of events: the benchmark checks that
 * the sums agree exactly. As in event_heap.py, the next event leaves a hole at the root that the next push fills. */

#include "streams.h"

#define ID_BITS 24

struct event {
    double time;
    int64_t mark; /* sequence number and client: equal times in the order of setting */
};

struct client {
    uint32_t head, tail, length, group;
    int64_t served;
};

struct slot {
    int64_t dispatched_step;
    uint32_t following;
};

struct group {
    double time, sigma, keep; /* mean service time; sigma of its logarithm, 0 for exponential */
    uint32_t other, first, members, unused;
    int64_t arrivals, staleness;
};

struct run {
    struct client *clients;
    struct slot *slots;
    struct group *groups;
    struct event *heap;
    const double *edge, *height, *normal_edge, *normal_height;
    int64_t client_count, group_count, step, size, sequence, hole;
    uint64_t route, serve;
};

static inline int before(struct event a, struct event b)
{
    return a.time < b.time || (a.time == b.time && a.mark < b.mark);
}

static inline void sink(struct event *heap, struct event event, int64_t size)
{
    int64_t place = 0;
    for (;;) {
        int64_t child = 2 * place + 1;
        if (child >= size)
            break;
        if (child + 1 < size && before(heap[child + 1], heap[child]))
            child++;
        if (before(event, heap[child]))
            break;
        heap[place] = heap[child];
        place = child;
    }
    heap[place] = event;
}

static inline void push(struct run *run, struct event event)
{
    if (run->hole) {
        run->hole = 0;
        sink(run->heap, event, run->size);
        return;
    }
    int64_t place = run->size++;
    while (place > 0) {
        int64_t above = (place - 1) >> 1;
        if (run->heap[above].time <= event.time)
            break;
        run->heap[place] = run->heap[above];
        place = above;
    }
    run->heap[place] = event;
}

static inline struct event pop(struct run *run)
{
    if (run->hole) {
        int64_t last = --run->size;
        if (last > 0)
            sink(run->heap, run->heap[last], last);
    }
    run->hole = 1;
    return run->heap[0];
}

/* A standard normal by Marsaglia and Tsang's layers, as in src/sojourn/simulation/draws.py. */
static inline double normal(const double *edge, const double *height, uint64_t key)
{
    for (;;) {
        key += MOVE;
        uint64_t bits = mix(key);
        int64_t layer = bits & 255;
        double x = unit(bits) * edge[layer];
        int accepted = x < edge[layer + 1];
        if (!accepted && layer == 0) {
            do {
                x = -log(1 - unit(mix(key + MOVE))) / edge[1];
                key += MOVE + MOVE;
            } while (!(-2 * log(1 - unit(mix(key))) > x * x));
            x += edge[1];
            accepted = 1;
        } else if (!accepted) {
            key += MOVE;
            accepted = height[layer] + (height[layer + 1] - height[layer]) * unit(mix(key)) < exp(-0.5 * x * x);
        }
        if (accepted)
            return bits & 256 ? x : -x;
    }
}

/* A duration with mean one, from the stream that belongs to `key`. */
static inline double duration(struct run *run, double sigma, uint64_t key)
{
    if (sigma == 0)
        return exponential(run->edge, run->height, &key);
    return exp(sigma * normal(run->normal_edge, run->normal_height, key) - 0.5 * sigma * sigma);
}

static inline void begin(struct run *run, uint32_t client, double now)
{
    struct client *mine = &run->clients[client];
    const struct group *group = &run->groups[mine->group];
    uint64_t key = mix(mix(run->serve + MOVE * (client + 1ull)) + MOVE * ((uint64_t)mine->served++ + 1));
    double ends_at = now + duration(run, group->sigma, key) * group->time;
    push(run, (struct event){ends_at, run->sequence++ << ID_BITS | client});
}

/* A group by the alias table, a client of it uniformly. */
static inline uint32_t draw(struct run *run)
{
    run->route += MOVE;
    double column = unit(mix(run->route)) * run->group_count;
    int64_t g = (int64_t)column;
    if (column - g >= run->groups[g].keep)
        g = run->groups[g].other;
    uint32_t client = run->groups[g].first;
    if (run->groups[g].members > 1) {
        run->route += MOVE;
        client += (uint32_t)(unit(mix(run->route)) * run->groups[g].members);
    }
    return client;
}

void start(struct run *run)
{
    for (uint32_t client = 0; client < run->client_count; client++)
        if (run->clients[client].length > 0)
            begin(run, client, 0);
}

void advance(struct run *run, int64_t steps)
{
    struct client *clients = run->clients;
    struct slot *slots = run->slots;
    for (int64_t stop = run->step + steps; run->step < stop;) {
        struct event event = pop(run);
        uint32_t finisher = event.mark & ((1 << ID_BITS) - 1);
        struct client *from = &clients[finisher];
        uint32_t slot = from->head;
        from->head = slots[slot].following;
        if (--from->length > 0)
            begin(run, finisher, event.time);
        struct group *group = &run->groups[from->group];
        group->arrivals++;
        group->staleness += run->step - slots[slot].dispatched_step;
        slots[slot].dispatched_step = ++run->step;

        uint32_t client = draw(run);
        struct client *to = &clients[client];
        if (to->length++ == 0) {
            to->head = slot;
            begin(run, client, event.time);
        } else {
            slots[to->tail].following = slot;
        }
        to->tail = slot;
    }
}
