/* What the benchmarks of files share. */
#ifndef FILES_H
#define FILES_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

/* The program's name for each, and what it does with the file of that name; the arguments that follow it. On one node: */
void coll_perf(const char *file, char **arguments);
void btio(const char *file, char **arguments);
void noncontig(const char *file, char **arguments);
void ior(const char *file, char **arguments);
void small(const char *file, char **arguments);
void apart(const char *file, char **arguments);
void open_close(const char *file, char **arguments);
void first_write(const char *file, char **arguments);
void memory(const char *file, char **arguments);
/* Over several nodes: */
void remote(const char *file, char **arguments);
void remote_view(const char *file, char **arguments);
void pieces(const char *file, char **arguments);
void messages(const char *file, char **arguments);
void idle(const char *file, char **arguments);
void compute(const char *file, char **arguments);

/* Opens the file for all ranks. */
MPI_File opened(const char *file, int mode);

/* Closes it. */
void closed(MPI_File *handle);

/* What word number `index` of the file is, in round `round`. */
int64_t word(int64_t index, int64_t round);

/* How many of `count` words are not those from number `first` on. */
long differing(const int64_t *words, int64_t first, int64_t count, int64_t round);

/* Memory, of which every page has been touched. */
void *touched(size_t bytes);

/* A number among the arguments. */
int64_t number(const char *text);

#endif
