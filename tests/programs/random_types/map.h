/* What a type selects, by the letter of the standard: its runs of bytes in the order of the type map. */
#ifndef MAP_H
#define MAP_H

#include "type.h"

struct map {
    /* Owned. Runs that follow each other without a gap are one. */
    struct run *runs;
    long count, room;
    MPI_Aint bytes;
    /* Where the first byte is and the last one ends, both 0 where there is none. */
    MPI_Aint low, high;
};

/* `count` of a type one after the other, the first at `base`. */
struct map map_of(const struct type *type, long count, MPI_Aint base);

/* Whether a byte is selected twice. */
int overlaps(const struct map *map);

/* Copies the first `bytes` of what `map` selects from the buffer at `base` to `packed`. */
void gather(const struct map *map, const void *base, unsigned char *packed, MPI_Aint bytes);

/* Copies `bytes` from `packed` to the first that `map` selects. */
void scatter(const struct map *map, void *base, const unsigned char *packed, MPI_Aint bytes);

#endif
