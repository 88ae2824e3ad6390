/* Collectives that combine data. Numbers are such that nothing is rounded: the order of operands does not show, but
 * where it must. */
#include <complex.h>
#include <stdbool.h>
#include <stdint.h>

#include "buffer.h"
#include "check.h"
#include "oracle.h"
#include "stock.h"

enum { PRIME = 32749 };

/* x -> a x + b, as elements of two integers; in the second type there are gaps, before and behind, too. */
static MPI_Datatype maps[2];
static MPI_Op after, together;

struct map {
    int a, b;
};

static struct map *map_in(char *element, MPI_Aint extent, struct map *whole) {
    int gap = extent == sizeof(struct map) ? 0 : 8;
    memcpy(&whole->a, element + gap, sizeof(int));
    memcpy(&whole->b, element + gap + (gap ? 8 : 4), sizeof(int));
    return whole;
}

static void put_map(char *element, MPI_Aint extent, struct map whole) {
    int gap = extent == sizeof(struct map) ? 0 : 8;
    memcpy(element + gap, &whole.a, sizeof(int));
    memcpy(element + gap + (gap ? 8 : 4), &whole.b, sizeof(int));
}

/* First the left one: not commutative. */
static void composed(void *left, void *right, int *count, MPI_Datatype *type) {
    MPI_Aint lower, extent;
    MPI_Type_get_extent(*type, &lower, &extent);
    for (int i = 0; i < *count; i++) {
        struct map one, two;
        map_in((char *)left + i * extent, extent, &one);
        map_in((char *)right + i * extent, extent, &two);
        struct map both = {(int)((int64_t)two.a * one.a % PRIME), (int)(((int64_t)two.a * one.b + two.b) % PRIME)};
        put_map((char *)right + i * extent, extent, both);
    }
}

static void added(void *left, void *right, int *count, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *count; i++) ((int *)right)[i] = (((int *)right)[i] + ((int *)left)[i]) % PRIME;
}

void make_operations(void) {
    MPI_Datatype type;
    int ones[] = {1, 1};
    MPI_Aint places[] = {8, 16};
    MPI_OK(MPI_Type_contiguous(2, MPI_INT, &maps[0]));
    MPI_OK(MPI_Type_create_hindexed(2, ones, places, MPI_INT, &type));
    MPI_OK(MPI_Type_create_resized(type, 0, 32, &maps[1]));
    MPI_OK(MPI_Type_free(&type));
    MPI_OK(MPI_Type_commit(&maps[0]));
    MPI_OK(MPI_Type_commit(&maps[1]));
    MPI_OK(MPI_Op_create(composed, 0, &after));
    MPI_OK(MPI_Op_create(added, 1, &together));
}

void free_operations(void) {
    MPI_OK(MPI_Op_free(&after));
    MPI_OK(MPI_Op_free(&together));
    MPI_OK(MPI_Type_free(&maps[0]));
    MPI_OK(MPI_Type_free(&maps[1]));
}

#define FILL(type, value)                                                                                     \
    for (long i = 0; i < elements; i++) ((type *)buffer->at)[i] = (type)(value)
#define PAIR(type)                                                                                            \
    {                                                                                                         \
        struct pair {                                                                                         \
            type value;                                                                                       \
            int place;                                                                                        \
        } *pairs = buffer->at;                                                                                \
        for (long i = 0; i < elements; i++) {                                                                 \
            pairs[i].value = (type)between(random, -2, 2);                                                    \
            pairs[i].place = between(random, 0, 9);                                                           \
        }                                                                                                     \
    }

/* Values that are not 0: the sign of a 0 depends on the order of operands. */
static int value(struct random *random) {
    static const int values[] = {-2, -1, 1, 2};
    return values[between(random, 0, 3)];
}

