/* pending_write FILE ROUNDS BYTES: in each round, to a new file, rank 1 begins a nonblocking write of so many bytes at 1 GiB
 * and goes on, while that has hardly begun, to the first collective write of all, of a block of each rank, which would have
 * smaller segments settled otherwise. All of it is in the file then, and nothing else. */

#include "check.h"

enum { BLOCK = 512 << 10 };

static const MPI_Offset far = 1 << 30;

static void fill(char *bytes, int count, int of) {
    for (int i = 0; i < count; i++) bytes[i] = (char)(i % 251 + of);
}

/* That bytes of the file are these, or zeros. */
static void check(MPI_File file, MPI_Offset at, const char *expected, char *found, int count) {
    MPI_Status status;
    int got;
    MPI_OK(MPI_File_read_at(file, at, found, count, MPI_BYTE, &status));
    MPI_Get_count(&status, MPI_BYTE, &got);
    EQUAL(got, count);
    for (int i = 0; i < count; i++) {
        int byte = expected ? expected[i] : 0;
        CHECK(found[i] == byte, "%s: byte %lld is %d instead of %d", doing, (long long)at + i, found[i], byte);
    }
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    HOLDS(argc == 4 && ranks > 1);
    int rounds = atoi(argv[2]), length = atoi(argv[3]), longest = length > BLOCK ? length : BLOCK;
    char *pending = malloc((size_t)length), *block = malloc(BLOCK), *found = malloc((size_t)longest);
    fill(pending, length, 100);

    for (int round = 0; round < rounds; round++) {
        char name[256], what[64];
        snprintf(name, sizeof name, "%s-%d", argv[1], round);
        snprintf(what, sizeof what, "round %d", round);
        doing = what;
        MPI_File file;
        MPI_Request request;
        int mode = MPI_MODE_CREATE | MPI_MODE_RDWR;
        MPI_OK(MPI_File_open(MPI_COMM_WORLD, name, mode, MPI_INFO_NULL, &file));
        fill(block, BLOCK, rank);
        if (rank == 1) MPI_OK(MPI_File_iwrite_at(file, far, pending, length, MPI_BYTE, &request));
        MPI_OK(MPI_File_write_at_all(file, (MPI_Offset)rank * BLOCK, block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
        if (rank == 1) MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        MPI_OK(MPI_File_close(&file));

        MPI_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
        MPI_Offset size;
        MPI_OK(MPI_File_get_size(file, &size));
        EQUAL(size, far + length);
        if (rank == round % ranks) {
            for (int of = 0; of < ranks; of++) {
                fill(block, BLOCK, of);
                check(file, (MPI_Offset)of * BLOCK, block, found, BLOCK);
            }
            check(file, (MPI_Offset)ranks * BLOCK, NULL, found, BLOCK);
            check(file, far - BLOCK, NULL, found, BLOCK);
            check(file, far, pending, found, length);
        }
        MPI_OK(MPI_File_close(&file));
        if (rank == 0) MPI_OK(MPI_File_delete(name, MPI_INFO_NULL));
    }
    if (rank == 0) printf("all of it is there\n");
    free(pending);
    free(block);
    free(found);
    MPI_Finalize();
    return 0;
}
