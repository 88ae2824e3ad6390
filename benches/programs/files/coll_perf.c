/* coll_perf FILE EDGE SPLIT PASSES: a cube of ints, dealt out to the ranks in blocks, written and read by all in one call
 * each, as ROMIO's coll_perf does it: written once, then again, with opening and closing timed. An edge that the ranks
 * cannot share evenly makes blocks that differ by one. With SPLIT "slowest" the axes that are divided are those along
 * which neighbours in the file are farthest apart, so that blocks are made of few and long rows; with "fastest" they are
 * the others, and every row is cut. */
#include "check.h"
#include "files.h"
#include "timing.h"

#include <limits.h>

struct block {
    int edge, at[3], counts[3], count;
    /* How many elements, how they are handed over, and where they are in the file. */
    int64_t elements;
    MPI_Datatype row, type;
};

static struct block own_block(int edge, const char *split) {
    int is_fastest = strcmp(split, "fastest") == 0, grid[3] = {0, 0, 0}, whole[3] = {edge, edge, edge};
    CHECK(is_fastest || strcmp(split, "slowest") == 0, "neither slowest nor fastest: %s", split);
    MPI_OK(MPI_Dims_create(ranks, 3, grid));
    if (is_fastest) {
        int first = grid[0];
        grid[0] = grid[2];
        grid[2] = first;
    }
    int place[3] = {rank / (grid[1] * grid[2]), rank / grid[2] % grid[1], rank % grid[2]};
    struct block block = {.edge = edge, .elements = 1};
    for (int axis = 0; axis < 3; axis++) {
        CHECK(edge >= grid[axis], "%d ranks cannot share %d", grid[axis], edge);
        block.at[axis] = (int)((int64_t)place[axis] * edge / grid[axis]);
        block.counts[axis] = (int)((int64_t)(place[axis] + 1) * edge / grid[axis]) - block.at[axis];
        block.elements *= block.counts[axis];
    }
    /* MPI counts by an int. */
    int is_countable = block.elements <= INT_MAX;
    block.row = MPI_INT;
    if (!is_countable) {
        MPI_OK(MPI_Type_contiguous(block.counts[2], MPI_INT, &block.row));
        MPI_OK(MPI_Type_commit(&block.row));
    }
    block.count = is_countable ? (int)block.elements : block.counts[0] * block.counts[1];
    MPI_OK(MPI_Type_create_subarray(3, whole, block.counts, block.at, MPI_ORDER_C, MPI_INT, &block.type));
    MPI_OK(MPI_Type_commit(&block.type));
    return block;
}

/* Sets every element of the block to what it is in a round, or counts those that are something else. */
static long elements_of(const struct block *block, int *elements, int round, int is_check) {
    long wrong = 0;
    for (int x = 0; x < block->counts[0]; x++) {
        for (int y = 0; y < block->counts[1]; y++) {
            int64_t row = ((int64_t)(block->at[0] + x) * block->edge + block->at[1] + y) * block->edge + block->at[2];
            for (int z = 0; z < block->counts[2]; z++, elements++) {
                if (is_check) {
                    wrong += *elements != (int)word(row + z, round);
                } else {
                    *elements = (int)word(row + z, round);
                }
            }
        }
    }
    return wrong;
}

static MPI_File viewed(const char *file, int mode, MPI_Datatype type) {
    MPI_File handle = opened(file, mode);
    MPI_OK(MPI_File_set_view(handle, 0, MPI_INT, type, "native", MPI_INFO_NULL));
    return handle;
}

/* Returns what the call alone took, without opening and closing. */
static double write_all(const char *file, const struct block *block, const int *elements) {
    MPI_File handle = viewed(file, MPI_MODE_CREATE | MPI_MODE_RDWR, block->type);
    double since = MPI_Wtime();
    MPI_OK(MPI_File_write_all(handle, elements, block->count, block->row, MPI_STATUS_IGNORE));
    double taken = MPI_Wtime() - since;
    closed(&handle);
    return taken;
}

static void read_all(const char *file, const struct block *block, int *elements) {
    MPI_File handle = viewed(file, MPI_MODE_RDONLY, block->type);
    MPI_OK(MPI_File_read_all(handle, elements, block->count, block->row, MPI_STATUS_IGNORE));
    closed(&handle);
}

void coll_perf(const char *file, char **arguments) {
    int edge = (int)number(arguments[0]);
    struct block block = own_block(edge, arguments[1]);
    int64_t bytes = (int64_t)edge * edge * edge * (int64_t)sizeof(int);
    int *elements = touched((size_t)block.elements * sizeof *elements);

    struct passes fresh = passes_of(1), writes = repeated(number(arguments[2])), reads = writes;
    elements_of(&block, elements, 0, 0);
    begin_pass(&fresh);
    write_all(file, &block, elements);
    end_pass(&fresh);
    tell_moved("fresh", median_of(&fresh), bytes);

    double inner = 0;
    while (is_wanting(&writes)) {
        elements_of(&block, elements, writes.done + 1, 0);
        begin_pass(&writes);
        inner = write_all(file, &block, elements);
        end_pass(&writes);
    }
    /* What is written for the second time may still have to be mapped. */
    tell_moved("second", writes.first, bytes);
    tell_moved("write", median_of(&writes), bytes);
    tell_moved("write_all", inner, bytes);

    long wrong = 0;
    while (is_wanting(&reads)) {
        memset(elements, 0, (size_t)block.elements * sizeof *elements);
        begin_pass(&reads);
        read_all(file, &block, elements);
        end_pass(&reads);
        wrong += elements_of(&block, elements, writes.done, 1);
    }
    tell_moved("read", median_of(&reads), bytes);
    tell_wrong(wrong);
    free(elements);
    if (block.row != MPI_INT) MPI_OK(MPI_Type_free(&block.row));
    MPI_OK(MPI_Type_free(&block.type));
}
