/* btio FILE EDGE SUBTYPE STEPS: what NPB's BT does with files: it writes a cube of five doubles a point again and again,
 * and when it is done reads it all. The cube is divided diagonally (multi-partitioning): ranks are a square number; each
 * has as many cells as the square has edges, one in each layer of z, shifted from layer to layer. In memory every cell has
 * two ghost points around it.
 *
 * With SUBTYPE "full" a step is one collective call with datatypes for file and memory, with "simple" an independent call
 * for each row of each cell, with "epio" a file of each rank's own, into which its cells go one after the other.
 *
 * Only what the calls take is told, computing is not: the longest time that a rank has spent. "io" is what BT itself tells
 * as its I/O time: the steps and closing; it has opened the file before it begins to take the time. "write" has opening,
 * too. "read" is BT's check of what it has written, opening and closing included. "floor-write" and "floor-read" are what
 * copying alone takes. */
#include "check.h"
#include "files.h"
#include "timing.h"

#include <sys/mman.h>

enum { VALUES = 5, GHOSTS = 2 };

static int cells, total, width; /* cells of a rank; the cube's edge; a cell's in memory, with its ghost points */

/* Where the part of an axis that has this number begins; the first ones have a point more where it does not come out
 * even. */
static int begin_of(int part) { return total / cells * part + (part < total % cells ? part : total % cells); }

static void cell_at(int cell, int at[3], int counts[3]) {
    int column = rank / cells, row = rank % cells;
    int parts[3] = {cell, (row + cells - cell) % cells, (column + cell) % cells};
    for (int axis = 0; axis < 3; axis++) {
        at[axis] = begin_of(parts[axis]);
        counts[axis] = begin_of(parts[axis] + 1) - at[axis];
    }
}

/* All cells of the rank, each as its `part` of an array of `whole` points. */
static MPI_Datatype cells_of(int dimensions, const int *whole, void part(int cell, int counts[4], int at[4])) {
    MPI_Datatype point, all, *types = touched((size_t)cells * sizeof *types);
    int *lengths = touched((size_t)cells * sizeof *lengths);
    MPI_Aint *places = touched((size_t)cells * sizeof *places);
    MPI_OK(MPI_Type_contiguous(VALUES, MPI_DOUBLE, &point));
    for (int cell = 0; cell < cells; cell++) {
        int at[4], counts[4];
        part(cell, counts, at);
        lengths[cell] = 1;
        places[cell] = 0;
        MPI_OK(MPI_Type_create_subarray(dimensions, whole, counts, at, MPI_ORDER_C, point, &types[cell]));
    }
    MPI_OK(MPI_Type_create_struct(cells, lengths, places, types, &all));
    MPI_OK(MPI_Type_commit(&all));
    for (int cell = 0; cell < cells; cell++) MPI_OK(MPI_Type_free(&types[cell]));
    MPI_OK(MPI_Type_free(&point));
    free(types);
    free(lengths);
    free(places);
    return all;
}

static void part_of_file(int cell, int counts[4], int at[4]) { cell_at(cell, at, counts); }

static void part_of_memory(int cell, int counts[4], int at[4]) {
    int unused[3];
    cell_at(cell, unused, counts + 1);
    counts[0] = 1;
    at[0] = cell;
    at[1] = at[2] = at[3] = GHOSTS;
}

static MPI_Datatype of_file(void) { return cells_of(3, (int[]){total, total, total}, part_of_file); }

static MPI_Datatype of_memory(void) { return cells_of(4, (int[]){cells, width, width, width}, part_of_memory); }

/* Does something with every row of every cell: `row` is where it is in memory, `first` the number of its first value in
 * the step's cube. */
