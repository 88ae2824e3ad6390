/* Random datatypes. */
#include "parts.h"

static MPI_Aint size_of(MPI_Datatype type) {
    int size;
    MPI_Type_size(type, &size);
    return size;
}

/* `inner` as this rank's part of a tile with as many such parts as there are ranks. */
static MPI_Datatype in_tile(MPI_Datatype inner, MPI_Aint extent, MPI_Aint hole) {
    MPI_Datatype placed, tile;
    MPI_Aint from = extent * rank;
    int one = 1;
    MPI_Type_create_hindexed(1, &one, &from, inner, &placed);
    MPI_Type_create_resized(placed, 0, extent * ranks + hole, &tile);
    MPI_Type_free(&placed);
    MPI_Type_free(&inner);
    return tile;
}

/* Blocks of random lengths, each some rank's or nobody's. */
static MPI_Datatype irregular(struct random *random, MPI_Datatype etype) {
    enum { MOST = 24 };
    int blocks = ranks + between(random, 2, MOST - 9), lengths[MOST], mine = 0;
    MPI_Aint at[MOST], end = 0, size = size_of(etype);
    MPI_Datatype indexed, tile;
    for (int b = 0; b < blocks; b++) {
        int length = between(random, 1, 40), owner = between(random, 0, ranks);
        /* The first blocks see to it that each rank has one. */
        if (b < ranks) owner = b;
        if (owner == rank) {
            lengths[mine] = length;
            at[mine++] = end;
        }
        end += length * size;
    }
    MPI_Type_create_hindexed(mine, lengths, at, etype, &indexed);
    MPI_Type_create_resized(indexed, 0, end, &tile);
    MPI_Type_free(&indexed);
    return tile;
}

/* A vector of vectors, of which one may be of pairs. */
static MPI_Datatype nested(struct random *random, MPI_Datatype etype) {
    int count = between(random, 1, 5), block = between(random, 1, 6), stride = block + between(random, 0, 4);
    int outer = between(random, 1, 4);
    MPI_Aint size = size_of(etype), inner_extent = (MPI_Aint)count * stride * size + between(random, 0, 3) * size;
    MPI_Datatype vector, both;
    MPI_Type_vector(count, block, stride, etype, &vector);
    MPI_Type_create_hvector(outer, 1, inner_extent, vector, &both);
    MPI_Type_free(&vector);
    return in_tile(both, outer * inner_extent, between(random, 0, 5) * size);
}

/* A block of an array of two or three dimensions, split along one of them. */
static MPI_Datatype subarray(struct random *random, MPI_Datatype etype) {
    int dimensions = between(random, 2, 3), split = between(random, 0, dimensions - 1);
    int whole[3], part[3], from[3];
    for (int d = 0; d < dimensions; d++) {
        whole[d] = between(random, 1, 7);
        part[d] = between(random, (whole[d] + 1) / 2, whole[d]);
        from[d] = between(random, 0, whole[d] - part[d]);
        if (d == split) {
            from[d] += rank * whole[d];
            whole[d] *= ranks;
        }
    }
    int order = between(random, 0, 1) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
    MPI_Datatype type;
    MPI_Type_create_subarray(dimensions, whole, part, from, order, etype, &type);
    return type;
}

/* An array that is dealt out cyclically. */
static MPI_Datatype dealt(struct random *random, MPI_Datatype etype) {
    int deal = between(random, 1, 5), whole[2] = {between(random, 1, 6), deal * ranks * between(random, 1, 4)};
    int how[2] = {MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_CYCLIC}, by[2] = {MPI_DISTRIBUTE_DFLT_DARG, deal};
    int grid[2] = {1, ranks};
    MPI_Datatype type;
    MPI_Type_create_darray(ranks, rank, 2, whole, how, by, grid, MPI_ORDER_C, etype, &type);
    return type;
}

MPI_Datatype random_filetype(struct random *random, MPI_Datatype etype) {
    MPI_Datatype type;
    switch (between(random, 0, 3)) {
    case 0: type = irregular(random, etype); break;
    case 1: type = nested(random, etype); break;
    case 2: type = subarray(random, etype); break;
    default: type = dealt(random, etype); break;
    }
    MPI_Type_commit(&type);
    return type;
}

MPI_Datatype random_memory(struct random *random, MPI_Datatype etype, int count, MPI_Aint *extent) {
    enum { MOST = 30 };
    int lengths[MOST], blocks = 0, left = count;
    MPI_Aint at[MOST], size = size_of(etype), end = 0;
    MPI_Datatype type;
    if (count == 0) left = 1;
    int gap = between(random, 0, 2) * 3;
    while (left > 0) {
        int length = blocks == MOST - 1 ? left : between(random, 1, left);
        end += between(random, 0, gap) * size;
        lengths[blocks] = length;
        at[blocks++] = end;
        end += length * size;
        left -= length;
    }
    MPI_Type_create_hindexed(blocks, lengths, at, etype, &type);
    MPI_Type_commit(&type);
    *extent = end;
    return type;
}
