/* mounted FILE: FILE lies in a mounted directory, and `svm:FILE` is the same file. Ranks write it by MPI and read it by the
 * system, and the other way round, while it is open both ways; what the system makes, MPI opens and deletes. */
#define _GNU_SOURCE
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 1 << 20 };

static char block[BLOCK], found[BLOCK];

static void fill(char *bytes, int of) {
    for (int i = 0; i < BLOCK; i++) bytes[i] = (char)((i % 251) ^ (of + 1));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc == 2, "usage: mounted FILE");
    char name[4096], other[4096], other_name[4200];
    snprintf(name, sizeof name, "svm:%s", argv[1]);
    snprintf(other, sizeof other, "%s-other", argv[1]);
    snprintf(other_name, sizeof other_name, "svm:%s", other);
    MPI_File file;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    fill(block, rank);
    MPI_OK(MPI_File_write_at_all(file, (MPI_Offset)rank * BLOCK, block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);

    doing = "reading by the system what was written by MPI";
    int next = (rank + 1) % ranks;
    FILE *stream = fopen(argv[1], "rb");
    CHECK(stream, "%s: %s", argv[1], strerror(errno));
    HOLDS(fseek(stream, (long)next * BLOCK, SEEK_SET) == 0);
    EQUAL(fread(found, 1, BLOCK, stream), BLOCK);
    fill(block, next);
    HOLDS(memcmp(found, block, BLOCK) == 0);
    HOLDS(fclose(stream) == 0);
    struct stat facts;
    HOLDS(stat(argv[1], &facts) == 0);
    EQUAL(facts.st_size, (long long)ranks * BLOCK);
    MPI_Barrier(MPI_COMM_WORLD);

    doing = "reading by MPI what was written by the system";
    int descriptor = open(argv[1], O_RDWR);
    HOLDS(descriptor >= 0);
    memset(block, 'a' + rank, 1000);
    EQUAL(pwrite(descriptor, block, 1000, (off_t)rank * BLOCK + 500), 1000);
    if (rank == 0) HOLDS(ftruncate(descriptor, (off_t)ranks * BLOCK + 77) == 0);
    HOLDS(close(descriptor) == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_OK(MPI_File_sync(file));
    MPI_Offset size;
    MPI_OK(MPI_File_get_size(file, &size));
    EQUAL(size, (MPI_Offset)ranks * BLOCK + 77);
    MPI_OK(MPI_File_read_at_all(file, (MPI_Offset)next * BLOCK + 500, found, 1000, MPI_BYTE, MPI_STATUS_IGNORE));
    memset(block, 'a' + next, 1000);
    HOLDS(memcmp(found, block, 1000) == 0);
    MPI_OK(MPI_File_close(&file));

    doing = "opening by MPI what the system made";
    if (rank == 0) {
        stream = fopen(other, "wb");
        CHECK(stream, "%s: %s", other, strerror(errno));
        fill(block, 17);
        EQUAL(fwrite(block, 1, BLOCK, stream), BLOCK);
        HOLDS(fclose(stream) == 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    /* As PnetCDF does first: without the prefix, to see what kind of file it is. */
    descriptor = open(other, O_RDONLY);
    HOLDS(descriptor >= 0);
    EQUAL(read(descriptor, found, 8), 8);
    HOLDS(close(descriptor) == 0);
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, other_name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_read_at_all(file, 0, found, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
    fill(block, 17);
    HOLDS(memcmp(found, block, BLOCK) == 0);
    MPI_OK(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) MPI_OK(MPI_File_delete(other_name, MPI_INFO_NULL));
    MPI_Barrier(MPI_COMM_WORLD);
    HOLDS(access(other, F_OK) != 0 && errno == ENOENT);
    doing = "";
    if (rank == 0) printf("the same both ways\n");
    MPI_Finalize();
    return 0;
}
