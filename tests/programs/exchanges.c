/* exchanges FILE BYTES: all ranks write so many bytes each, five times, in pieces of 8 bytes that follow each other in turn,
 * with one collective call, and sync after each. All of it lies on the first node. */
#include <stdint.h>

#include "check.h"

enum { PIECE = 8, ROUNDS = 5 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc == 3, "usage: exchanges FILE BYTES");
    int bytes = atoi(argv[2]), pieces = bytes / PIECE;
    char *written = malloc((size_t)bytes), *found = malloc((size_t)bytes);
    MPI_File file;
    MPI_Info info;
    MPI_Datatype own;
    MPI_Info_create(&info);
    MPI_Info_set(info, "svm_placement", "node=n0");
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    MPI_Type_vector(pieces, PIECE, PIECE * ranks, MPI_BYTE, &own);
    MPI_Type_commit(&own);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Offset start = (MPI_Offset)round * bytes * ranks;
        memset(written, 1 + round * ranks + rank, (size_t)bytes);
        MPI_OK(MPI_File_set_view(file, start + PIECE * rank, MPI_BYTE, own, "native", MPI_INFO_NULL));
        MPI_OK(MPI_File_write_at_all(file, 0, written, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
        MPI_OK(MPI_File_sync(file));
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_OK(MPI_File_sync(file));
        int next = (rank + 1) % ranks;
        memset(written, 1 + round * ranks + next, (size_t)bytes);
        MPI_OK(MPI_File_set_view(file, start + PIECE * next, MPI_BYTE, own, "native", MPI_INFO_NULL));
        MPI_OK(MPI_File_read_at_all(file, 0, found, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
        EQUAL(memcmp(written, found, (size_t)bytes), 0);
    }
    MPI_OK(MPI_File_close(&file));
    MPI_Type_free(&own);
    MPI_Info_free(&info);
    free(written);
    free(found);
    MPI_Finalize();
    return 0;
}
