/* Processes have a file mapped as a whole, a part of it once more, and all of it again by its name: whichever mapping
 * they store into, and whichever the barrier names, all see it after that by all of them. */
#include "support.h"

enum { PAGE = 4096, SLAB = 128 << 10, ROUNDS = 4, MOST = 8 };

static int rank, size;

/* A number at the beginning of a page of a process's slab. */
static volatile long *at(void *file, int slab, int page) {
    return (volatile long *)((char *)file + (size_t)slab * SLAB + (size_t)page * PAGE);
}

/* What each process stores lies in the slab of the next one: a page by the mapping of the part, and one by each of the
 * mappings of the whole. */
static void demand(void *whole, long number) {
    for (int writer = 0; writer < size; writer++)
        for (int page = 0; page < 3; page++)
            DEMAND(*at(whole, (writer + 1) % size, 3 * writer + page) == number + writer);
}

int main(void) {
    SUCCEED(svm_init());
    rank = svm_rank(), size = svm_size();
    DEMAND(size <= MOST);
    svm_options options = svm_default_options();
    options.segment_size = 64 << 10;
    svm_file *file;
    void *whole, *part, *again;
    int next = (rank + 1) % size;
    SUCCEED(svm_open("/twice", SVM_WRITE | SVM_READ | SVM_CREATE, &options, &file));
    SUCCEED(svm_map_file(file, 0, (size_t)size * SLAB, NULL, &whole));
    SUCCEED(svm_map_file(file, (uint64_t)next * SLAB, SLAB, NULL, &part));
    SUCCEED(svm_map("/twice", SVM_WRITE, 0, (size_t)size * SLAB, NULL, &again));
    /* Each slab lies on the node of its process: all others have to be told what is stored there. */
    for (int page = 0; page < SLAB / PAGE; page++)
        *at(whole, rank, page) = -1;
    SUCCEED(svm_barrier(whole));

    for (long round = 0; round < ROUNDS; round++) {
        void *const all[] = {whole, part, again};
        *at(part, 0, 3 * rank) = 100 * round + rank;
        *at(whole, next, 3 * rank + 1) = 100 * round + rank;
        *at(again, next, 3 * rank + 2) = 100 * round + rank;
        SUCCEED(svm_barrier(all[round % 3]));
        demand(whole, 100 * round);
        demand(again, 100 * round);
        /* What this process itself has stored by another mapping, and what the one before it has, is seen by all. */
        for (int page = 0; page < 3; page++)
            DEMAND(*at(part, 0, 3 * rank + page) == 100 * round + rank);
        SUCCEED(svm_barrier(all[(round + 1) % 3]));
    }

    SUCCEED(svm_unmap(again));
    SUCCEED(svm_unmap(part));
    SUCCEED(svm_unmap(whole));
    SUCCEED(svm_close(file));
    SUCCEED(svm_finalize());
    if (rank == 0)
        printf("all mappings agree\n");
    return EXIT_SUCCESS;
}
