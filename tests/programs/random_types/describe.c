/* Saying how a type was made. */
#include "type.h"

enum { MOST_LISTED = 40 };

static void list(FILE *to, const char *name, const MPI_Count *numbers, MPI_Count count) {
    fprintf(to, ", %s=[", name);
    for (MPI_Count i = 0; i < count && i < MOST_LISTED; i++) {
        fprintf(to, "%s%lld", i > 0 ? "," : "", (long long)numbers[i]);
    }
    fprintf(to, "%s]", count > MOST_LISTED ? ",..." : "");
}

static void array(FILE *to, const struct type *type) {
    fprintf(to, "%s", type->order == MPI_ORDER_C ? "C" : "Fortran");
    list(to, "sizes", type->whole, type->dimensions);
    if (type->kind == SUBARRAY) {
        list(to, "subsizes", type->part, type->dimensions);
        list(to, "starts", type->from, type->dimensions);
        return;
    }
    fprintf(to, ", rank %d of %d, by", type->array_rank, type->array_ranks);
    for (int d = 0; d < type->dimensions; d++) {
        const char *distribution = type->distribution[d] == MPI_DISTRIBUTE_BLOCK    ? "block"
                                   : type->distribution[d] == MPI_DISTRIBUTE_CYCLIC ? "cyclic"
                                                                                    : "none";
        fprintf(to, " %s", distribution);
        if (type->argument[d] != MPI_DISTRIBUTE_DFLT_DARG) fprintf(to, "(%d)", type->argument[d]);
        fprintf(to, "/%d", type->grid[d]);
    }
}

void describe(FILE *to, const struct type *type) {
    static const char *const names[] = {
        "leaf",    "contiguous",    "vector",         "hvector", "indexed",  "hindexed",
        "indexed_block", "hindexed_block", "struct",  "subarray", "darray", "resized", "dup",
    };
    if (type->kind == LEAF) {
        fprintf(to, "%s", type->leaf.name);
        return;
    }
    fprintf(to, "%s%s(", names[type->kind], type->is_large ? "_c" : "");
    int is_vector = type->kind == VECTOR || type->kind == HVECTOR;
    switch (type->kind) {
    case SUBARRAY:
    case DARRAY: array(to, type); break;
    case RESIZED: fprintf(to, "lb=%ld, extent=%ld", (long)type->given_low, (long)type->given_extent); break;
    case DUP: break;
    default:
        fprintf(to, "%lld", (long long)type->blocks);
        if (type->kind == CONTIGUOUS) break;
        int is_alike = is_vector || type->kind == INDEXED_BLOCK || type->kind == HINDEXED_BLOCK;
        list(to, "lengths", type->lengths, is_alike ? 1 : type->blocks);
        list(to, is_vector ? "stride" : "places", type->places, is_vector ? 1 : type->blocks);
    }
    for (int i = 0; i < type->part_count; i++) {
        fprintf(to, "; ");
        describe(to, type->parts[i]);
    }
    fprintf(to, ")");
}
