/* freed-handler FILE: the handler that files without a handle have, of which the program keeps no reference, is called for
 * each open and removal that fails, also after files were opened and closed that had it, too. */
#include "check.h"

static int calls;

static void count(MPI_File *file, int *code, ...) {
    (void)file, (void)code;
    calls++;
}

static void fail(const char *name, int mode) {
    MPI_File file;
    int before = calls;
    MPI_FAILS(MPI_File_open(MPI_COMM_WORLD, name, mode, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE);
    EQUAL(calls, before + 1);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    HOLDS(argc == 2);
    char missing[256];
    snprintf(missing, sizeof missing, "%s-missing", argv[1]);
    MPI_Errhandler handler;
    MPI_OK(MPI_File_create_errhandler(count, &handler));
    MPI_OK(MPI_File_set_errhandler(MPI_FILE_NULL, handler));
    MPI_OK(MPI_Errhandler_free(&handler));
    for (int turn = 0; turn < 5; turn++) {
        fail(missing, MPI_MODE_RDWR);
        MPI_File file;
        int mode = MPI_MODE_CREATE | MPI_MODE_RDWR;
        MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], mode, MPI_INFO_NULL, &file));
        int before = calls;
        /* MPICH 5 returns success for what a handler was called for. */
        MPI_File_write_at(file, -1, "x", 1, MPI_BYTE, MPI_STATUS_IGNORE);
        EQUAL(calls, before + 1);
        MPI_OK(MPI_File_close(&file));
        /* Others that come to be meanwhile do not take its place. */
        MPI_Errhandler other;
        MPI_OK(MPI_File_create_errhandler(count, &other));
        MPI_OK(MPI_Errhandler_free(&other));
        before = calls;
        if (rank == 0) MPI_FAILS(MPI_File_delete(missing, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
        EQUAL(calls, before + (rank == 0));
    }
    MPI_OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    if (rank == 0) printf("it was called each time\n");
    MPI_OK(MPI_Finalize());
    return 0;
}
