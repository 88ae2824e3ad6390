/* Numbers that look random and are the same for the same seed. */
#ifndef RANDOM_H
#define RANDOM_H

#include <stdint.h>

struct random {
    uint64_t state;
};

/* A number from `low` to `high`. */
int between(struct random *random, int low, int high);

/* The byte at a position of an endless stream, of which each seed has its own. */
unsigned char byte_at(uint64_t seed, uint64_t position);

#endif
