/* exit_handler FILE: uses a file, closes it, and finalizes MPI in an exit handler, as HDF5 does for programs that leave
 * files open. */
#include "check.h"

static MPI_File file;
static const char *name;

static void expect(int value, MPI_Offset at) {
    int found;
    MPI_OK(MPI_File_read_at_all(file, at, &found, 1, MPI_INT, MPI_STATUS_IGNORE));
    EQUAL(found, value);
}

/* Those that fail, each for another reason and in another function. */
static void fail(void) {
    MPI_File other;
    int word;
    EQUAL(class_of(MPI_File_open(MPI_COMM_WORLD, "svm:/no/such", MPI_MODE_RDONLY, MPI_INFO_NULL, &other)),
          MPI_ERR_NO_SUCH_FILE);
    HOLDS(MPI_File_write_at(file, -5, &rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    HOLDS(MPI_File_read_at_all(file, -5, &word, 1, MPI_INT, MPI_STATUS_IGNORE));
    HOLDS(MPI_File_set_view(file, 0, MPI_DATATYPE_NULL, MPI_INT, "native", MPI_INFO_NULL));
}

static void at_exit(void) {
    const MPI_Offset block = ranks * (MPI_Offset)sizeof(int), own = rank * (MPI_Offset)sizeof(int);
    MPI_Request request;
    MPI_OK(MPI_File_write_at_all(file, own, &rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_iwrite_at(file, block + own, &rank, 1, MPI_INT, &request));
    MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_seek_shared(file, 2 * block, MPI_SEEK_SET));
    MPI_OK(MPI_File_write_ordered(file, &rank, sizeof(int), MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_write_shared(file, &rank, sizeof(int), MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_write_at_all_begin(file, 4 * block + own, &rank, 1, MPI_INT));
    MPI_OK(MPI_File_write_at_all_end(file, &rank, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_sync(file));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_File_sync(file));
    for (int turn = 0; turn < 5; turn++)
        if (turn != 3) expect((rank + 1) % ranks, turn * block + (rank + 1) % ranks * (MPI_Offset)sizeof(int));
    fail();
    MPI_OK(MPI_File_set_atomicity(file, 1));
    MPI_OK(MPI_File_write_at(file, own, &rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_close(&file));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) {
        MPI_OK(MPI_File_delete(name, MPI_INFO_NULL));
        printf("all was done at the end\n");
    }
    MPI_OK(MPI_Finalize());
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    HOLDS(argc == 2);
    name = argv[1];
    /* Opened, used and closed before, the thread has had all that it keeps for that. */
    for (int turn = 0; turn < 2; turn++) {
        if (turn > 0) MPI_OK(MPI_File_close(&file));
        MPI_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
        MPI_OK(MPI_File_write_at(file, rank * (MPI_Offset)sizeof(int), &turn, 1, MPI_INT, MPI_STATUS_IGNORE));
    }
    fail();
    HOLDS(atexit(at_exit) == 0);
    return 0;
}