static void each_row(double *values, void act(double *row, int64_t first, int count, void *with), void *with) {
    for (int cell = 0; cell < cells; cell++) {
        int at[3], counts[3];
        cell_at(cell, at, counts);
        for (int z = 0; z < counts[0]; z++) {
            for (int y = 0; y < counts[1]; y++) {
                int64_t inside = (((int64_t)cell * width + z + GHOSTS) * width + y + GHOSTS) * width + GHOSTS;
                int64_t point = ((int64_t)(at[0] + z) * total + at[1] + y) * total + at[2];
                act(values + inside * VALUES, point * VALUES, counts[2] * VALUES, with);
            }
        }
    }
}

static double value_of(int64_t number, int step) { return (double)number + step * 0.5; }

static void fill_row(double *row, int64_t first, int count, void *step) {
    for (int i = 0; i < count; i++) row[i] = value_of(first + i, *(int *)step);
}

struct checked {
    int step;
    long wrong;
};

static void check_row(double *row, int64_t first, int count, void *with) {
    struct checked *checked = with;
    for (int i = 0; i < count; i++) checked->wrong += row[i] != value_of(first + i, checked->step);
}

/* The ways of the subtypes. */
struct way {
    const char *name;
    int is_own;
    /* Moves a step's values between memory and the file. */
    void (*move)(MPI_File handle, int step, double *values, int is_write);
};

static MPI_Datatype in_file, in_memory;
static int64_t own_points;

static void move_full(MPI_File handle, int step, double *values, int is_write) {
    MPI_Offset offset = (MPI_Offset)step * own_points * VALUES;
    if (is_write) {
        MPI_OK(MPI_File_write_at_all(handle, offset, values, 1, in_memory, MPI_STATUS_IGNORE));
    } else {
        MPI_OK(MPI_File_read_at_all(handle, offset, values, 1, in_memory, MPI_STATUS_IGNORE));
    }
}

struct moved {
    MPI_File handle;
    MPI_Offset offset;
    int is_write;
};

static void move_row(double *row, int64_t first, int count, void *with) {
    struct moved *moved = with;
    MPI_Offset offset = (moved->offset + first) * (MPI_Offset)sizeof *row;
    if (moved->is_write) {
        MPI_OK(MPI_File_write_at(moved->handle, offset, row, count, MPI_DOUBLE, MPI_STATUS_IGNORE));
    } else {
        MPI_OK(MPI_File_read_at(moved->handle, offset, row, count, MPI_DOUBLE, MPI_STATUS_IGNORE));
    }
}

static void move_simple(MPI_File handle, int step, double *values, int is_write) {
    struct moved moved = {handle, (MPI_Offset)step * total * total * total * VALUES, is_write};
    each_row(values, move_row, &moved);
}

static void move_epio(MPI_File handle, int step, double *values, int is_write) {
    MPI_Offset offset = (MPI_Offset)step * own_points * VALUES * (MPI_Offset)sizeof *values;
    if (is_write) {
        MPI_OK(MPI_File_write_at(handle, offset, values, 1, in_memory, MPI_STATUS_IGNORE));
    } else {
        MPI_OK(MPI_File_read_at(handle, offset, values, 1, in_memory, MPI_STATUS_IGNORE));
    }
}

static const struct way ways[] = {
    {"full", 0, move_full},
    {"simple", 0, move_simple},
    {"epio", 1, move_epio},
};

static const struct way *way_of(const char *name) {
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (strcmp(ways[i].name, name) == 0) return &ways[i];
    }
    failed(__FILE__, __LINE__, "no such subtype: %s", name);
}

static MPI_File opened_for(const struct way *way, const char *file, int mode) {
    MPI_File handle;
    if (way->is_own) {
        char own[4096];
        snprintf(own, sizeof own, "%s.%d", file, rank);
        MPI_OK(MPI_File_open(MPI_COMM_SELF, own, mode, MPI_INFO_NULL, &handle));
        return handle;
    }
    handle = opened(file, mode);
    if (way->move == move_full) {
        MPI_OK(MPI_File_set_view(handle, 0, MPI_DOUBLE, in_file, "native", MPI_INFO_NULL));
    }
    return handle;
}

struct copied {
    char *at;
    int is_write;
};

