/* blocks FILE EDGE: a cube of ints, dealt out to the ranks in blocks along all three axes, written and read by all in
 * one call each, as ROMIO's coll_perf does it: written once untimed, then with opening and closing timed. */
#include "check.h"
#include "nodes.h"

static MPI_Datatype own_block(int edge, int at[3], int counts[3]) {
    int grid[3] = {0, 0, 0}, whole[3] = {edge, edge, edge};
    MPI_OK(MPI_Dims_create(ranks, 3, grid));
    int place[3] = {rank / (grid[1] * grid[2]), rank / grid[2] % grid[1], rank % grid[2]};
    for (int axis = 0; axis < 3; axis++) {
        CHECK(edge % grid[axis] == 0, "%d ranks cannot share %d", grid[axis], edge);
        counts[axis] = edge / grid[axis];
        at[axis] = place[axis] * counts[axis];
    }
    MPI_Datatype type;
    MPI_OK(MPI_Type_create_subarray(3, whole, counts, at, MPI_ORDER_C, MPI_INT, &type));
    MPI_OK(MPI_Type_commit(&type));
    return type;
}

/* Calls `each` with every element of the block and its number in the file; returns how often that gave 1. */
static long over(int edge, const int at[3], const int counts[3], int *elements,
                 long each(int *element, int64_t index)) {
    long sum = 0;
    for (int x = 0; x < counts[0]; x++) {
        for (int y = 0; y < counts[1]; y++) {
            int64_t row = ((int64_t)(at[0] + x) * edge + at[1] + y) * edge + at[2];
            for (int z = 0; z < counts[2]; z++) sum += each(elements++, row + z);
        }
    }
    return sum;
}

static long fill(int *element, int64_t index) {
    *element = (int)word(index, 1);
    return 0;
}

static long differs(int *element, int64_t index) { return *element != (int)word(index, 1); }

static void write_all(const char *file, MPI_Datatype type, const int *elements, int count, int is_timed) {
    double since = started();
    MPI_File handle = opened(file, MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_OK(MPI_File_set_view(handle, 0, MPI_INT, type, "native", MPI_INFO_NULL));
    double inner = MPI_Wtime();
    MPI_OK(MPI_File_write_all(handle, elements, count, MPI_INT, MPI_STATUS_IGNORE));
    inner = MPI_Wtime() - inner;
    closed(&handle);
    if (is_timed) {
        tell_time("write", since);
        tell("write_all", inner);
    }
}

static void read_all(const char *file, MPI_Datatype type, int *elements, int count) {
    double since = started();
    MPI_File handle = opened(file, MPI_MODE_RDONLY);
    MPI_OK(MPI_File_set_view(handle, 0, MPI_INT, type, "native", MPI_INFO_NULL));
    MPI_OK(MPI_File_read_all(handle, elements, count, MPI_INT, MPI_STATUS_IGNORE));
    closed(&handle);
    tell_time("read", since);
}

void blocks(const char *file, char **arguments) {
    int edge = (int)number(arguments[0]), at[3], counts[3];
    MPI_Datatype type = own_block(edge, at, counts);
    int count = counts[0] * counts[1] * counts[2];
    int *elements = touched((size_t)count * sizeof *elements);
    over(edge, at, counts, elements, fill);
    write_all(file, type, elements, count, 0);
    write_all(file, type, elements, count, 1);
    memset(elements, 0, (size_t)count * sizeof *elements);
    read_all(file, type, elements, count);
    tell_wrong(over(edge, at, counts, elements, differs));
}
