#include "buffer.h"

#include "check.h"
#include "stock.h"

struct units kinds[KINDS], byte_kinds[BYTE_KINDS];

static void made(struct units *kind, MPI_Datatype type, int count) {
    MPI_OK(MPI_Type_commit(&type));
    *kind = (struct units){type, count};
}

void make_kinds(void) {
    MPI_Datatype type, inner;
    kinds[0] = (struct units){MPI_INT, 1};
    MPI_OK(MPI_Type_contiguous(3, MPI_INT, &type));
    made(&kinds[1], type, 3);
    MPI_OK(MPI_Type_vector(3, 2, 3, MPI_INT, &type));
    made(&kinds[2], type, 6);
    MPI_OK(MPI_Type_create_resized(MPI_INT, -4, 16, &type));
    made(&kinds[3], type, 1);
    /* Without gaps, but the second is first. */
    MPI_Aint descending[] = {4, 0}, below[] = {-8, 4}, above[] = {8, 16, 24};
    int ones[] = {1, 1, 1};
    MPI_OK(MPI_Type_create_hindexed(2, ones, descending, MPI_INT, &type));
    made(&kinds[4], type, 2);
    MPI_OK(MPI_Type_create_hindexed(2, ones, below, MPI_INT, &type));
    made(&kinds[5], type, 2);
    MPI_OK(MPI_Type_create_hindexed(3, ones, above, MPI_INT, &type));
    made(&kinds[6], type, 3);
    MPI_OK(MPI_Type_contiguous(2, MPI_INT, &inner));
    MPI_OK(MPI_Type_create_resized(inner, 0, 12, &type));
    MPI_OK(MPI_Type_free(&inner));
    inner = type;
    MPI_OK(MPI_Type_contiguous(3, inner, &type));
    MPI_OK(MPI_Type_free(&inner));
    made(&kinds[7], type, 6);
    MPI_OK(MPI_Type_dup(MPI_INT, &type));
    made(&kinds[8], type, 1);
    MPI_OK(MPI_Type_dup(MPI_DOUBLE, &type));
    made(&kinds[9], type, 2);
    MPI_OK(MPI_Type_contiguous(4, MPI_BYTE, &type));
    made(&kinds[10], type, 1);
    byte_kinds[0] = (struct units){MPI_BYTE, 1};
    MPI_OK(MPI_Type_create_resized(MPI_BYTE, -1, 3, &type));
    made(&byte_kinds[1], type, 1);
    MPI_OK(MPI_Type_dup(MPI_CHAR, &type));
    made(&byte_kinds[2], type, 1);
}

void free_kinds(void) {
    for (int kind = 1; kind < KINDS; kind++) MPI_OK(MPI_Type_free(&kinds[kind].type));
    for (int kind = 1; kind < BYTE_KINDS; kind++) MPI_OK(MPI_Type_free(&byte_kinds[kind].type));
}

struct buffer buffer_of(MPI_Datatype type, long elements, uint64_t seed) {
    MPI_Aint lower, extent, true_lower, true_extent;
    MPI_OK(MPI_Type_get_extent(type, &lower, &extent));
    MPI_OK(MPI_Type_get_true_extent(type, &true_lower, &true_extent));
    enum { MARGIN = 64 };
    struct buffer buffer = {.length = MARGIN + (size_t)(elements * extent) + (size_t)true_extent + MARGIN};
    buffer.bytes = malloc(buffer.length);
    HOLDS(buffer.bytes != NULL);
    for (size_t i = 0; i < buffer.length; i++) buffer.bytes[i] = byte_at(seed, i);
    buffer.at = buffer.bytes + MARGIN;
    return buffer;
}

struct buffer copy_of(const struct buffer *buffer) {
    struct buffer copy = *buffer;
    copy.bytes = malloc(copy.length);
    HOLDS(copy.bytes != NULL);
    memcpy(copy.bytes, buffer->bytes, copy.length);
    copy.at = copy.bytes + ((unsigned char *)buffer->at - buffer->bytes);
    return copy;
}

char *plain_of(const void *at, MPI_Datatype type, int elements, int length) {
    char *plain = malloc((size_t)length + 1);
    int end = 0;
    HOLDS(plain != NULL);
    MPI_OK(MPI_Pack(at, elements, type, plain, length, &end, MPI_COMM_SELF));
    EQUAL(end, length);
    return plain;
}

void spread(const char *plain, int length, void *at, MPI_Datatype type, int elements) {
    int end = 0;
    MPI_OK(MPI_Unpack(plain, length, &end, at, elements, type, MPI_COMM_SELF));
    EQUAL(end, length);
}

void free_buffer(struct buffer *buffer) { free(buffer->bytes); }

/* FNV-1a. */
static uint64_t all = 0xcbf29ce484222325;

uint64_t digest(void) { return all; }

void same(const struct buffer *ours, const struct buffer *theirs) {
    const struct buffer *result = alone ? theirs : ours;
    for (size_t i = 0; i < result->length; i++) all = (all ^ result->bytes[i]) * 0x100000001b3;
    if (alone) return;
    for (size_t i = 0; i < ours->length; i++)
        CHECK(ours->bytes[i] == theirs->bytes[i], "byte %zd of the buffer is 0x%02x, not 0x%02x",
              (ptrdiff_t)i - ((unsigned char *)ours->at - ours->bytes), ours->bytes[i], theirs->bytes[i]);
}