static void copy_row(double *row, int64_t first, int count, void *with) {
    (void)first;
    struct copied *copied = with;
    size_t bytes = (size_t)count * sizeof *row;
    if (copied->is_write) {
        memcpy(copied->at, row, bytes);
    } else {
        memcpy(row, copied->at, bytes);
    }
    copied->at += bytes;
}

/* What the steps take where nothing is done but copying, of each rank's rows into new memory of its own, in large pages
 * where the system has some, and back; a step is over when all have copied, as a collective one is. Of more steps than
 * there is room for it is reckoned from the first ones. */
static void tell_floors(double *values, size_t held, int steps) {
    const size_t most = (size_t)2 << 30;
    size_t own = (size_t)own_points * VALUES * sizeof *values, room = most / (size_t)ranks / own;
    int count = room < (size_t)steps ? (room > 0 ? (int)room : 1) : steps;
    size_t length = own * (size_t)count;
    char *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED, "no memory for %zu bytes", length);
    madvise(memory, length, MADV_HUGEPAGE);
    struct checked checked = {0, 0};
    for (int is_write = 1; is_write >= 0; is_write--) {
        struct copied copied = {memory, is_write};
        double taken = 0;
        for (int step = 0; step < count; step++) {
            if (is_write) {
                each_row(values, fill_row, &step);
            } else {
                memset(values, 0, held);
            }
            double since = started();
            each_row(values, copy_row, &copied);
            taken += started() - since;
            checked.step = step;
            if (!is_write) each_row(values, check_row, &checked);
        }
        tell(is_write ? "floor-write" : "floor-read", longest(taken) * steps / count);
    }
    munmap(memory, length);
    CHECK(checked.wrong == 0, "%ld values are not what was copied", checked.wrong);
}

void btio(const char *file, char **arguments) {
    const struct way *way = way_of(arguments[1]);
    int steps = (int)number(arguments[2]);
    total = (int)number(arguments[0]);
    for (cells = 1; cells * cells < ranks; cells++) continue;
    CHECK(cells * cells == ranks && total >= cells, "%d ranks cannot share %d", ranks, total);
    width = begin_of(1) + 2 * GHOSTS;
    own_points = 0;
    for (int cell = 0; cell < cells; cell++) {
        int at[3], counts[3];
        cell_at(cell, at, counts);
        own_points += (int64_t)counts[0] * counts[1] * counts[2];
    }
    size_t held = (size_t)cells * (size_t)width * width * width * VALUES * sizeof(double);
    double *values = touched(held);
    in_file = of_file();
    in_memory = of_memory();
    int64_t bytes = (int64_t)total * total * total * VALUES * (int64_t)sizeof(double) * steps;

    double since = started();
    MPI_File handle = opened_for(way, file, MPI_MODE_CREATE | MPI_MODE_RDWR);
    double opening = MPI_Wtime() - since, taken = 0;
    since = started();
    for (int step = 0; step < steps; step++) {
        taken += MPI_Wtime() - since;
        each_row(values, fill_row, &step);
        since = started();
        way->move(handle, step, values, 1);
    }
    closed(&handle);
    taken += MPI_Wtime() - since;
    tell_moved("io", longest(taken), bytes);
    tell_moved("write", longest(opening + taken), bytes);

    struct checked checked = {0, 0};
    memset(values, 0, held);
    since = started();
    taken = 0;
    handle = opened_for(way, file, MPI_MODE_RDONLY);
    for (int step = 0; step < steps; step++) {
        way->move(handle, step, values, 0);
        taken += MPI_Wtime() - since;
        checked.step = step;
        each_row(values, check_row, &checked);
        since = started();
    }
    closed(&handle);
    tell_moved("read", longest_since(since - taken), bytes);
    tell_wrong(checked.wrong);
    tell_floors(values, held, steps);
    free(values);
    MPI_OK(MPI_Type_free(&in_file));
    MPI_OK(MPI_Type_free(&in_memory));
}
