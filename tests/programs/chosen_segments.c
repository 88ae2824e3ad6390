/* chosen_segments FILE [PLACEMENT]: all ranks write blocks of 256 KiB in turn, collectively; tells the size and
   the placement of segments that are in force then, and checks what each reads of its neighbour. PLACEMENT is a hint. */

#include "check.h"

enum { BLOCK = 256 << 10, BLOCKS = 8 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
    char *written = malloc(BLOCK * BLOCKS), *found = malloc(BLOCK * BLOCKS);
    for (int i = 0; i < BLOCK * BLOCKS; i++) written[i] = (char)(i % 251 + rank);

    MPI_File file;
    MPI_Datatype blocks;
    MPI_Info info;
    MPI_Info_create(&info);
    if (argc > 2) MPI_Info_set(info, "svm_placement", argv[2]);
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    MPI_Info_free(&info);
    MPI_Type_vector(BLOCKS, BLOCK, BLOCK * ranks, MPI_BYTE, &blocks);
    MPI_Type_commit(&blocks);
    MPI_OK(MPI_File_set_view(file, (MPI_Offset)rank * BLOCK, MPI_BYTE, blocks, "native", MPI_INFO_NULL));
    MPI_OK(MPI_File_write_all(file, written, BLOCK * BLOCKS, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);

    int next = (rank + 1) % ranks;
    MPI_OK(MPI_File_set_view(file, (MPI_Offset)next * BLOCK, MPI_BYTE, blocks, "native", MPI_INFO_NULL));
    MPI_OK(MPI_File_read_at_all(file, 0, found, BLOCK * BLOCKS, MPI_BYTE, MPI_STATUS_IGNORE));
    for (int i = 0; i < BLOCK * BLOCKS; i++) EQUAL(found[i], (char)(i % 251 + next));

    char size[64], placement[64];
    int is_there;
    MPI_OK(MPI_File_get_info(file, &info));
    MPI_Info_get(info, "svm_segment_size", sizeof size - 1, size, &is_there);
    EQUAL(is_there, 1);
    MPI_Info_get(info, "svm_placement", sizeof placement - 1, placement, &is_there);
    EQUAL(is_there, 1);
    MPI_Info_free(&info);
    MPI_Type_free(&blocks);
    MPI_OK(MPI_File_close(&file));
    if (rank == 0) printf("segments of %s bytes, %s\n", size, placement);
    free(written);
    free(found);
    MPI_Finalize();
    return 0;
}
