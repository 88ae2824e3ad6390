#include "random.h"

/* SplitMix64's finish. */
static uint64_t mixed(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

int between(struct random *random, int low, int high) {
    random->state += 0x9E3779B97F4A7C15u;
    return low + (int)(mixed(random->state) % (uint64_t)(high - low + 1));
}

unsigned char byte_at(uint64_t seed, uint64_t position) {
    return (unsigned char)mixed((seed << 40) + position + 0x9E3779B97F4A7C15u);
}
