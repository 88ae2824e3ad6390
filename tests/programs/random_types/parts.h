/* The kinds of checks: each does all of one seed's. */
#ifndef PARTS_H
#define PARTS_H

#include "check.h"
#include "methods.h"
#include "operand.h"

/* Whether the file's end is put far out before anything is written, and nonblocking collective routines are left out:
 * what stock drivers need, see the test. */
extern int is_extended, lacks_nonblocking_collectives;

/* A method that may be used; the same for the same numbers. */
const struct method *any_method(struct random *random);

/* A new file, which is deleted on close. */
MPI_File open_new(MPI_Comm communicator, const char *name, struct random *random);

/* By one rank alone. */
void check_memory_side(const char *name, uint64_t seed);
void check_file_side(const char *name, uint64_t seed);
/* Reads that come to the end of the file. */
void check_ends(const char *name, uint64_t seed);
/* File types whose extent is less than what they span, so that the next one begins in the gaps of the one before. */
void check_interlaced(const char *name, uint64_t seed);
/* File types that span many gigabytes. */
void check_far(const char *name, uint64_t seed);

/* By all ranks, in one file. */
void check_together(const char *name, uint64_t seed);

#endif
