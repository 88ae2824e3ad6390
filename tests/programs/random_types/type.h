/* Datatypes that know how they were made, and so what they must be. */
#ifndef TYPE_H
#define TYPE_H

#include "check.h"

enum kind {
    LEAF,
    CONTIGUOUS,
    VECTOR,
    HVECTOR,
    INDEXED,
    HINDEXED,
    INDEXED_BLOCK,
    HINDEXED_BLOCK,
    STRUCT,
    SUBARRAY,
    DARRAY,
    RESIZED,
    DUP,
};

enum { MOST_DIMENSIONS = 4 };

/* Bytes in a row; `at` is counted from the buffer, or from the beginning of a tile. */
struct run {
    MPI_Aint at, length;
};

/* Something that types are made of: one of the MPI's own, or an etype. */
struct leaf {
    const char *name;
    MPI_Datatype handle;
    int runs;
    struct run run[2];
};

struct type {
    enum kind kind;
    /* MPI_DATATYPE_NULL in a part of another type. */
    MPI_Datatype handle;
    /* Made by the function for large counts. */
    int is_large;
    struct leaf leaf;
    /* Owned; a STRUCT has as many parts as blocks, a LEAF none, others one. */
    struct type **parts;
    int part_count;
    /* Blocks: `lengths` and `places` are owned and have an element each; VECTOR's only place is the stride, and where
     * all blocks have the same length there is only one of these. */
    MPI_Count blocks, *lengths, *places;
    /* Arrays. */
    int dimensions, order, array_rank, array_ranks;
    MPI_Count whole[MOST_DIMENSIONS], part[MOST_DIMENSIONS], from[MOST_DIMENSIONS];
    int distribution[MOST_DIMENSIONS], argument[MOST_DIMENSIONS], grid[MOST_DIMENSIONS];
    /* What RESIZED was asked for. */
    MPI_Aint given_low, given_extent;

    /* As the MPI says. */
    MPI_Aint size, lower, extent;
    /* Where its data begins and ends, both 0 where it has none. */
    MPI_Aint low, high;
};

/* Makes the type that `given` describes, and takes what that owns. The parts' handles are freed. */
struct type *make(struct type given);

/* Commits it, and a leaf not. */
void commit(struct type *type);

/* Frees its handle, and goes on to know what it was. */
void free_handle(struct type *type);

/* Frees all of it. */
void discard(struct type *type);

/* Writes how it was made. */
void describe(FILE *to, const struct type *type);

#endif
