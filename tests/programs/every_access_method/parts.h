/* The parts of the program. Each is called by all ranks and ends with all files closed. */
#ifndef PARTS_H
#define PARTS_H

#include "check.h"

/* `name` with something added to it, in memory that stays. */
const char *beside(const char *name, const char *addition);

/* Opens a file on all ranks that was not there before. */
MPI_File open_new(const char *name, int amode);

/* Makes what one rank did visible to the others, as MPI wants it done: sync, barrier, sync. */
void exchange(MPI_File file);

void test_placed(const char *name, int is_over_nodes);
void test_converted(const char *name);
void test_pairs(const char *name, int is_over_nodes);
void test_ends(const char *name);
void test_shared(const char *name);
void test_ordered(const char *name);
void test_sequential(const char *name);
void test_pointers(const char *name);
void test_sizes(const char *name);
void test_settings(const char *name);
void test_modes(const char *name);
void test_several(const char *name);

#endif
