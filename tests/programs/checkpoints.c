/* Writes checkpoints, each into a new file, and removes the one before it: `checkpoints NAME COUNT [READY]`. Each rank
 * writes a block and leaves a gap behind it, in which there has to be nothing. With READY it makes that file behind the
 * last one, and waits to be killed. */
#include <unistd.h>

#include "check.h"

enum { BLOCK = 3 << 20, GAP = 5000, PERIOD = BLOCK + GAP };
static unsigned char block[PERIOD];

static void name_of(char *to, size_t bytes, const char *name, int number) { snprintf(to, bytes, "%s-%d", name, number); }

static void checkpoint(const char *name, int number) {
    char path[4096];
    MPI_File file;
    name_of(path, sizeof path, name, number);
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    int value = 1 + (number * ranks + rank) % 255, next = (rank + 1) % ranks;
    memset(block, value, BLOCK);
    MPI_OK(MPI_File_write_at_all(file, (MPI_Offset)PERIOD * rank, block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_set_size(file, (MPI_Offset)PERIOD * ranks));
    MPI_OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_OK(MPI_File_sync(file));
    MPI_OK(MPI_File_read_at(file, (MPI_Offset)PERIOD * next, block, PERIOD, MPI_BYTE, MPI_STATUS_IGNORE));
    value = 1 + (number * ranks + next) % 255;
    for (int i = 0; i < PERIOD; i++) {
        int expected = i < BLOCK ? value : 0;
        CHECK(block[i] == expected, "checkpoint %d, byte %d of rank %d's: %d instead of %d", number, i, next, block[i], expected);
    }
    MPI_OK(MPI_File_close(&file));
}

int main(int argc, char **argv) {
    char path[4096];
    begin(&argc, &argv);
    CHECK(argc == 3 || argc == 4, "usage: checkpoints NAME COUNT [READY]");
    for (int number = 0; number < atoi(argv[2]); number++) {
        checkpoint(argv[1], number);
        name_of(path, sizeof path, argv[1], number);
        if (rank == 0) MPI_OK(MPI_File_delete(path, MPI_INFO_NULL));
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (argc == 4) {
        if (rank == 0) fclose(fopen(argv[3], "w"));
        for (;;) pause();
    }
    MPI_Finalize();
    return 0;
}
