/* staged FILE HOW [SERVERS]: all ranks open a file, twice, HOW says for what, and tell what comes of it. "write" makes it,
   in segments of 64 KiB by all ranks in turn, and "read" reads it in several ways; "update", "create" and "exclusive" try
   what is in their names. SERVERS is a hint. */

#include "check.h"

enum { BLOCK = 64 << 10, BLOCKS = 12, REST = 1000, SIZE = BLOCK * BLOCKS + REST };

static char byte_of(MPI_Offset at) { return (char)(at % 251 + at / BLOCK * 7); }

static void write_all(MPI_File file) {
    static char block[BLOCK];
    for (int number = 0; number <= BLOCKS; number++) {
        int length = number == BLOCKS ? REST : BLOCK, is_own = number % ranks == rank;
        MPI_Offset at = (MPI_Offset)number * BLOCK;
        for (int i = 0; i < length; i++) block[i] = byte_of(at + i);
        MPI_OK(MPI_File_write_at_all(file, at, block, is_own ? length : 0, MPI_BYTE, MPI_STATUS_IGNORE));
    }
}

static void is_right(const char *found, MPI_Offset at, int stride, int count) {
    for (int i = 0; i < count; i++) EQUAL(found[i], byte_of(at + (MPI_Offset)i * stride));
}

static void read_all(MPI_File file) {
    static char found[SIZE + 1];
    MPI_Offset size;
    MPI_Status status;
    int count;
    MPI_OK(MPI_File_get_size(file, &size));
    EQUAL(size, SIZE);
    MPI_OK(MPI_File_read_at_all(file, 0, found, SIZE + 1, MPI_BYTE, &status));
    MPI_OK(MPI_Get_count(&status, MPI_BYTE, &count));
    EQUAL(count, SIZE);
    is_right(found, 0, 1, SIZE);

    MPI_OK(MPI_File_set_atomicity(file, 1));
    MPI_OK(MPI_File_read_at(file, BLOCK - 100 + rank, found, 5 * BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
    is_right(found, BLOCK - 100 + rank, 1, 5 * BLOCK);
    MPI_OK(MPI_File_set_atomicity(file, 0));

    /* Each rank a block in turn, by the pointer that they share. */
    MPI_OK(MPI_File_read_ordered(file, found, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
    is_right(found, (MPI_Offset)rank * BLOCK, 1, BLOCK);

    MPI_Datatype every_third;
    MPI_Type_vector(SIZE / 3, 1, 3, MPI_BYTE, &every_third);
    MPI_Type_commit(&every_third);
    MPI_OK(MPI_File_set_view(file, 1, MPI_BYTE, every_third, "native", MPI_INFO_NULL));
    MPI_OK(MPI_File_read_all(file, found, SIZE / 3 - 1, MPI_BYTE, MPI_STATUS_IGNORE));
    is_right(found, 1, 3, SIZE / 3 - 1);
    MPI_Type_free(&every_third);

    HOLDS(MPI_File_set_size(file, 5) != MPI_SUCCESS);
    HOLDS(MPI_File_write_at(file, 0, found, 1, MPI_BYTE, MPI_STATUS_IGNORE) != MPI_SUCCESS);
}

static int mode_of(const char *how) {
    if (strcmp(how, "read") == 0) return MPI_MODE_RDONLY;
    if (strcmp(how, "update") == 0) return MPI_MODE_RDWR;
    if (strcmp(how, "exclusive") == 0) return MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL;
    return MPI_MODE_RDWR | MPI_MODE_CREATE;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc > 2, "usage: staged FILE HOW [SERVERS]");
    const char *how = argv[2];
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "svm_segment_size", "65536");
    if (argc > 3) MPI_Info_set(info, "svm_servers", argv[3]);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    for (int turn = 0; turn < 2; turn++) {
        MPI_File file;
        int code = MPI_File_open(MPI_COMM_WORLD, argv[1], mode_of(how), info, &file);
        int class = code == MPI_SUCCESS ? 0 : class_of(code), least, largest;
        MPI_Allreduce(&class, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        MPI_Allreduce(&class, &largest, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        EQUAL(least, largest);
        if (code != MPI_SUCCESS) {
            char text[MPI_MAX_ERROR_STRING];
            int length;
            MPI_Error_string(code, text, &length);
            const char *name = class == MPI_ERR_NO_SUCH_FILE ? "no such file"
                               : class == MPI_ERR_READ_ONLY  ? "read only"
                               : class == MPI_ERR_FILE_EXISTS ? "exists"
                               : class == MPI_ERR_IO          ? "io"
                                                              : "something else";
            if (rank == 0) printf("refused: %s: %s\n", name, text);
            continue;
        }
        if (strcmp(how, "write") == 0) write_all(file);
        if (strcmp(how, "read") == 0) read_all(file);
        MPI_OK(MPI_File_close(&file));
        if (rank == 0) printf("done: %s\n", how);
    }
    MPI_Info_free(&info);
    MPI_Finalize();
    return 0;
}
