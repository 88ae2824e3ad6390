/* What the MPI itself says of a type: a second opinion, which is not always right. Open MPI 4.1's MPI_Pack and MPI_Unpack
 * lose the order of dense vectors that go backwards; MPICH's, 4.0 and 5, divide by zero for some types with empty parts. */
#ifndef OPINION_H
#define OPINION_H

#include "check.h"

/* Whether it is asked for. */
extern int asks_mpi;

/* Whether MPI_Pack makes `expected` of `count` elements at `base`. */
void ask_for_packing(const void *base, int count, MPI_Datatype type, const unsigned char *expected, MPI_Aint bytes);

/* Whether MPI_Unpack puts `data` into `count` elements at `base` so that the `length` bytes of memory at `found` are then
 * as those at `expected`. */
void ask_for_unpacking(const unsigned char *data, MPI_Aint bytes, void *base, int count, MPI_Datatype type,
                       const unsigned char *found, const unsigned char *expected, MPI_Aint length);

/* By all ranks, at the end: fails where MPI has disagreed so often that it must be right. */
void weigh_opinions(void);

#endif
