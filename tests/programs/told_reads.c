/* told_reads FILE: what a read tells is what came of it. One that fails fails, also where data are converted,
 * and the error handler hears of it; one that the file's end cuts short is told short, also where MPI would
 * have it block in atomic mode. */
#include "check.h"
#include "methods.h"

enum { STORED = 4, ASKED = 100 };

static MPI_File file;
/* How often the file's error handler was called. */
static int told;

static void tell(MPI_File *of, int *code, ...) {
    told += *of == file && *code != MPI_SUCCESS;
}

static void failing(const char *representation) {
    const MPI_Offset nowhere = (MPI_Offset)1 << 61;
    MPI_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, representation, MPI_INFO_NULL));
    for (int m = 0; m < method_count; m++) {
        int number;
        if (methods[m].pointer != EXPLICIT) continue;
        doing = methods[m].name;
        told = 0;
        MPI_FAILS(methods[m].read(file, nowhere, &number, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ARG);
        /* MPICH itself calls it twice where a collective read does not block. */
        if (told != 2 || strcmp(methods[m].name, "iwrite_at_all/iread_at_all") != 0) EQUAL(told, 1);
        MPI_OK(MPI_File_sync(file));
        MPI_OK(methods[m].read(file, 0, &number, 1, MPI_INT, MPI_STATUS_IGNORE));
    }
}

static void is_short(MPI_Request *request) {
    MPI_Status status;
    int count;
    MPI_OK(MPI_Wait(request, &status));
    MPI_OK(MPI_Get_count(&status, MPI_BYTE, &count));
    EQUAL(count, STORED);
}

static void short_ones(void) {
    char bytes[ASKED];
    MPI_Request request;
    int is_atomic;
    MPI_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    MPI_OK(MPI_File_set_atomicity(file, 1));
    doing = "iread_at in atomic mode";
    MPI_OK(MPI_File_iread_at(file, 0, bytes, ASKED, MPI_BYTE, &request));
    is_short(&request);
    doing = "iread in atomic mode";
    MPI_OK(MPI_File_iread(file, bytes, ASKED, MPI_BYTE, &request));
    is_short(&request);
    doing = "iread_shared in atomic mode";
    for (int turn = 0; turn < ranks; turn++) {
        MPI_OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
        if (turn == rank) {
            MPI_OK(MPI_File_iread_shared(file, bytes, ASKED, MPI_BYTE, &request));
            is_short(&request);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_OK(MPI_File_get_atomicity(file, &is_atomic));
    EQUAL(is_atomic, 1);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc == 2, "usage: told_reads FILE");
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    if (rank == 0) MPI_OK(MPI_File_write_at(file, 0, "four", STORED, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_sync(file));
    MPI_Errhandler telling;
    MPI_OK(MPI_File_create_errhandler(tell, &telling));
    MPI_OK(MPI_File_set_errhandler(file, telling));
    failing("native");
    failing("external32");
    short_ones();
    doing = "";
    MPI_OK(MPI_File_close(&file));
    MPI_Errhandler_free(&telling);
    if (rank == 0) printf("told as it is\n");
    MPI_Finalize();
    return 0;
}
