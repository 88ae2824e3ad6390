/* dump_in_handler FILE DUMP: the error handler of a file whose split collective write does not begin, for a negative count,
 * writes a dump to a file of its own rank by a call that blocks. It is over when that returns: what the handler does to the
 * buffer then is not in the dump, and the call's outcome is not told by another one. */

#include "check.h"

enum { BYTES = 4 << 20 };

static char dump[512];
static char *buffer;
static int calls;

static void write_dump(MPI_File *failing, int *code, ...) {
    (void)failing, (void)code;
    calls++;
    MPI_File file;
    MPI_Status status;
    int got;
    MPI_OK(MPI_File_open(MPI_COMM_SELF, dump, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    memset(buffer, 'd', BYTES);
    MPI_OK(MPI_File_write_all(file, buffer, BYTES, MPI_BYTE, &status));
    memset(buffer, 'x', BYTES);
    MPI_Get_count(&status, MPI_BYTE, &got);
    EQUAL(got, BYTES);
    MPI_OK(MPI_File_close(&file));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    HOLDS(argc == 3);
    snprintf(dump, sizeof dump, "%s-%d", argv[2], rank);
    buffer = malloc(BYTES);
    MPI_Errhandler handler;
    MPI_File file;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_create_errhandler(write_dump, &handler));
    MPI_OK(MPI_File_set_errhandler(file, handler));
    for (int turn = 0; turn < 20; turn++) {
        int before = calls;
        /* MPICH 5 returns success for what a handler was called for. */
        MPI_File_write_all_begin(file, buffer, -1, MPI_BYTE);
        EQUAL(calls, before + 1);
        MPI_File written;
        MPI_OK(MPI_File_open(MPI_COMM_SELF, dump, MPI_MODE_RDONLY, MPI_INFO_NULL, &written));
        MPI_OK(MPI_File_read(written, buffer, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
        for (int i = 0; i < BYTES; i++) CHECK(buffer[i] == 'd', "byte %d of the dump is %d", i, buffer[i]);
        MPI_OK(MPI_File_close(&written));
        MPI_OK(MPI_File_delete(dump, MPI_INFO_NULL));
    }
    /* One that does begin is a split one still. */
    memset(buffer, 'a', BYTES);
    MPI_OK(MPI_File_write_at_all_begin(file, (MPI_Offset)rank * BYTES, buffer, BYTES, MPI_BYTE));
    MPI_OK(MPI_File_write_at_all_end(file, buffer, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_close(&file));
    MPI_OK(MPI_Errhandler_free(&handler));
    if (rank == 0) printf("each dump is whole\n");
    free(buffer);
    MPI_Finalize();
    return 0;
}
