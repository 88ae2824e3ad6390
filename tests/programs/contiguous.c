/* How fast each rank writes and reads its own contiguous part of a file, block by block, independently of the others. */
#include "check.h"

static double now(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Wtime();
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc == 5, "usage: contiguous NAME BYTES-PER-BLOCK BYTES-PER-RANK PASSES");
    int block = atoi(argv[2]), passes = atoi(argv[4]);
    MPI_Offset blocks = atoll(argv[3]) / block, from = blocks * block * rank;
    char *buffer = malloc((size_t)block);
    CHECK(buffer != NULL && blocks > 0 && passes > 0, "nothing to do");
    memset(buffer, rank + 1, (size_t)block);

    MPI_File file;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                         MPI_INFO_NULL, &file));
    double times[5];
    times[0] = now();
    for (MPI_Offset i = 0; i < blocks; i++) {
        MPI_OK(MPI_File_write_at(file, from + i * block, buffer, block, MPI_BYTE, MPI_STATUS_IGNORE));
    }
    times[1] = now();
    for (MPI_Offset i = 0; i < blocks; i++) {
        MPI_OK(MPI_File_write_at(file, from + i * block, buffer, block, MPI_BYTE, MPI_STATUS_IGNORE));
    }
    times[2] = now();
    for (MPI_Offset i = 0; i < blocks * passes; i++) {
        MPI_OK(MPI_File_write_at(file, from + i % blocks * block, buffer, block, MPI_BYTE, MPI_STATUS_IGNORE));
    }
    times[3] = now();
    for (MPI_Offset i = 0; i < blocks * passes; i++) {
        MPI_OK(MPI_File_read_at(file, from + i % blocks * block, buffer, block, MPI_BYTE, MPI_STATUS_IGNORE));
    }
    times[4] = now();
    CHECK(buffer[0] == rank + 1 && buffer[block - 1] == rank + 1, "something else was read than was written");
    MPI_OK(MPI_File_close(&file));
    if (rank == 0) {
        double pass = (double)(blocks * block * ranks) / 1e6;
        printf("MB/s: %.1f %.1f %.1f %.1f\n", pass / (times[1] - times[0]), pass / (times[2] - times[1]),
               pass * passes / (times[3] - times[2]), pass * passes / (times[4] - times[3]));
    }
    MPI_Finalize();
    return 0;
}
