/* Heat in a rod, computed by processes that share it as memory: each has a part of the cells, and reads its neighbours'
 * next to that. */
#include <stdio.h>
#include <stdlib.h>
#include <svmio.h>

enum { CELLS = 6000, STEPS = 50 };

struct rod {
    double cells[2][CELLS]; /* before and after a step, in turns */
    double heat;            /* of all cells */
};

static void check(int status) {
    if (status != SVM_SUCCESS) {
        fprintf(stderr, "%s\n", svm_error());
        exit(EXIT_FAILURE); /* the others are told that this process is lost */
    }
}

int main(void) {
    check(svm_init());
    int rank = svm_rank(), size = svm_size();
    int first = rank * (CELLS / size), end = rank == size - 1 ? CELLS : first + CELLS / size;

    void *address;
    check(svm_map("svm:/rod", SVM_WRITE | SVM_CREATE, 0, sizeof(struct rod), NULL, &address));
    struct rod *rod = address;

    for (int cell = first; cell < end; cell++)
        rod->cells[0][cell] = cell < CELLS / 2 ? 100 : 0;
    if (rank == 0)
        rod->heat = 0;
    for (int step = 0; step < STEPS; step++) {
        check(svm_barrier(rod)); /* all see what all have stored before it */
        const double *before = rod->cells[step % 2];
        double *after = rod->cells[(step + 1) % 2];
        for (int cell = first; cell < end; cell++) {
            double left = before[cell > 0 ? cell - 1 : cell], right = before[cell < CELLS - 1 ? cell + 1 : cell];
            after[cell] = before[cell] + 0.25 * (left - 2 * before[cell] + right);
        }
    }

    double own = 0;
    for (int cell = first; cell < end; cell++)
        own += rod->cells[STEPS % 2][cell];
    check(svm_lock(&rod->heat, sizeof rod->heat, SVM_LOCK_EXCLUSIVE)); /* one after the other */
    rod->heat += own;
    check(svm_unlock(&rod->heat, sizeof rod->heat));

    check(svm_barrier(rod));
    if (rank == 0)
        printf("%d processes, heat %.3f, in the middle %.3f\n", size, rod->heat, rod->cells[STEPS % 2][CELLS / 2]);
    check(svm_sync(rod, 0)); /* what this process has stored is on the storage devices */
    check(svm_unmap(rod));
    check(svm_finalize());
    return EXIT_SUCCESS;
}