/* Puts values of the type into the buffer. */
static void fill(struct buffer *buffer, MPI_Datatype type, long elements, struct random *random) {
    if (type == MPI_DOUBLE) FILL(double, value(random));
    else if (type == MPI_FLOAT) FILL(float, value(random));
    else if (type == MPI_LONG_DOUBLE) FILL(long double, value(random));
    else if (type == MPI_C_DOUBLE_COMPLEX) FILL(double complex, value(random) + I * value(random));
    else if (type == MPI_C_FLOAT_COMPLEX) FILL(float complex, value(random) + I * value(random));
    else if (type == MPI_C_BOOL) FILL(bool, between(random, 0, 1));
    else if (type == MPI_2INT) PAIR(int)
    else if (type == MPI_DOUBLE_INT) PAIR(double)
    else if (type == MPI_FLOAT_INT) PAIR(float)
    else if (type == MPI_LONG_INT) PAIR(long)
    else if (type == MPI_SHORT_INT) PAIR(short)
    else if (type == maps[0] || type == maps[1]) {
        MPI_Aint lower, extent;
        MPI_OK(MPI_Type_get_extent(type, &lower, &extent));
        for (long i = 0; i < elements; i++)
            put_map((char *)buffer->at + i * extent, extent,
                    (struct map){between(random, 1, PRIME - 1), between(random, 0, PRIME - 1)});
    } else if (type == MPI_INT) FILL(int, between(random, 0, PRIME - 1));
    /* MPICH 4.0 takes unsigned integers for signed ones; Open MPI 4.1 has the largest short integer where a sum is larger. */
    else if (type == MPI_INT8_T) FILL(int8_t, between(random, -2, 2));
    else if (type == MPI_UINT8_T) FILL(uint8_t, between(random, 0, 2));
    else if (type == MPI_INT16_T) FILL(int16_t, between(random, -4, 4));
    else if (type == MPI_UINT16_T) FILL(uint16_t, between(random, 0, 4));
    else if (type == MPI_UINT32_T || type == MPI_UNSIGNED) FILL(uint32_t, between(random, 0, INT32_MAX - 1));
    else if (type == MPI_UINT64_T) FILL(uint64_t, (uint64_t)between(random, 0, INT32_MAX - 1) << 32 | 5);
    /* All bytes are integers otherwise. */
}

/* Copies maps from elements of one type to those of another. */
static void convert(const struct buffer *from, MPI_Datatype from_type, struct buffer *to, MPI_Datatype to_type,
                    long elements) {
    MPI_Aint lower, extents[2];
    MPI_OK(MPI_Type_get_extent(from_type, &lower, &extents[0]));
    MPI_OK(MPI_Type_get_extent(to_type, &lower, &extents[1]));
    for (long i = 0; i < elements; i++) {
        struct map map;
        map_in((char *)from->at + i * extents[0], extents[0], &map);
        put_map((char *)to->at + i * extents[1], extents[1], map);
    }
}

/* Compares the data alone where implementations may do with gaps what they like. */
static void same_data(struct buffer *ours, struct buffer *theirs, MPI_Datatype type, long elements) {
    int size, end[] = {0, 0};
    MPI_OK(MPI_Type_size(type, &size));
    struct buffer *both[] = {ours, theirs};
    char *packed[2];
    for (int i = 0; i < 2; i++) {
        packed[i] = malloc((size_t)(elements * size + 1));
        MPI_OK(MPI_Pack(both[i]->at, (int)elements, type, packed[i], (int)(elements * size), &end[i], MPI_COMM_SELF));
    }
    if (type == MPI_LONG_DOUBLE) {
        for (long i = 0; i < elements; i++)
            HOLDS(((long double *)packed[0])[i] == ((long double *)packed[1])[i]);
    } else if (type == MPI_C_DOUBLE_COMPLEX) {
        for (long i = 0; i < elements; i++)
            HOLDS(((double complex *)packed[0])[i] == ((double complex *)packed[1])[i]);
    } else if (type == MPI_C_FLOAT_COMPLEX) {
        for (long i = 0; i < elements; i++)
            HOLDS(((float complex *)packed[0])[i] == ((float complex *)packed[1])[i]);
    } else {
        HOLDS(memcmp(packed[0], packed[1], (size_t)(elements * size)) == 0);
    }
    free(packed[0]), free(packed[1]);
}

struct reduction {
    MPI_Datatype type;
    MPI_Op op;
    int is_of_data;
    /* Of those for its type. */
    int number;
};

static struct reduction drawn(struct random *random) {
    MPI_Op ops[] = {MPI_MAX, MPI_MIN, MPI_SUM, MPI_PROD, MPI_LAND, MPI_LOR, MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR};
    MPI_Datatype integers[] = {MPI_INT8_T,   MPI_UINT8_T,  MPI_INT16_T, MPI_UINT16_T, MPI_INT32_T,
                               MPI_UINT32_T, MPI_INT64_T, MPI_UINT64_T, MPI_LONG,     MPI_UNSIGNED};
    MPI_Datatype pairs[] = {MPI_2INT, MPI_DOUBLE_INT, MPI_FLOAT_INT, MPI_LONG_INT, MPI_SHORT_INT};
    int kind = between(random, 0, 9), of_ten = between(random, 0, 9), of_four = between(random, 0, 3);
    int of_two = of_four % 2, type = between(random, 0, 9);
    switch (kind) {
        case 0:
        case 1: return (struct reduction){integers[type], ops[of_ten], 0, of_ten};
        case 2: return (struct reduction){MPI_DOUBLE, ops[of_four], 0, of_four};
        case 3: return (struct reduction){MPI_FLOAT, ops[of_four], 0, of_four};
        case 4: return (struct reduction){pairs[type % 5], of_two ? MPI_MINLOC : MPI_MAXLOC, 1, of_two};
        case 5:
            return (struct reduction){type % 2 ? MPI_C_DOUBLE_COMPLEX : MPI_C_FLOAT_COMPLEX, ops[2 + of_two], 1,
                                      2 + of_two};
        case 6:
            return type % 2 ? (struct reduction){MPI_LONG_DOUBLE, MPI_SUM, 1, 2}
                            : (struct reduction){MPI_C_BOOL, MPI_LXOR, 0, 6};
        case 7:
            return type % 2 ? (struct reduction){MPI_BYTE, MPI_BXOR, 0, 9}
                            : (struct reduction){MPI_INT, together, 0, 10};
        default: return (struct reduction){maps[type % 2], after, 0, 11 + type % 2};
    }
}

