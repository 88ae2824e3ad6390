/* Random datatypes. */
#ifndef RANDOM_TYPE_H
#define RANDOM_TYPE_H

#include "random.h"
#include "type.h"

struct wish {
    struct random *random;
    /* What it is made of; NULL: of anything. */
    const struct leaf *leaf;
    /* Places do not descend and nothing is selected twice, also when it is repeated by its extent. Without it, there are
     * negative strides and extents, and overlaps. */
    int is_monotonic;
    /* What places in bytes are multiples of. */
    MPI_Aint unit;
    /* About how many leaves there may be, and how deep they may lie. */
    long leaves;
    int depth;
};

/* Whether types are to be such as old ROMIOs flatten without errors: no pairs, no empty blocks, in memory as in files no
 * overlaps and places that only ascend, bounds where the data is, no functions for large counts. */
extern int is_tame;

/* A type that is not committed. */
struct type *random_type(const struct wish *wish);

/* One with data, none of it at a negative place; monotonic. */
struct type *random_file_type(const struct wish *wish);

/* One that selects a million pieces or so, monotonic. */
struct type *random_huge_type(const struct wish *wish);

/* `type` with other bounds. */
struct type *resized(struct type *type, MPI_Aint low, MPI_Aint extent);

/* One of `type` at a place in bytes. */
struct type *placed(struct type *type, MPI_Aint at);

/* `blocks` of `part`, whose lengths and places are to be set. */
struct type blocks_of(enum kind kind, struct type *part, MPI_Count blocks);

struct type *leaf_type(const struct leaf *leaf);

extern const struct leaf byte_leaf;

#endif
