/* What an access moves: so many of a type, in a buffer of its own. */
#ifndef OPERAND_H
#define OPERAND_H

#include "map.h"
#include "random_type.h"

struct operand {
    struct type *type;
    int count;
    struct map map;
    /* Where `map` counts from, and what the MPI is given: MPI_BOTTOM where the type has absolute addresses. */
    unsigned char *base;
    void *buffer;
    /* With absolute addresses: the type without, which MPICH's MPI_Pack wants, and how many. */
    MPI_Datatype relative;
    int relative_count;
    /* All memory that is around. */
    unsigned char *arena;
    MPI_Aint room;
};

/* Takes the type. */
struct operand operand_of(struct type *type, int count);

/* A random one with at most `most` bytes, all multiples of the leaf's; `is_apart`: nothing is selected twice. */
struct operand random_operand(const struct wish *wish, MPI_Aint most, int is_apart);

/* The same elements, but by absolute addresses; takes `operand`. */
struct operand absolute(struct operand operand);

void discard_operand(struct operand *operand);

/* Fills all memory around with a pattern. */
void fill(const struct operand *operand, uint64_t seed);

/* What MPI_Pack should make of it; the caller's. */
unsigned char *packed(const struct operand *operand);

/* Fails unless memory is what it was when it was filled with `seed`, except that there is `bytes` of `data` where the
 * type says, as MPI_Unpack should put it there. Where there are less than the operand has, the rest of it may be anything. */
void check_memory(const struct operand *operand, uint64_t seed, const unsigned char *data, MPI_Aint bytes);

/* Fails unless both are the same; positions are told from `from` on. */
void check_bytes(const char *what, const unsigned char *found, const unsigned char *expected, MPI_Aint bytes,
                 MPI_Offset from);

/* What is told when a check fails. */
void watch(const char *role, const struct type *type);
void watch_nothing(void);
extern int tells_types;

/* Tells an access, where types are told. */
void tell_access(const char *method, MPI_Aint bytes, MPI_Offset at);

#endif
