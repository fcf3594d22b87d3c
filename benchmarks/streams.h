/* The random numbers of src/sojourn/random.py: a key that moves on, and a hash of it. */

#include <math.h>
#include <stdint.h>

#define MOVE 0x9E3779B97F4A7C15ull

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

static __attribute__((noinline)) double edge_case(int64_t layer, double x, const double *edge, const double *height,
                                                  uint64_t *key)
{
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

static inline double exponential(const double *edge, const double *height, uint64_t *key)
{
    *key += MOVE;
    uint64_t bits = mix(*key);
    int64_t layer = bits & 255;
    double x = unit(bits) * edge[layer];
    return x < edge[layer + 1] ? x : edge_case(layer, x, edge, height, key);
}
