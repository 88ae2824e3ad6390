#include "random_type.h"

#include "large.h"

#define PLAIN(name, type) {#name, name, 1, {{0, sizeof(type)}}}
#define PAIR(name, first, at, second) {#name, name, 2, {{0, sizeof(first)}, {at, sizeof(second)}}}

const struct leaf byte_leaf = PLAIN(MPI_BYTE, char);

static const struct leaf leaves[] = {
    PLAIN(MPI_BYTE, char),           PLAIN(MPI_BYTE, char),
    PLAIN(MPI_SHORT, short),         PLAIN(MPI_INT, int),
    PLAIN(MPI_DOUBLE, double),       PLAIN(MPI_C_DOUBLE_COMPLEX, double[2]),
    PLAIN(MPI_2INT, int[2]),         PAIR(MPI_SHORT_INT, short, 4, int),
    PAIR(MPI_DOUBLE_INT, double, 8, int), PAIR(MPI_LONG_DOUBLE_INT, long double, 16, int),
};

enum {
    LEAVES = sizeof leaves / sizeof *leaves,
    TAME_LEAVES = 6,
    /* No constructor is put around what reaches farther than this. */
    FARTHEST = 100000,
    MOST_BLOCKS = 12,
};

int is_tame;

static int chance(const struct wish *wish, int of) { return between(wish->random, 1, of) == 1; }

struct type blocks_of(enum kind kind, struct type *part, MPI_Count blocks) {
    struct type type = {.kind = kind, .blocks = blocks, .part_count = 1};
    type.parts = malloc(sizeof *type.parts);
    type.parts[0] = part;
    type.lengths = malloc(sizeof *type.lengths * (size_t)(blocks + 1));
    type.places = malloc(sizeof *type.places * (size_t)(blocks + 1));
    return type;
}

static struct type *finished(const struct wish *wish, struct type type) {
    int wants_large = chance(wish, 4) && type.kind != DUP;
    type.is_large = wants_large && !is_tame && (wish->is_monotonic ? has_large_views() : has_large_counts());
    return make(type);
}

struct type *leaf_type(const struct leaf *leaf) { return make((struct type){.kind = LEAF, .leaf = *leaf}); }

struct type *resized(struct type *type, MPI_Aint low, MPI_Aint extent) {
    struct type around = blocks_of(RESIZED, type, 0);
    around.given_low = low;
    around.given_extent = extent;
    return make(around);
}

struct type *placed(struct type *type, MPI_Aint at) {
    struct type around = blocks_of(HINDEXED, type, 1);
    around.lengths[0] = 1;
    around.places[0] = at;
    return make(around);
}

/* Sees to it that copies of a type can follow each other. */
static struct type *repeatable(const struct wish *wish, struct type *type) {
    if (!wish->is_monotonic || type->extent >= type->high - type->low) return type;
    return resized(type, type->low, type->high - type->low);
}

static MPI_Count block_length(const struct wish *wish, long leaves) {
    if (chance(wish, 10) && !is_tame) return 0;
    if (chance(wish, 3)) return between(wish->random, 1, leaves < 40 ? (int)leaves + 1 : 40);
    return between(wish->random, 1, 3);
}

/* Lengths and places of blocks. */
static void deal(const struct wish *wish, struct type *type, long leaves) {
    struct random *random = wish->random;
    int is_alike = type->kind == INDEXED_BLOCK || type->kind == HINDEXED_BLOCK;
    int is_in_extents = type->kind == INDEXED || type->kind == INDEXED_BLOCK;
    MPI_Aint unit = is_in_extents ? 1 : wish->unit;
    MPI_Count length = block_length(wish, leaves);
    /* With these empty, MPICH's MPI_Pack divides by zero. */
    if (is_alike && length == 0) length = 1;
    MPI_Count end = is_tame ? 0 : between(random, -2, 4) * unit;
    for (MPI_Count b = 0; b < type->blocks; b++) {
        if (!is_alike) length = block_length(wish, leaves);
        type->lengths[is_alike ? 0 : b] = length;
        const struct type *part = type->parts[type->kind == STRUCT ? b : 0];
        MPI_Aint reach = part->extent < 0 ? -part->extent : part->extent;
        if (reach > FARTHEST) reach = FARTHEST;
        if (!wish->is_monotonic) {
            int most = (int)(type->blocks * (is_in_extents ? 3 : reach + 4));
            type->places[b] = between(random, is_in_extents ? -3 : -60, most) * unit;
            continue;
        }
        /* In bytes it is the part's data, not its bounds, that must not come before the end. */
        MPI_Count gap = chance(wish, 2) ? 0 : between(random, 0, 5) * unit;
        type->places[b] = end + gap - (is_in_extents ? 0 : part->low);
        if (length == 0) continue;
        end = type->places[b] + (is_in_extents ? length : (length - 1) * part->extent + part->high);
    }
    if (is_alike && type->blocks == 0) type->lengths[0] = length;
}

