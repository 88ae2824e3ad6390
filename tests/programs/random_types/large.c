#define _GNU_SOURCE
#include "large.h"

#include <dlfcn.h>

/* Of functions that not all MPIs have, so that the program can be linked with each. */
#define FUNCTION(name, ...) int (*name)(__VA_ARGS__) = (int (*)(__VA_ARGS__))dlsym(RTLD_DEFAULT, "MPI_Type_" #name)

typedef MPI_Count C;
typedef MPI_Datatype T;

int has_large_counts(void) { return dlsym(RTLD_DEFAULT, "MPI_Type_contiguous_c") != NULL; }

int has_large_views(void) {
    int version, subversion;
    MPI_Get_version(&version, &subversion);
    return has_large_counts() && version * 10 + subversion > 40;
}

int construct_large(const struct type *t, MPI_Datatype *made) {
    T old = t->part_count > 0 ? t->parts[0]->handle : MPI_BYTE;
    switch (t->kind) {
    case CONTIGUOUS: {
        FUNCTION(contiguous_c, C, T, T *);
        return contiguous_c(t->blocks, old, made);
    }
    case VECTOR: {
        FUNCTION(vector_c, C, C, C, T, T *);
        return vector_c(t->blocks, *t->lengths, *t->places, old, made);
    }
    case HVECTOR: {
        FUNCTION(create_hvector_c, C, C, C, T, T *);
        return create_hvector_c(t->blocks, *t->lengths, *t->places, old, made);
    }
    case INDEXED: {
        FUNCTION(indexed_c, C, const C *, const C *, T, T *);
        return indexed_c(t->blocks, t->lengths, t->places, old, made);
    }
    case HINDEXED: {
        FUNCTION(create_hindexed_c, C, const C *, const C *, T, T *);
        return create_hindexed_c(t->blocks, t->lengths, t->places, old, made);
    }
    case INDEXED_BLOCK: {
        FUNCTION(create_indexed_block_c, C, C, const C *, T, T *);
        return create_indexed_block_c(t->blocks, *t->lengths, t->places, old, made);
    }
    case HINDEXED_BLOCK: {
        FUNCTION(create_hindexed_block_c, C, C, const C *, T, T *);
        return create_hindexed_block_c(t->blocks, *t->lengths, t->places, old, made);
    }
    case STRUCT: {
        FUNCTION(create_struct_c, C, const C *, const C *, const T *, T *);
        T *parts = malloc(sizeof *parts * (size_t)(t->part_count + 1));
        for (int i = 0; i < t->part_count; i++) parts[i] = t->parts[i]->handle;
        int code = create_struct_c(t->blocks, t->lengths, t->places, parts, made);
        free(parts);
        return code;
    }
    case SUBARRAY: {
        FUNCTION(create_subarray_c, int, const C *, const C *, const C *, int, T, T *);
        return create_subarray_c(t->dimensions, t->whole, t->part, t->from, t->order, old, made);
    }
    case DARRAY: {
        FUNCTION(create_darray_c, int, int, int, const C *, const int *, const int *, const int *, int, T, T *);
        return create_darray_c(t->array_ranks, t->array_rank, t->dimensions, t->whole, t->distribution, t->argument,
                               t->grid, t->order, old, made);
    }
    default: {
        HOLDS(t->kind == RESIZED);
        FUNCTION(create_resized_c, T, C, C, T *);
        return create_resized_c(old, t->given_low, t->given_extent, made);
    }
    }
}
