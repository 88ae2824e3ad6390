/* Gives MPI_File_write_at more bytes than its buffer has: `misused NAME`. What stands behind the buffer is written, too,
 * and only who watches the memory sees that something is wrong. */
#include "check.h"

enum { BUFFER = 8000, BEHIND = 200 };

int main(int argc, char **argv) {
    MPI_File file;
    begin(&argc, &argv);
    CHECK(argc == 2, "usage: misused NAME");
    char *buffer = calloc(1, BUFFER);
    CHECK(buffer != NULL, "no memory");
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    /* Compilers would refuse what they can count. */
    volatile int bytes = BUFFER + BEHIND;
    MPI_OK(MPI_File_write_at(file, 0, buffer, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_close(&file));
    free(buffer);
    MPI_Finalize();
    return 0;
}
