/* The shared file pointer is moved, also to and beyond the end of the file: all ranks hear the same of it, and none is left waiting. */
#include "check.h"

/* How many integers are written; what is none of MPI's ways to move a pointer. */
enum { INTS = 10, NO_WAY = 17 };

static MPI_File file;

static void goes_to(MPI_Offset offset, int whence, MPI_Offset expected) {
    MPI_Offset position;
    MPI_OK(MPI_File_seek_shared(file, offset, whence));
    MPI_OK(MPI_File_get_position_shared(file, &position));
    EQUAL(position, expected);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* In a view of which `ints` are in the file. */
static void seeks(int ints) {
    goes_to(3, MPI_SEEK_SET, 3);
    goes_to(2, MPI_SEEK_CUR, 5);
    goes_to(-1, MPI_SEEK_END, ints - 1);
    MPI_FAILS(MPI_File_seek_shared(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    MPI_FAILS(MPI_File_seek_shared(file, -ints, MPI_SEEK_CUR), MPI_ERR_ARG);
    MPI_FAILS(MPI_File_seek_shared(file, rank, MPI_SEEK_SET), MPI_ERR_NOT_SAME);
    MPI_FAILS(MPI_File_seek_shared(file, 0, rank == 1 ? MPI_SEEK_END : MPI_SEEK_SET), MPI_ERR_NOT_SAME);
    for (int one = 0; one < ranks; one++)
        MPI_FAILS(MPI_File_seek_shared(file, 0, rank == one ? NO_WAY : MPI_SEEK_SET), MPI_ERR_NOT_SAME);
    MPI_FAILS(MPI_File_seek_shared(file, 0, NO_WAY), MPI_ERR_ARG);
    MPI_FAILS(MPI_File_seek_shared(file, -ints - 1, MPI_SEEK_END), MPI_ERR_ARG);
    goes_to(0, MPI_SEEK_CUR, ints - 1);
}

/* In a view of which nothing is in the file: its end is the view's beginning, for the individual pointer, too. */
static void beyond(void) {
    MPI_Offset position;
    goes_to(0, MPI_SEEK_END, 0);
    goes_to(3, MPI_SEEK_END, 3);
    MPI_FAILS(MPI_File_seek_shared(file, -1, MPI_SEEK_END), MPI_ERR_ARG);
    for (int offset = 0; offset < 4; offset += 3) {
        MPI_OK(MPI_File_seek(file, offset, MPI_SEEK_END));
        MPI_OK(MPI_File_get_position(file, &position));
        EQUAL(position, offset);
    }
    HOLDS(MPI_File_seek(file, -1, MPI_SEEK_END) != MPI_SUCCESS);
    MPI_OK(MPI_File_get_position(file, &position));
    EQUAL(position, 3);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int numbers[INTS] = {0};
    int amode = MPI_MODE_RDWR | MPI_MODE_CREATE;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], amode, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_write_at_all(file, 0, numbers, INTS * 4, MPI_BYTE, MPI_STATUS_IGNORE));
    doing = "bytes";
    seeks(INTS * 4);
    doing = "integers";
    MPI_OK(MPI_File_set_view(file, 4, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    seeks(INTS - 1);
    doing = "a view beyond the end of the file";
    MPI_OK(MPI_File_set_view(file, INTS * 4 + 400, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    beyond();
    doing = "every other integer";
    MPI_Datatype other;
    MPI_Type_create_resized(MPI_INT, 0, 8, &other);
    MPI_Type_commit(&other);
    MPI_OK(MPI_File_set_view(file, 0, MPI_INT, other, "native", MPI_INFO_NULL));
    seeks(INTS / 2);
    doing = "every other integer beyond the end of the file";
    MPI_OK(MPI_File_set_view(file, INTS * 4 + 400, MPI_INT, other, "native", MPI_INFO_NULL));
    beyond();
    MPI_Type_free(&other);
    doing = "";
    MPI_OK(MPI_File_close(&file));
    if (rank == 0) printf("all have gone together\n");
    MPI_Finalize();
    return 0;
}
