/* told_reads FILE: what a read tells is what came of it. One that fails fails, also where MPI converts what it takes
 * for read. */
#include "check.h"
#include "methods.h"

enum { STORED = 4 };

static MPI_File file;

static void failing(const char *representation) {
    const MPI_Offset nowhere = (MPI_Offset)1 << 61;
    MPI_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, representation, MPI_INFO_NULL));
    for (int m = 0; m < method_count; m++) {
        int number;
        if (methods[m].pointer != EXPLICIT) continue;
        doing = methods[m].name;
        MPI_FAILS(methods[m].read(file, nowhere, &number, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ARG);
        MPI_OK(MPI_File_sync(file));
        MPI_OK(methods[m].read(file, 0, &number, 1, MPI_INT, MPI_STATUS_IGNORE));
    }
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc == 2, "usage: told_reads FILE");
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    if (rank == 0) MPI_OK(MPI_File_write_at(file, 0, "four", STORED, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_sync(file));
    failing("native");
    failing("external32");
    doing = "";
    MPI_OK(MPI_File_close(&file));
    if (rank == 0) printf("told as it is\n");
    MPI_Finalize();
    return 0;
}
