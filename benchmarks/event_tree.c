/* The event engine of src/sojourn/timing/simulate/engine.py in plain C, for the plain network only: routed tasks, one
 * service time each, no links, nobody leaves; it counts nothing but the mean staleness.
 *
 * The same durations from the same names and the same routing, so the same order of events: the benchmark checks that
 * the sums agree exactly. As in event_tree.py, events sit in the leaves of a tournament, the next event leaves its seat
 * as a hole that the next push fills, and the target is drawn before the clock runs on. */

#include "streams.h"

#define SEAT_BITS 24
#define PIECE (MOVE << 20)

/* time and mark, compared as one number: times are not negative, so their bits are in the same order */
typedef unsigned __int128 event;
#define NEVER ((event)0x7FF0000000000000ull << 64)

struct client {
    uint32_t head, tail, length, group;
    uint64_t service; /* where its stream of durations stands */
};

struct slot {
    int64_t dispatched_step;
    uint32_t following;
};

struct seat {
    uint32_t client, free; /* whose event it is; an entry of the stack of free seats */
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
    event *tree;
    struct seat *seats;
    const double *edge, *height, *normal_edge, *normal_height;
    int64_t client_count, group_count, step, seat_count, free, sequence, hole;
    uint64_t route, serve;
};

static inline double time_of(event event)
{
    union {
        uint64_t bits;
        double time;
    } read = {.bits = (uint64_t)(event >> 64)};
    return read.time;
}

static inline event event_at(double time, int64_t mark)
{
    union {
        double time;
        uint64_t bits;
    } read = {.time = time};
    return (event)read.bits << 64 | (uint64_t)mark;
}

/* Put an event into a seat and replay its matches. */
static inline void set(struct run *run, int64_t seat, event mine)
{
    event *tree = run->tree;
    uint64_t place = seat + run->seat_count;
    tree[place] = mine;
    while (place > 1) {
        event other = tree[place ^ 1];
        mine = other < mine ? other : mine;
        place >>= 1;
        tree[place] = mine;
    }
}

static inline void push(struct run *run, double time, uint32_t client)
{
    int64_t seat = run->hole >= 0 ? run->hole : run->seats[--run->free].free;
    run->hole = -1;
    run->seats[seat].client = client;
    set(run, seat, event_at(time, run->sequence++ << SEAT_BITS | seat));
}

static inline event pop(struct run *run)
{
    if (run->hole >= 0) {
        run->seats[run->free++].free = run->hole;
        set(run, run->hole, NEVER);
    }
    event first = run->tree[1];
    run->hole = (int64_t)first & ((1 << SEAT_BITS) - 1);
    return first;
}

/* A standard normal by Marsaglia and Tsang's layers, as in src/sojourn/random.py. */
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
    double ends_at = now + duration(run, group->sigma, mine->service) * group->time;
    mine->service += PIECE;
    push(run, ends_at, client);
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
    for (uint32_t client = 0; client < run->client_count; client++) {
        run->clients[client].service = mix(run->serve + MOVE * (client + 1ull));
        if (run->clients[client].length > 0)
            begin(run, client, 0);
    }
}

void advance(struct run *run, int64_t steps)
{
    struct client *clients = run->clients;
    struct slot *slots = run->slots;
    for (int64_t stop = run->step + steps; run->step < stop;) {
        uint32_t client = draw(run);
        double now = time_of(pop(run));
        uint32_t finisher = run->seats[run->hole].client;
        struct client *from = &clients[finisher];
        uint32_t slot = from->head;
        from->head = slots[slot].following;
        if (--from->length > 0)
            begin(run, finisher, now);
        struct group *group = &run->groups[from->group];
        group->arrivals++;
        group->staleness += run->step - slots[slot].dispatched_step;
        slots[slot].dispatched_step = ++run->step;

        struct client *to = &clients[client];
        if (to->length++ == 0) {
            to->head = slot;
            begin(run, client, now);
        } else {
            slots[to->tail].following = slot;
        }
        to->tail = slot;
    }
}
