/* Buffers of any datatype, every byte of which is compared. */
#ifndef BUFFER_H
#define BUFFER_H

#include <mpi.h>
#include <stddef.h>

#include "random.h"

/* Datatypes that consist of units, so many in one: of integers, or of what is as long as these, or of bytes. The first
 * of each is the unit. */
struct units {
    MPI_Datatype type;
    int count;
};

enum { KINDS = 11, BYTE_KINDS = 3 };
extern struct units kinds[KINDS], byte_kinds[BYTE_KINDS];
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
/* The data of so many elements, so many bytes of it, and the reverse. */
char *plain_of(const void *at, MPI_Datatype type, int elements, int length);
void spread(const char *plain, int length, void *at, MPI_Datatype type, int elements);
/* Fails where they differ; with `alone` there are only `theirs`. */
void same(const struct buffer *ours, const struct buffer *theirs);
/* A number for all buffers of this process that were compared, for comparison with another run. */
uint64_t digest(void);

#endif
