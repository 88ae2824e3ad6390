/* shared_handles FILE: a file that is opened several times at once has a shared pointer for each time. */
#include "check.h"

enum { HANDLES = 4, BYTES = 10 };

static void goes_alone(const char *name, MPI_Comm comm, int members) {
    MPI_File handles[HANDLES];
    char bytes[BYTES] = {0};
    for (int i = 0; i < HANDLES; i++)
        MPI_OK(MPI_File_open(comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &handles[i]));
    for (int i = 0; i < HANDLES; i++)
        for (int turn = 0; turn <= i; turn++)
            MPI_OK(MPI_File_write_shared(handles[i], bytes, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_OK(MPI_Barrier(comm));
    for (int i = 0; i < HANDLES; i++) {
        MPI_Offset position;
        MPI_OK(MPI_File_get_position_shared(handles[i], &position));
        EQUAL(position, members * (i + 1) * BYTES);
    }
    MPI_OK(MPI_Barrier(comm));
    for (int i = 0; i < HANDLES; i++) MPI_OK(MPI_File_close(&handles[i]));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    HOLDS(argc == 2);
    doing = "with all ranks";
    goes_alone(argv[1], MPI_COMM_WORLD, ranks);
    doing = "alone";
    goes_alone(argv[1], MPI_COMM_SELF, 1);
    if (rank == 0) printf("each pointer went alone\n");
    MPI_OK(MPI_Finalize());
    return 0;
}
