/* tools FILE...: opens, closes and removes each. */
#include "check.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    for (int i = 1; i < argc; i++) {
        MPI_File file;
        int mode = MPI_MODE_CREATE | MPI_MODE_RDWR;
        MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[i], mode, MPI_INFO_NULL, &file));
        MPI_OK(MPI_File_close(&file));
        if (rank == 0) MPI_OK(MPI_File_delete(argv[i], MPI_INFO_NULL));
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    MPI_Finalize();
    return 0;
}
