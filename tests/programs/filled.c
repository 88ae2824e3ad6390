/* filled FILE: ranks fill what others write next, collectively and without syncs, as PnetCDF fills variables: what was
 * written last is what is read, and stays. */
#include "check.h"

enum { INTS = 500, TURNS = 4 };

static int value(int turn, int slice, int i) { return (turn * 100 + slice) * INTS + i; }

static void write_slice(MPI_File file, int turn, int slice) {
    int own[INTS];
    for (int i = 0; i < INTS; i++) own[i] = value(turn, slice, i);
    MPI_OK(MPI_File_write_at_all(file, slice * (MPI_Offset)sizeof own, own, INTS, MPI_INT, MPI_STATUS_IGNORE));
}

static void expect(MPI_File file, int turn) {
    for (int slice = 0; slice < ranks; slice++) {
        int found[INTS];
        MPI_OK(MPI_File_read_at(file, slice * (MPI_Offset)sizeof found, found, INTS, MPI_INT, MPI_STATUS_IGNORE));
        for (int i = 0; i < INTS; i++) EQUAL(found[i], value(turn, slice, i));
    }
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    HOLDS(argc == 2);
    MPI_File file;
    int mode = MPI_MODE_CREATE | MPI_MODE_RDWR;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], mode, MPI_INFO_NULL, &file));
    for (int turn = 0; turn < TURNS; turn++) {
        write_slice(file, turn, (rank + turn) % ranks);
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
        expect(file, turn);
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    MPI_OK(MPI_File_close(&file));
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    expect(file, TURNS - 1);
    MPI_OK(MPI_File_close(&file));
    if (rank == 0) printf("what was written last is there\n");
    MPI_OK(MPI_Finalize());
    return 0;
}
