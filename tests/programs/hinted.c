/* hinted FILE [KEY VALUE]...: all ranks open a file with these hints, twice, and each writes what is its part of it. */

#include "check.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc > 1 && argc % 2 == 0, "usage: hinted FILE [KEY VALUE]...");
    MPI_Info info = MPI_INFO_NULL;
    if (argc > 2) MPI_Info_create(&info);
    for (int i = 2; i < argc; i += 2) MPI_Info_set(info, argv[i], argv[i + 1]);
    for (int round = 0; round < 2; round++) {
        MPI_File file;
        MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
        MPI_OK(MPI_File_write_at_all(file, rank, "x", 1, MPI_BYTE, MPI_STATUS_IGNORE));
        MPI_OK(MPI_File_close(&file));
    }
    if (info != MPI_INFO_NULL) MPI_Info_free(&info);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("written\n");
    MPI_Finalize();
    return 0;
}
