/* MPI-4's constructors with MPI_Count instead of int, in those MPIs that have them. */
#ifndef LARGE_H
#define LARGE_H

#include "type.h"

int has_large_counts(void);

/* Whether file types may be made so: up to MPI 4.0, ROMIO's MPI_File_set_view ends the program then. */
int has_large_views(void);

/* Makes what `type` describes; not LEAF, not DUP. */
int construct_large(const struct type *type, MPI_Datatype *made);

#endif
