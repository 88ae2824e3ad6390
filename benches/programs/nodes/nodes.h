/* What the benchmarks of files over several nodes share. */
#ifndef NODES_H
#define NODES_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

/* The program's name for each, and what it does with the file of that name; the arguments that follow it. */
void blocks(const char *file, char **arguments);
void bt(const char *file, char **arguments);
void remote(const char *file, char **arguments);
void pieces(const char *file, char **arguments);
void messages(const char *file, char **arguments);
void idle(const char *file, char **arguments);
void compute(const char *file, char **arguments);

/* Opens the file for all ranks. */
MPI_File opened(const char *file, int mode);

/* Closes it. */
void closed(MPI_File *handle);

/* Waits for all ranks and leaves the processor to others meanwhile. */
void calm_barrier(void);

/* Waits for all ranks and gives the time. */
double started(void);

/* Rank 0 prints the longest time of all ranks since `since`. */
void tell_time(const char *what, double since);

/* Rank 0 prints a number. */
void tell(const char *what, double value);

/* Rank 0 prints how many words were not as they should be, on all ranks together. */
void tell_wrong(long wrong);

/* What word number `index` of the file is, in round `round`. */
int64_t word(int64_t index, int64_t round);

/* How many of `count` words are not those from number `first` on. */
long differing(const int64_t *words, int64_t first, int64_t count, int64_t round);

/* Memory, of which every page has been touched. */
void *touched(size_t bytes);

/* A number among the arguments. */
int64_t number(const char *text);

#endif