static void call(struct round *round, const struct collectives *by, int which, const struct reduction *reduction,
                 const int *counts, struct buffer *send, struct buffer *receive, int is_in_place) {
    /* MPICH 4.0 follows MPI_IN_PLACE where the operation of a reduce is not commutative. */
    int is_there = is_in_place && (by != &stock || which != 0);
    void *in = is_there ? MPI_IN_PLACE : send->at, *out = receive->at;
    MPI_Datatype type = reduction->type;
    MPI_Op op = reduction->op;
    int count = round->units, is_root = round->rank == round->root;
    switch (which) {
        case 0: MPI_OK(by->Reduce(in, is_root ? out : NULL, count, type, op, round->root, round->comm)); break;
        case 1: MPI_OK(by->Allreduce(in, out, count, type, op, round->comm)); break;
        case 2: MPI_OK(by->Reduce_scatter(in, out, counts, type, op, round->comm)); break;
        case 3: MPI_OK(by->Reduce_scatter_block(in, out, count, type, op, round->comm)); break;
        case 4: MPI_OK(by->Scan(in, out, count, type, op, round->comm)); break;
        default: MPI_OK(by->Exscan(in, out, count, type, op, round->comm));
    }
}

void reduce(struct round *round) {
    const char *names[] = {"reduce", "allreduce", "reduce_scatter", "reduce_scatter_block", "scan", "exscan"};
    int which = between(&round->shared, 0, 5), size = round->size, counts[64];
    struct reduction reduction = drawn(&round->shared);
    char type_name[MPI_MAX_OBJECT_NAME] = "", what[MPI_MAX_OBJECT_NAME + 64];
    int length;
    MPI_OK(MPI_Type_get_name(reduction.type, type_name, &length));
    snprintf(what, sizeof what, "%s of %s by operation %d", names[which], type_name, reduction.number);
    describe(round, what);
    long all = round->units, received = all;
    if (which == 2) {
        all = 0;
        for (int i = 0; i < size; i++) {
            counts[i] = between(&round->shared, 0, 3) ? between(&round->shared, 0, round->units) : 0;
            all += counts[i];
        }
        received = counts[round->rank];
    } else if (which == 3) {
        all = (long)round->units * size;
    }
    struct buffer send = buffer_of(reduction.type, all, round->seed + round->rank);
    fill(&send, reduction.type, all, &round->own);
    struct buffer ours = buffer_of(reduction.type, all, ~round->seed);
    int is_root = round->rank == round->root;
    int is_in_place = round->is_in_place && (which > 0 || is_root);
    if (is_in_place) memcpy(ours.bytes, send.bytes, send.length);
    struct buffer theirs = copy_of(&ours);
    /* MPICH writes beyond its own buffers, too, where it does this without blocking, as it does with an operation of ours. */
    const struct collectives *by = reduction.type == maps[1] ? &named : tried;
    if (!alone) call(round, by, which, &reduction, counts, &send, &ours, is_in_place);
    if (reduction.type == maps[1]) {
        /* MPICH 4.0 writes beyond its own buffers where data begins behind the place of an element. */
        struct reduction plain = {maps[0], after, 0, 11};
        struct buffer operands = buffer_of(maps[0], all, 0), result = buffer_of(maps[0], all, 0);
        convert(&send, maps[1], &operands, maps[0], all);
        if (is_in_place) convert(&send, maps[1], &result, maps[0], all);
        call(round, &stock, which, &plain, counts, &operands, &result, is_in_place);
        convert(&result, maps[0], &theirs, maps[1], received);
        free_buffer(&operands), free_buffer(&result);
    } else {
        call(round, &stock, which, &reduction, counts, &send, &theirs, is_in_place);
    }
    if (alone) memcpy(ours.bytes, theirs.bytes, ours.length);
    int has_result = which == 0 ? is_root : which == 5 ? round->rank > 0 : 1;
    /* In place, what lies behind the result is nobody's. */
    int is_of_data = reduction.is_of_data || (is_in_place && (which == 2 || which == 3));
    if (has_result && is_of_data) same_data(&ours, &theirs, reduction.type, received);
    else if (has_result) same(&ours, &theirs);
    free_buffer(&send), free_buffer(&ours), free_buffer(&theirs);
}
