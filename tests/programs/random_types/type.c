#include "type.h"

#include "large.h"
#include "map.h"

static int *integers(const MPI_Count *from, MPI_Count count) {
    int *to = malloc(sizeof *to * (size_t)(count + 1));
    for (MPI_Count i = 0; i < count; i++) to[i] = (int)from[i];
    return to;
}

static MPI_Aint *addresses(const MPI_Count *from, MPI_Count count) {
    MPI_Aint *to = malloc(sizeof *to * (size_t)(count + 1));
    for (MPI_Count i = 0; i < count; i++) to[i] = (MPI_Aint)from[i];
    return to;
}

static MPI_Datatype *handles(const struct type *type) {
    MPI_Datatype *to = malloc(sizeof *to * (size_t)(type->part_count + 1));
    for (int i = 0; i < type->part_count; i++) to[i] = type->parts[i]->handle;
    return to;
}

static int construct_of_blocks(const struct type *type, MPI_Datatype *made) {
    const int blocks = (int)type->blocks;
    int is_alike = type->kind == INDEXED_BLOCK || type->kind == HINDEXED_BLOCK;
    int *lengths = integers(type->lengths, is_alike ? 1 : blocks), *places = integers(type->places, blocks);
    MPI_Aint *at = addresses(type->places, blocks);
    MPI_Datatype *parts = handles(type);
    int code;
    switch (type->kind) {
    case INDEXED: code = MPI_Type_indexed(blocks, lengths, places, *parts, made); break;
    case HINDEXED: code = MPI_Type_create_hindexed(blocks, lengths, at, *parts, made); break;
    case INDEXED_BLOCK: code = MPI_Type_create_indexed_block(blocks, *lengths, places, *parts, made); break;
    case HINDEXED_BLOCK: code = MPI_Type_create_hindexed_block(blocks, *lengths, at, *parts, made); break;
    default: code = MPI_Type_create_struct(blocks, lengths, at, parts, made); break;
    }
    free(lengths);
    free(places);
    free(at);
    free(parts);
    return code;
}

static int construct_array(const struct type *type, MPI_Datatype *made) {
    const int n = type->dimensions;
    int *whole = integers(type->whole, n), *part = integers(type->part, n), *from = integers(type->from, n);
    MPI_Datatype old = type->parts[0]->handle;
    int code = type->kind == SUBARRAY
                   ? MPI_Type_create_subarray(n, whole, part, from, type->order, old, made)
                   : MPI_Type_create_darray(type->array_ranks, type->array_rank, n, whole, type->distribution,
                                            type->argument, type->grid, type->order, old, made);
    free(whole);
    free(part);
    free(from);
    return code;
}

static int construct(const struct type *type, MPI_Datatype *made) {
    if (type->is_large) return construct_large(type, made);
    MPI_Datatype old = type->part_count > 0 ? type->parts[0]->handle : MPI_BYTE;
    switch (type->kind) {
    case CONTIGUOUS: return MPI_Type_contiguous((int)type->blocks, old, made);
    case VECTOR: return MPI_Type_vector((int)type->blocks, (int)*type->lengths, (int)*type->places, old, made);
    case HVECTOR:
        return MPI_Type_create_hvector((int)type->blocks, (int)*type->lengths, (MPI_Aint)*type->places, old, made);
    case SUBARRAY:
    case DARRAY: return construct_array(type, made);
    case RESIZED: return MPI_Type_create_resized(old, type->given_low, type->given_extent, made);
    case DUP: return MPI_Type_dup(old, made);
    default: return construct_of_blocks(type, made);
    }
}

struct type *make(struct type given) {
    struct type *type = malloc(sizeof *type);
    *type = given;
    if (type->kind == LEAF) {
        type->handle = type->leaf.handle;
    } else {
        MPI_OK(construct(type, &type->handle));
        for (int i = 0; i < type->part_count; i++) free_handle(type->parts[i]);
    }
    int size;
    MPI_OK(MPI_Type_size(type->handle, &size));
    MPI_OK(MPI_Type_get_extent(type->handle, &type->lower, &type->extent));
    type->size = size;
    struct map map = map_of(type, 1, 0);
    EQUAL(map.bytes, type->size);
    type->low = map.low;
    type->high = map.high;
    free(map.runs);
    return type;
}

void commit(struct type *type) {
    if (type->kind != LEAF) MPI_OK(MPI_Type_commit(&type->handle));
}

void free_handle(struct type *type) {
    if (type->kind != LEAF && type->handle != MPI_DATATYPE_NULL) MPI_OK(MPI_Type_free(&type->handle));
}

void discard(struct type *type) {
    free_handle(type);
    for (int i = 0; i < type->part_count; i++) discard(type->parts[i]);
    free(type->parts);
    free(type->lengths);
    free(type->places);
    free(type);
}
