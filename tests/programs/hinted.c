/* hinted FILE [KEY VALUE]...: all ranks open a file with these hints, twice, and each writes what is its part of it.
 * A value that begins with `senseless`, which none of svmio's hints can have, is not told of the open file as if it
 * were in force, not even where the file is given it once more. */

#include "check.h"

static void nothing_senseless_is_told(MPI_File file, int hints, char **hint) {
    MPI_Info told;
    MPI_OK(MPI_File_get_info(file, &told));
    for (int i = 0; i < hints; i += 2) {
        char value[MPI_MAX_INFO_VAL + 1];
        int is_told;
        MPI_Info_get(told, hint[i], MPI_MAX_INFO_VAL, value, &is_told);
        CHECK(!is_told || strncmp(value, "senseless", 9) != 0, "%s=%s is told", hint[i], value);
    }
    MPI_Info_free(&told);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc > 1 && argc % 2 == 0, "usage: hinted FILE [KEY VALUE]...");
    MPI_Info info = MPI_INFO_NULL;
    if (argc > 2) MPI_Info_create(&info);
    for (int i = 2; i < argc; i += 2) MPI_Info_set(info, argv[i], argv[i + 1]);
    for (int round = 0; round < 2; round++) {
        MPI_File file;
        MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
        nothing_senseless_is_told(file, argc - 2, argv + 2);
        if (info != MPI_INFO_NULL) MPI_OK(MPI_File_set_info(file, info));
        nothing_senseless_is_told(file, argc - 2, argv + 2);
        MPI_OK(MPI_File_write_at_all(file, rank, "x", 1, MPI_BYTE, MPI_STATUS_IGNORE));
        MPI_OK(MPI_File_close(&file));
    }
    if (info != MPI_INFO_NULL) MPI_Info_free(&info);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("written\n");
    MPI_Finalize();
    return 0;
}
