/* A view of a file, and what it must come to see. */
#ifndef VIEW_H
#define VIEW_H

#include "operand.h"

struct etype {
    struct leaf leaf;
    int is_derived;
};

struct view {
    struct etype etype;
    struct type *type;
    MPI_Offset displacement;
    long tiles;
    /* All tiles' data, in the view's order: what was written, and 0; and of what size and where it is in the file. */
    unsigned char *stream, *is_written;
    MPI_Aint bytes;
    struct map map;
    /* Up to where there is something that was written, in the view's order. */
    MPI_Aint written;
};

struct etype random_etype(struct random *random);
void discard_etype(struct etype *etype);

/* What file types of this etype are like. */
struct wish wish_of(const struct etype *etype, struct random *random);

/* Takes both. */
struct view view_of(struct etype etype, struct type *type, MPI_Offset displacement, long tiles);
void discard_view(struct view *view);

/* Sets it; the handle of the file type is another one afterwards. */
void set_view(MPI_File file, struct view *view);

/* Sees the file as it is. */
void set_plain_view(MPI_File file);

/* A random operand for `most` bytes of the view. */
struct operand operand_for(const struct view *view, struct random *random, MPI_Aint most, int is_apart);

/* Writes the operand somewhere in these bytes of the view, and notes what is there now. */
void write_within(MPI_File file, const struct method *method, struct view *view, struct random *random,
                  MPI_Aint from, MPI_Aint to);

/* Reads from somewhere in what was written, and compares. */
void read_within(MPI_File file, const struct method *method, const struct view *view, struct random *random);

/* Where the last byte ends that was written, or the whole view. */
MPI_Offset end_of_written(const struct view *view);
MPI_Offset end_of_view(const struct view *view);

/* The bytes of a file of this size; the caller's. */
unsigned char *image_of(const struct view *view, MPI_Offset size);

/* Fails unless the file, seen as it is, has these bytes. */
void check_file(MPI_File file, const unsigned char *image, MPI_Offset size);

#endif
