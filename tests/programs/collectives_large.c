/* Elements of more bytes than an int counts, with gaps, are given and received. Their memory is the same page again and
 * again, so that they take little. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

enum { BLOCK = 1 << 20, STRIDE = BLOCK + (1 << 16), BLOCKS = 2049 };

/* Memory of `length` bytes, each STRIDE of which are the same. */
static char *repeated(size_t length) {
    int file = memfd_create("repeated", 0);
    HOLDS(file >= 0 && ftruncate(file, STRIDE) == 0);
    char *start = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    HOLDS(start != MAP_FAILED);
    for (size_t at = 0; at < length; at += STRIDE) {
        size_t rest = length - at < STRIDE ? length - at : STRIDE;
        HOLDS(mmap(start + at, rest, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == start + at);
    }
    close(file);
    return start;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    EQUAL(ranks, 2);
    MPI_Datatype gaps, row, block;
    MPI_OK(MPI_Type_vector(BLOCKS, BLOCK, STRIDE, MPI_BYTE, &gaps));
    MPI_OK(MPI_Type_commit(&gaps));
    MPI_OK(MPI_Type_contiguous(BLOCK, MPI_BYTE, &block));
    MPI_OK(MPI_Type_contiguous(BLOCKS, block, &row));
    MPI_OK(MPI_Type_commit(&row));
    char *memory = repeated((size_t)BLOCKS * STRIDE);
    for (int root = 0; root < 2; root++) {
        /* What is given in blocks with gaps is received in a row, and the other way round. */
        memset(memory, rank == root ? 10 + root : 99, STRIDE);
        MPI_OK(MPI_Bcast(memory, 1, rank == 0 ? gaps : row, root, MPI_COMM_WORLD));
        EQUAL(memory[BLOCK - 1], 10 + root);
        EQUAL(memory[BLOCK], rank == root || rank == 1 ? 10 + root : 99);
    }
    MPI_OK(MPI_Type_free(&gaps));
    MPI_OK(MPI_Type_free(&row));
    MPI_OK(MPI_Type_free(&block));
    if (rank == 0) printf("large elements are right\n");
    MPI_Finalize();
    return 0;
}
