/* All ranks together read files NAME.KIND and copy them, block by block, to plain files PLACE.KIND. Every other round of
 * blocks is read independently of the others. */
#include <fcntl.h>
#include <unistd.h>

#include "check.h"

enum { BLOCK = 50021 };

static void write_plain(int plain, const char *bytes, size_t count, off_t at) {
    while (count > 0) {
        ssize_t written = pwrite(plain, bytes, count, at);
        CHECK(written > 0, "the copy cannot be written");
        bytes += written, at += written, count -= (size_t)written;
    }
}

static void copy(const char *name, const char *place) {
    static char block[BLOCK];
    MPI_File file;
    MPI_Offset size;
    MPI_Status status;
    int count;
    doing = name;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_get_size(file, &size));
    int plain = open(place, O_CREAT | O_WRONLY, 0644);
    CHECK(plain >= 0, "%s cannot be opened", place);
    MPI_Offset blocks = (size + BLOCK - 1) / BLOCK, rounds = (blocks + ranks - 1) / ranks;
    for (MPI_Offset round = 0; round < rounds; round++) {
        /* A rank's neighbour changes from round to round, and so does the node that reads a block. */
        MPI_Offset at = (round * ranks + (rank + round) % ranks) * BLOCK, left = size > at ? size - at : 0;
        int wanted = left < BLOCK ? (int)left : BLOCK;
        if (round % 2 == 0) {
            MPI_OK(MPI_File_read_at_all(file, at, block, wanted, MPI_BYTE, &status));
        } else {
            MPI_OK(MPI_File_read_at(file, at, block, wanted, MPI_BYTE, &status));
        }
        MPI_OK(MPI_Get_count(&status, MPI_BYTE, &count));
        EQUAL(count, wanted);
        write_plain(plain, block, (size_t)count, at);
    }
    HOLDS(close(plain) == 0);
    MPI_OK(MPI_File_close(&file));
}

int main(int argc, char **argv) {
    char name[1024], place[1024];
    begin(&argc, &argv);
    CHECK(argc > 3, "usage: copy_out NAME PLACE KIND...");
    for (int kind = 3; kind < argc; kind++) {
        snprintf(name, sizeof name, "%s.%s", argv[1], argv[kind]);
        snprintf(place, sizeof place, "%s.%s", argv[2], argv[kind]);
        copy(name, place);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("all files are copied\n");
    MPI_Finalize();
    return 0;
}
