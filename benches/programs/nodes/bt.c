/* bt FILE EDGE STEPS: what NPB's BT writes with MPI-IO in its full version, and when it is done reads: a cube of five
 * doubles a point, in diagonal multi-partitioning. Ranks are a square number; each has as many cells as the square has
 * edges, one in each layer of z, shifted from layer to layer. In memory every cell has two ghost points around it. */
#include "check.h"
#include "nodes.h"

enum { VALUES = 5, GHOSTS = 2 };

static int cells, edge, width; /* of a cell, without and with its ghost points */

static void cell_at(int cell, int at[4]) {
    int column = rank / cells, row = rank % cells;
    at[0] = cell * edge;
    at[1] = (row + cells - cell) % cells * edge;
    at[2] = (column + cell) % cells * edge;
    at[3] = 0;
}

static MPI_Datatype of_file(void) {
    int whole[4] = {cells * edge, cells * edge, cells * edge, VALUES}, part[4] = {edge, edge, edge, VALUES};
    int *lengths = touched((size_t)cells * sizeof *lengths);
    MPI_Aint *places = touched((size_t)cells * sizeof *places);
    MPI_Datatype *types = touched((size_t)cells * sizeof *types), all;
    for (int cell = 0; cell < cells; cell++) {
        int at[4];
        cell_at(cell, at);
        lengths[cell] = 1;
        places[cell] = 0;
        MPI_OK(MPI_Type_create_subarray(4, whole, part, at, MPI_ORDER_C, MPI_DOUBLE, &types[cell]));
    }
    MPI_OK(MPI_Type_create_struct(cells, lengths, places, types, &all));
    MPI_OK(MPI_Type_commit(&all));
    return all;
}

static MPI_Datatype of_memory(void) {
    int whole[5] = {cells, width, width, width, VALUES}, part[5] = {cells, edge, edge, edge, VALUES};
    int at[5] = {0, GHOSTS, GHOSTS, GHOSTS, 0};
    MPI_Datatype type;
    MPI_OK(MPI_Type_create_subarray(5, whole, part, at, MPI_ORDER_C, MPI_DOUBLE, &type));
    MPI_OK(MPI_Type_commit(&type));
    return type;
}

/* Sets the values of a step, or counts those that are not as they should be. */
static long points(double *values, int step, int is_check) {
    long wrong = 0;
    int total = cells * edge;
    for (int cell = 0; cell < cells; cell++) {
        int at[4];
        cell_at(cell, at);
        for (int z = 0; z < edge; z++) {
            for (int y = 0; y < edge; y++) {
                double *row = values + ((((int64_t)cell * width + z + GHOSTS) * width + y + GHOSTS) * width + GHOSTS) * VALUES;
                int64_t first = (((int64_t)(at[0] + z) * total + at[1] + y) * total + at[2]) * VALUES;
                for (int i = 0; i < edge * VALUES; i++) {
                    double value = (double)(first + i) + step * 0.5;
                    if (is_check) {
                        wrong += row[i] != value;
                    } else {
                        row[i] = value;
                    }
                }
            }
        }
    }
    return wrong;
}

void bt(const char *file, char **arguments) {
    int total = (int)number(arguments[0]), steps = (int)number(arguments[1]);
    for (cells = 1; cells * cells < ranks; cells++) continue;
    CHECK(cells * cells == ranks && total % cells == 0, "%d ranks cannot share %d", ranks, total);
    edge = total / cells;
    width = edge + 2 * GHOSTS;
    double *values = touched((size_t)cells * width * width * width * VALUES * sizeof *values);
    MPI_Datatype in_file = of_file(), in_memory = of_memory();
    MPI_Offset stride = (MPI_Offset)cells * edge * edge * edge * VALUES;

    /* Computing is not I/O: only what the calls take is counted. */
    double taken = -MPI_Wtime();
    MPI_File handle = opened(file, MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_OK(MPI_File_set_view(handle, 0, MPI_DOUBLE, in_file, "native", MPI_INFO_NULL));
    for (int step = 0; step < steps; step++) {
        taken += MPI_Wtime();
        points(values, step, 0);
        taken -= started();
        MPI_OK(MPI_File_write_at_all(handle, step * stride, values, 1, in_memory, MPI_STATUS_IGNORE));
    }
    closed(&handle);
    tell_time("write", -taken);

    long wrong = 0;
    taken = -started();
    handle = opened(file, MPI_MODE_RDONLY);
    MPI_OK(MPI_File_set_view(handle, 0, MPI_DOUBLE, in_file, "native", MPI_INFO_NULL));
    for (int step = 0; step < steps; step++) {
        MPI_OK(MPI_File_read_at_all(handle, step * stride, values, 1, in_memory, MPI_STATUS_IGNORE));
        taken += MPI_Wtime();
        wrong += points(values, step, 1);
        taken -= started();
    }
    closed(&handle);
    tell_time("read", -taken);
    tell_wrong(wrong);
}
