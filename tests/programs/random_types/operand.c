#include "operand.h"
#include "opinion.h"

enum { MARGIN = 64, MOST_WATCHED = 16 };

int tells_types;
static struct {
    const char *role;
    const struct type *type;
} watched[MOST_WATCHED];
static int watched_count;

static void tell(int index) {
    fprintf(stderr, "rank %d: %s: %s: ", rank, doing, watched[index].role);
    describe(stderr, watched[index].type);
    fprintf(stderr, "\n");
}

void watch(const char *role, const struct type *type) {
    watched[watched_count % MOST_WATCHED].role = role;
    watched[watched_count % MOST_WATCHED].type = type;
    if (tells_types) tell(watched_count % MOST_WATCHED);
    watched_count++;
}

void tell_access(const char *method, MPI_Aint bytes, MPI_Offset at) {
    if (!tells_types) return;
    fprintf(stderr, "rank %d: %s: %s: %ld bytes at %lld\n", rank, doing, method, (long)bytes, (long long)at);
}

void watch_nothing(void) { watched_count = 0; }

void check_bytes(const char *what, const unsigned char *found, const unsigned char *expected, MPI_Aint bytes,
                 MPI_Offset from) {
    if (bytes == 0 || memcmp(found, expected, (size_t)bytes) == 0) return;
    MPI_Aint at = 0, wrong = 0;
    while (found[at] == expected[at]) at++;
    for (MPI_Aint i = at; i < bytes; i++) wrong += found[i] != expected[i];
    for (int i = 0; i < watched_count && i < MOST_WATCHED; i++) tell(i);
    CHECK(0, "%s: byte %lld is %#x instead of %#x, and %ld of %ld are wrong", what, (long long)(from + at), found[at],
          expected[at], (long)wrong, (long)bytes);
}

struct operand operand_of(struct type *type, int count) {
    struct operand operand = {.type = type, .count = count, .map = map_of(type, count, 0)};
    operand.relative = MPI_DATATYPE_NULL;
    commit(type);
    operand.room = operand.map.high - operand.map.low + 2 * MARGIN;
    operand.arena = malloc((size_t)operand.room);
    HOLDS(operand.arena != NULL);
    operand.base = operand.arena + MARGIN - operand.map.low;
    operand.buffer = operand.base;
    return operand;
}

struct operand random_operand(const struct wish *wish, MPI_Aint most, int is_apart) {
    int tries = between(wish->random, 1, 6) == 1 ? 0 : 6;
    for (int try = 0; try < tries; try++) {
        struct type *type = random_type(wish);
        int count = between(wish->random, is_tame ? 1 : 0, 3);
        if (type->size * count > most) count = 1;
        struct operand operand = operand_of(type, count);
        if (type->size * count <= most && !(is_apart && overlaps(&operand.map))) return operand;
        discard_operand(&operand);
    }
    struct type *leaf = leaf_type(wish->leaf ? wish->leaf : &byte_leaf);
    int fit = (int)(most / leaf->size);
    return operand_of(leaf, between(wish->random, is_tame && fit > 0 ? 1 : 0, fit));
}

struct operand absolute(struct operand operand) {
    MPI_Aint at;
    MPI_Get_address(operand.base, &at);
    MPI_OK(MPI_Type_dup(operand.type->handle, &operand.relative));
    operand.relative_count = operand.count;
    struct type around = blocks_of(HINDEXED, operand.type, 1);
    around.lengths[0] = operand.count;
    around.places[0] = at;
    operand.type = make(around);
    operand.count = 1;
    operand.buffer = MPI_BOTTOM;
    commit(operand.type);
    return operand;
}

void discard_operand(struct operand *operand) {
    discard(operand->type);
    if (operand->relative != MPI_DATATYPE_NULL) MPI_Type_free(&operand->relative);
    free(operand->map.runs);
    free(operand->arena);
}

struct elements {
    int count;
    MPI_Datatype type;
};

static struct elements elements_of(const struct operand *operand) {
    if (operand->relative != MPI_DATATYPE_NULL) return (struct elements){operand->relative_count, operand->relative};
    return (struct elements){operand->count, operand->type->handle};
}

static void pattern(unsigned char *to, MPI_Aint bytes, uint64_t seed) {
    for (MPI_Aint i = 0; i < bytes; i += 8) {
        uint64_t word = (seed + 1) * 0x9E3779B97F4A7C15u + (uint64_t)i * 0xD6E8FEB86659FD93u;
        word = (word ^ (word >> 29)) * 0xBF58476D1CE4E5B9u;
        word ^= word >> 32;
        memcpy(to + i, &word, (size_t)(bytes - i < 8 ? bytes - i : 8));
    }
}

void fill(const struct operand *operand, uint64_t seed) { pattern(operand->arena, operand->room, seed); }

unsigned char *packed(const struct operand *operand) {
    MPI_Aint bytes = operand->map.bytes;
    unsigned char *by_map = malloc((size_t)bytes + 1);
    struct elements elements = elements_of(operand);
    gather(&operand->map, operand->base, by_map, bytes);
    ask_for_packing(operand->type, operand->base, elements.count, elements.type, by_map, bytes);
    return by_map;
}

void check_memory(const struct operand *operand, uint64_t seed, const unsigned char *data, MPI_Aint bytes) {
    unsigned char *found = malloc((size_t)operand->room);
    memcpy(found, operand->arena, (size_t)operand->room);
    fill(operand, seed);
    if (bytes == operand->map.bytes) {
        scatter(&operand->map, operand->base, data, bytes);
        if (asks_mpi) {
            struct elements elements = elements_of(operand);
            unsigned char *by_map = malloc((size_t)operand->room);
            memcpy(by_map, operand->arena, (size_t)operand->room);
            fill(operand, seed);
            ask_for_unpacking(operand->type, data, bytes, operand->base, elements.count, elements.type, operand->arena,
                              by_map, operand->room);
            memcpy(operand->arena, by_map, (size_t)operand->room);
            free(by_map);
        }
    } else {
        /* First what was found, so that the rest is as it is. */
        unsigned char *all = malloc((size_t)operand->map.bytes);
        gather(&operand->map, found + (operand->base - operand->arena), all, operand->map.bytes);
        scatter(&operand->map, operand->base, all, operand->map.bytes);
        scatter(&operand->map, operand->base, data, bytes);
        free(all);
    }
    check_bytes("memory", found, operand->arena, operand->room, -MARGIN + (MPI_Offset)operand->map.low);
    free(found);
}
