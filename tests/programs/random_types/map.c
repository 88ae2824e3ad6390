#include "map.h"

static void add(struct map *map, MPI_Aint at, MPI_Aint length) {
    if (length == 0) return;
    if (map->count == 0 || at < map->low) map->low = at;
    if (map->count == 0 || at + length > map->high) map->high = at + length;
    map->bytes += length;
    struct run *last = map->count > 0 ? &map->runs[map->count - 1] : NULL;
    if (last && last->at + last->length == at) {
        last->length += length;
        return;
    }
    if (map->count == map->room) {
        map->room = map->room * 2 + 16;
        map->runs = realloc(map->runs, sizeof *map->runs * (size_t)map->room);
        HOLDS(map->runs != NULL);
    }
    map->runs[map->count++] = (struct run){at, length};
}

static void put(struct map *map, const struct type *type, MPI_Aint base);

static void block(struct map *map, const struct type *part, MPI_Aint base, MPI_Count count) {
    if (part->size == 0) return;
    int is_dense = part->kind == LEAF && part->leaf.runs == 1 && part->extent == part->size;
    if (is_dense) {
        add(map, base, part->size * (MPI_Aint)count);
        return;
    }
    for (MPI_Count i = 0; i < count; i++) put(map, part, base + (MPI_Aint)i * part->extent);
}

/* Where in the process grid the array's rank is: by rows, whatever the array's order. */
static int coordinate(const struct type *type, int dimension) {
    int left = type->array_rank;
    for (int d = type->dimensions - 1; d > dimension; d--) left /= type->grid[d];
    return left % type->grid[dimension];
}

static int selects(const struct type *type, int d, MPI_Count index) {
    if (type->kind == SUBARRAY) return index >= type->from[d] && index < type->from[d] + type->part[d];
    MPI_Count ranks = type->grid[d], given = type->argument[d];
    int is_default = type->argument[d] == MPI_DISTRIBUTE_DFLT_DARG;
    switch (type->distribution[d]) {
    case MPI_DISTRIBUTE_BLOCK:
        if (is_default) given = (type->whole[d] + ranks - 1) / ranks;
        return index / given == coordinate(type, d);
    case MPI_DISTRIBUTE_CYCLIC:
        if (is_default) given = 1;
        return index / given % ranks == coordinate(type, d);
    default: return 1;
    }
}

/* The elements below `step` chosen indices, of the slowest dimensions; `linear` is theirs. */
static void elements(struct map *map, const struct type *type, MPI_Aint base, int step, MPI_Aint linear) {
    const struct type *part = type->parts[0];
    if (step == type->dimensions) {
        put(map, part, base + linear * part->extent);
        return;
    }
    int d = type->order == MPI_ORDER_C ? step : type->dimensions - 1 - step;
    for (MPI_Count i = 0; i < type->whole[d]; i++) {
        if (selects(type, d, i)) elements(map, type, base, step + 1, linear * (MPI_Aint)type->whole[d] + (MPI_Aint)i);
    }
}

static void put(struct map *map, const struct type *type, MPI_Aint base) {
    if (type->size == 0) return;
    if (type->kind == LEAF) {
        for (int r = 0; r < type->leaf.runs; r++) add(map, base + type->leaf.run[r].at, type->leaf.run[r].length);
        return;
    }
    const struct type *part = type->parts[0];
    switch (type->kind) {
    case CONTIGUOUS: block(map, part, base, type->blocks); break;
    case SUBARRAY:
    case DARRAY: elements(map, type, base, 0, 0); break;
    case RESIZED:
    case DUP: put(map, part, base); break;
    default:
        for (MPI_Count b = 0; b < type->blocks; b++) {
            int is_vector = type->kind == VECTOR || type->kind == HVECTOR;
            int is_alike = is_vector || type->kind == INDEXED_BLOCK || type->kind == HINDEXED_BLOCK;
            int is_in_extents = type->kind == VECTOR || type->kind == INDEXED || type->kind == INDEXED_BLOCK;
            MPI_Aint place = (MPI_Aint)(is_vector ? b * *type->places : type->places[b]);
            MPI_Aint at = base + (is_in_extents ? place * part->extent : place);
            block(map, type->kind == STRUCT ? type->parts[b] : part, at, type->lengths[is_alike ? 0 : b]);
        }
    }
}

struct map map_of(const struct type *type, long count, MPI_Aint base) {
    struct map map = {0};
    /* `make` asks before it knows whether there is anything. */
    if (type->size > 0) {
        for (long i = 0; i < count; i++) put(&map, type, base + i * type->extent);
    }
    return map;
}

static int by_place(const void *a, const void *b) {
    MPI_Aint left = ((const struct run *)a)->at, right = ((const struct run *)b)->at;
    return (left > right) - (left < right);
}

int overlaps(const struct map *map) {
    struct run *sorted = malloc(sizeof *sorted * (size_t)(map->count + 1));
    if (map->count > 0) memcpy(sorted, map->runs, sizeof *sorted * (size_t)map->count);
    qsort(sorted, (size_t)map->count, sizeof *sorted, by_place);
    int found = 0;
    for (long r = 1; r < map->count; r++) found |= sorted[r].at < sorted[r - 1].at + sorted[r - 1].length;
    free(sorted);
    return found;
}

void gather(const struct map *map, const void *base, unsigned char *packed, MPI_Aint bytes) {
    for (long r = 0; r < map->count && bytes > 0; r++) {
        MPI_Aint length = map->runs[r].length < bytes ? map->runs[r].length : bytes;
        memcpy(packed, (const unsigned char *)base + map->runs[r].at, (size_t)length);
        packed += length;
        bytes -= length;
    }
}

void scatter(const struct map *map, void *base, const unsigned char *packed, MPI_Aint bytes) {
    for (long r = 0; r < map->count && bytes > 0; r++) {
        MPI_Aint length = map->runs[r].length < bytes ? map->runs[r].length : bytes;
        memcpy((unsigned char *)base + map->runs[r].at, packed, (size_t)length);
        packed += length;
        bytes -= length;
    }
}
