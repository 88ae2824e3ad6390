/* What the MPI itself says of a type: a second opinion on what `map_of` says, by which svmio is judged. svmio has no
 * part in it: MPI_Pack and MPI_Unpack are the MPI's own, and svmio must do to the byte what the map says, whatever they
 * do.
 *
 * They are not always right. Open MPI 4.1's lose the order of dense vectors that go backwards, and bytes of types with
 * empty parts; MPICH's, 4.0 and 5, divide by zero for some types with empty parts, and lose the order of types whose
 * extent is negative. For such types alone they may disagree, and no more often than is known; each time is told. For
 * all others, one time is a failure. */
#ifndef OPINION_H
#define OPINION_H

#include "type.h"

/* Whether it is asked for. */
extern int asks_mpi;

/* Whether MPI_Pack makes `expected` of `count` elements at `base`; they are made as `made` is. */
void ask_for_packing(const struct type *made, const void *base, int count, MPI_Datatype type,
                     const unsigned char *expected, MPI_Aint bytes);

/* Whether MPI_Unpack puts `data` into `count` elements at `base` so that the `length` bytes of memory at `found` are
 * then as those at `expected`. */
void ask_for_unpacking(const struct type *made, const unsigned char *data, MPI_Aint bytes, void *base, int count,
                       MPI_Datatype type, const unsigned char *found, const unsigned char *expected, MPI_Aint length);

/* By all ranks, at the end: tells how often MPI was asked and has disagreed. Fails where that is more often than is
 * known. */
void weigh_opinions(void);

#endif
