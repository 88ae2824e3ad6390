/* The parts of the program: each makes one file, whose bytes depend on nothing but the number of ranks. */
#ifndef PARTS_H
#define PARTS_H

#include "check.h"
#include "random.h"

/* Whether nonblocking collective routines may be used: stock Open MPI 4.1's ROMIO crashes in them. */
extern int nonblocking_collectives;

/* Fills `bytes` bytes with what rank `of_rank` writes from `position` on. */
void fill(void *buffer, int of_rank, long position, long bytes);

void write_contiguous(MPI_File file);
void write_strided(MPI_File file);
void write_collective(MPI_File file);
void write_shared(MPI_File file);
void write_nonblocking(MPI_File file);
void write_nonblocking_collective(MPI_File file);
void write_external32(MPI_File file);
void write_random(MPI_File file, int seed);

/* A random type that selects from a file what is this rank's; no byte is two ranks', and each rank has some. All ranks
 * call it with `random` in the same state. */
MPI_Datatype random_filetype(struct random *random, MPI_Datatype etype);

/* A random type that selects `count` elements, one where that is 0, from a buffer, which then has `*extent` bytes. */
MPI_Datatype random_memory(struct random *random, MPI_Datatype etype, int count, MPI_Aint *extent);

#endif
