/* Buffers of any datatype, every byte of which is compared. */
#ifndef BUFFER_H
#define BUFFER_H

#include <mpi.h>
#include <stddef.h>

#include "random.h"

/* Datatypes that consist of integers, so many in one. */
struct integers {
    MPI_Datatype type;
    int count;
};

enum { KINDS = 9 };
extern struct integers kinds[KINDS];
void make_kinds(void);
void free_kinds(void);

/* Room for elements around a place: some before it, and some behind. */
struct buffer {
    unsigned char *bytes;
    size_t length;
    void *at;
};

/* One for `elements` elements of a datatype, filled with what the seed says. */
struct buffer buffer_of(MPI_Datatype type, long elements, uint64_t seed);
struct buffer copy_of(const struct buffer *buffer);
void free_buffer(struct buffer *buffer);
/* The integers of so many elements, and the reverse. */
int *plain_of(const void *at, MPI_Datatype type, int elements, int integers);
void spread(const int *plain, int integers, void *at, MPI_Datatype type, int elements);
/* Fails where they differ; with `alone` there are only `theirs`. */
void same(const struct buffer *ours, const struct buffer *theirs);
/* A number for all buffers of this process that were compared, for comparison with another run. */
uint64_t digest(void);

#endif