static struct type *vector(const struct wish *wish, enum kind kind, struct type *part, MPI_Count blocks, long leaves) {
    struct type type = blocks_of(kind, part, blocks);
    MPI_Count length = type.lengths[0] = block_length(wish, leaves);
    int is_in_extents = kind == VECTOR;
    MPI_Count least = is_in_extents ? length : length * part->extent;
    MPI_Count gap = between(wish->random, 0, 4) * (is_in_extents ? 1 : wish->unit);
    if (chance(wish, 4)) gap *= between(wish->random, 1, 10);
    type.places[0] = least + gap;
    if (!wish->is_monotonic && chance(wish, 2)) {
        int most = is_in_extents ? 2 * (int)length + 2 : 2 * (int)least + 20;
        if (most < 0) most = -most;
        type.places[0] = between(wish->random, -most, most);
    }
    return finished(wish, type);
}

static struct type *subarray(const struct wish *wish, struct type *part, long leaves) {
    struct random *random = wish->random;
    struct type type = blocks_of(SUBARRAY, part, 0);
    type.dimensions = between(random, 1, MOST_DIMENSIONS);
    type.order = chance(wish, 2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
    for (int d = 0; d < type.dimensions; d++) {
        int most = type.dimensions == 1 ? 60 : type.dimensions == 2 ? 12 : 6;
        type.whole[d] = between(random, 1, most);
        type.part[d] = between(random, 1, (int)type.whole[d]);
        if (chance(wish, 4)) type.part[d] = type.whole[d];
        while (leaves < type.part[d] && type.part[d] > 1) type.part[d] /= 2;
        leaves /= type.part[d];
        type.from[d] = between(random, 0, (int)(type.whole[d] - type.part[d]));
    }
    return finished(wish, type);
}

static struct type *darray(const struct wish *wish, struct type *part) {
    struct random *random = wish->random;
    struct type type = blocks_of(DARRAY, part, 0);
    type.dimensions = between(random, 1, 3);
    type.order = chance(wish, 2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
    type.array_ranks = 1;
    for (int d = 0; d < type.dimensions; d++) {
        static const int distributions[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE};
        type.whole[d] = between(random, 1, type.dimensions == 1 ? 60 : 9);
        type.distribution[d] = distributions[between(random, 0, 2)];
        type.grid[d] = type.distribution[d] == MPI_DISTRIBUTE_NONE ? 1 : between(random, 1, 3);
        type.argument[d] = MPI_DISTRIBUTE_DFLT_DARG;
        type.array_ranks *= type.grid[d];
        if (type.distribution[d] == MPI_DISTRIBUTE_NONE || chance(wish, 2)) continue;
        int least = (int)(type.whole[d] + type.grid[d] - 1) / type.grid[d];
        int is_block = type.distribution[d] == MPI_DISTRIBUTE_BLOCK;
        type.argument[d] = between(random, is_block ? least : 1, is_block ? least + 2 : 4);
    }
    type.array_rank = between(random, 0, type.array_ranks - 1);
    struct type *made = finished(wish, type);
    if (made->size > 0) return made;
    /* Of a type with an empty one in it, Open MPI 4.1's MPI_Pack loses the extent. */
    discard(made);
    return leaf_type(wish->leaf ? wish->leaf : &byte_leaf);
}

static struct type *around(const struct wish *wish, enum kind kind, struct type *part, MPI_Count blocks, long leaves) {
    struct random *random = wish->random;
    struct type type;
    switch (kind) {
    case CONTIGUOUS: return finished(wish, blocks_of(kind, part, blocks));
    case VECTOR:
    case HVECTOR: return vector(wish, kind, part, blocks, leaves);
    case INDEXED:
    case INDEXED_BLOCK:
    case HINDEXED:
    case HINDEXED_BLOCK:
        type = blocks_of(kind, part, blocks);
        deal(wish, &type, leaves);
        break;
    case SUBARRAY: return subarray(wish, part, leaves);
    case DARRAY: return darray(wish, part);
    case RESIZED: {
        type = blocks_of(kind, part, 0);
        type.given_low = between(random, -20, 20) * wish->unit;
        type.given_extent = part->high - part->low + between(random, 0, 9) * wish->unit;
        if (!wish->is_monotonic && chance(wish, 2)) type.given_extent = between(random, -100, 200);
        break;
    }
    default: type = blocks_of(DUP, part, 0);
    }
    return finished(wish, type);
}

static struct type *nested(const struct wish *wish, int depth, long leaves);

static struct type *structure(const struct wish *wish, int depth, long leaves) {
    int blocks = between(wish->random, !is_tame && chance(wish, 15) ? 0 : 1, 4);
    struct type type = {.kind = STRUCT, .blocks = blocks, .part_count = blocks};
    type.parts = malloc(sizeof *type.parts * (size_t)(blocks + 1));
    type.lengths = malloc(sizeof *type.lengths * (size_t)(blocks + 1));
    type.places = malloc(sizeof *type.places * (size_t)(blocks + 1));
    for (int b = 0; b < blocks; b++) type.parts[b] = nested(wish, depth - 1, leaves / blocks);
    deal(wish, &type, leaves / 8);
    return finished(wish, type);
}

static int is_array(enum kind kind) { return kind == SUBARRAY || kind == DARRAY; }

static struct type *nested(const struct wish *wish, int depth, long leaves_left) {
    struct random *random = wish->random;
    if (depth == 0 || chance(wish, 8)) {
        return leaf_type(wish->leaf ? wish->leaf : &leaves[between(random, 0, (is_tame ? TAME_LEAVES : LEAVES) - 1)]);
    }
    enum kind kind = (enum kind)between(random, CONTIGUOUS, DUP);
    if (is_tame && kind == RESIZED) kind = DUP;
    if (kind == STRUCT) return repeatable(wish, structure(wish, depth, leaves_left));
    int most = leaves_left < MOST_BLOCKS ? (int)leaves_left : MOST_BLOCKS;
    int blocks = between(random, !is_tame && chance(wish, 15) ? 0 : 1, most < 1 ? 1 : most);
    int takes = is_array(kind) ? 6 : kind == RESIZED || kind == DUP ? 1 : blocks > 0 ? blocks : 1;
    struct type *part = nested(wish, depth - 1, leaves_left / takes);
    MPI_Aint reach = part->extent < 0 ? -part->extent : part->extent;
    if (kind == CONTIGUOUS && part->size == 0 && !is_tame && !wish->is_monotonic && has_large_counts()) {
        struct type many = blocks_of(kind, part, 3000000000);
        many.is_large = 1;
        return make(many);
    }
    /* Open MPI 4.1 makes no distributed arrays of nothing. */
    if (kind == DARRAY && part->size == 0) kind = DUP;
    if (part->high - part->low > FARTHEST || reach > FARTHEST) return part;
    return repeatable(wish, around(wish, kind, part, blocks, leaves_left / takes));
}

struct type *random_type(const struct wish *wish) {
    struct wish allowed = *wish;
    allowed.is_monotonic |= is_tame;
    if (is_tame && allowed.depth > 1) allowed.depth = 1;
    return nested(&allowed, allowed.depth, allowed.leaves);
}

struct type *random_file_type(const struct wish *wish) {
    struct type *type = random_type(wish);
    while (type->size == 0) {
        discard(type);
        type = random_type(wish);
    }
    if (type->low < 0) type = placed(type, -type->low + between(wish->random, 0, 3) * wish->unit);
    return repeatable(wish, type);
}

struct type *random_huge_type(const struct wish *wish) {
    struct wish small = *wish;
    small.leaves = 6;
    small.depth = 2;
    small.is_monotonic = 1;
    static const enum kind kinds[] = {VECTOR, HVECTOR, INDEXED, HINDEXED, INDEXED_BLOCK, HINDEXED_BLOCK};
    struct type *part = random_file_type(&small);
    enum kind kind = kinds[between(wish->random, 0, 5)];
    MPI_Count blocks = 1000000 / (part->size + (part->high - part->low) / 4 + 3) + 10;
    struct type *type = around(&small, kind, part, blocks, 1);
    if (type->size == 0) type = placed(type, 0);
    if (type->low < 0) type = placed(type, -type->low);
    return repeatable(&small, type);
}
