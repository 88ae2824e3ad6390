#ifndef ORACLE_H
#define ORACLE_H

#include <mpi.h>

#include "random.h"

/* One call of a collective, by both. */
struct round {
    MPI_Comm comm;
    int rank, size, root, is_in_place;
    /* What data that is moved consists of: of integers, in multiples of a number that all datatypes have part in, or of
     * bytes. */
    int is_of_bytes;
    /* How much data there is, in such units or elements. */
    int units;
    uint64_t seed;
    /* The same numbers for all ranks, and others for each. */
    struct random shared, own;
};

/* Says what the round does, for messages. */
void describe(const struct round *round, const char *what);

void move(struct round *round);
void reduce(struct round *round);

void make_operations(void);
void free_operations(void);

#endif
