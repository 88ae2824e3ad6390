#include "deal.h"

/* One after the other, in a tile. */
static struct type *in_turn(const struct wish *wish, struct type *part, int r) {
    MPI_Aint extent = part->extent, gap = between(wish->random, 0, 5) * wish->unit;
    return resized(placed(part, r * extent), 0, ranks * extent + gap);
}

/* Blocks that take turns. */
static struct type *in_teeth(const struct wish *wish, struct type *part, int r) {
    int blocks = between(wish->random, 1, 20), length = between(wish->random, 1, 4);
    MPI_Aint extent = part->extent, stride = extent * ranks * length;
    struct type teeth = blocks_of(between(wish->random, 0, 1) ? VECTOR : HVECTOR, part, blocks);
    teeth.lengths[0] = length;
    teeth.places[0] = teeth.kind == VECTOR ? ranks * length : stride;
    return resized(placed(make(teeth), r * length * extent), 0, blocks * stride);
}

/* Blocks of which each is some rank's or nobody's; the first ones are of each rank. */
static struct type *irregular(const struct wish *wish, struct type *part, int r) {
    static const enum kind kinds[] = {INDEXED, HINDEXED, INDEXED_BLOCK, HINDEXED_BLOCK};
    struct random *random = wish->random;
    enum kind kind = kinds[between(random, 0, 3)];
    int is_alike = kind == INDEXED_BLOCK || kind == HINDEXED_BLOCK;
    int is_in_extents = kind == INDEXED || kind == INDEXED_BLOCK;
    int blocks = between(random, ranks, 30), length = between(random, 1, 4);
    MPI_Aint extent = part->extent;
    MPI_Count end = 0;
    struct type type = blocks_of(kind, part, blocks);
    type.blocks = 0;
    for (int b = 0; b < blocks; b++) {
        int owner = between(random, 0, ranks), of_block = between(random, 1, 6);
        if (b < ranks) owner = b;
        if (is_alike) of_block = length;
        if (owner == r) {
            type.lengths[is_alike ? 0 : type.blocks] = of_block;
            type.places[type.blocks++] = is_in_extents ? end : end * extent;
        }
        end += of_block;
    }
    return resized(make(type), 0, (MPI_Aint)end * extent);
}

/* A part of an array, along one dimension. */
static struct type *slab(const struct wish *wish, struct type *part, int r) {
    struct random *random = wish->random;
    struct type type = blocks_of(SUBARRAY, part, 0);
    type.dimensions = between(random, 1, 3);
    type.order = between(random, 0, 1) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
    int split = between(random, 0, type.dimensions - 1);
    for (int d = 0; d < type.dimensions; d++) {
        type.part[d] = type.whole[d] = between(random, 1, 5);
        type.from[d] = 0;
        if (d != split) continue;
        type.whole[d] = type.part[d] * ranks + between(random, 0, 2);
        type.from[d] = type.part[d] * r;
    }
    return make(type);
}

/* An array by blocks or cycles, in as many dimensions as the number of ranks has factors for. */
static struct type *grid(const struct wish *wish, struct type *part, int r) {
    struct random *random = wish->random;
    struct type type = blocks_of(DARRAY, part, 0);
    type.dimensions = between(random, 1, 3);
    type.order = between(random, 0, 1) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
    type.array_rank = r;
    type.array_ranks = ranks;
    for (int d = 0; d < type.dimensions; d++) type.grid[d] = 1;
    for (int left = ranks, factor = 2; left > 1; left /= factor) {
        while (left % factor != 0) factor++;
        type.grid[between(random, 0, type.dimensions - 1)] *= factor;
    }
    for (int d = 0; d < type.dimensions; d++) {
        type.whole[d] = between(random, type.grid[d], type.grid[d] * 3 + 4);
        int is_cyclic = between(random, 0, 1), is_none = between(random, 0, 1), argument = between(random, 1, 3);
        type.argument[d] = MPI_DISTRIBUTE_DFLT_DARG;
        type.distribution[d] = is_cyclic ? MPI_DISTRIBUTE_CYCLIC : MPI_DISTRIBUTE_BLOCK;
        if (is_cyclic && argument > 1) type.argument[d] = argument;
        if (type.grid[d] == 1 && is_none) {
            type.distribution[d] = MPI_DISTRIBUTE_NONE;
            type.argument[d] = MPI_DISTRIBUTE_DFLT_DARG;
        }
    }
    return make(type);
}

/* Several of all ranks' parts. */
static struct type *repeated(const struct wish *wish, struct type *part) {
    static const enum kind kinds[] = {CONTIGUOUS, VECTOR, HVECTOR, DUP};
    struct type type = blocks_of(kinds[between(wish->random, 0, 3)], part, between(wish->random, 1, 3));
    int length = between(wish->random, 1, 2), gap = between(wish->random, 0, 3);
    type.lengths[0] = length;
    type.places[0] = length + gap;
    if (type.kind == HVECTOR) type.places[0] = length * part->extent + gap * wish->unit;
    if (type.kind == DUP) type.blocks = 0;
    return make(type);
}

struct type *dealt(const struct wish *wish, int r) {
    static struct type *(*const ways[])(const struct wish *, struct type *, int) = {
        in_turn, in_teeth, irregular, slab, grid,
    };
    struct type *part = random_file_type(wish);
    struct type *type = ways[between(wish->random, 0, 4)](wish, part, r);
    for (int times = between(wish->random, 0, 2); times > 0; times--) type = repeated(wish, type);
    return type;
}
