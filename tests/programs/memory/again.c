/* Processes leave their job and join it again, one right after the other; the file that they share stays. */
#include "support.h"

enum { TIMES = 3 };

int main(void) {
    int rank = 0;
    for (int time = 0; time < TIMES; time++) {
        SUCCEED(svm_init());
        rank = svm_rank();
        svm_options options = svm_default_options();
        void *address;
        SUCCEED(svm_map("SVM:/again", SVM_WRITE | SVM_CREATE, 0, 4096, &options, &address));
        long *count = (long *)address;
        SUCCEED(svm_lock(count, sizeof *count, SVM_LOCK_EXCLUSIVE));
        DEMAND(*count >= (long)time * svm_size());
        *count += 1;
        SUCCEED(svm_unlock(count, sizeof *count));
        SUCCEED(svm_barrier(count));
        DEMAND(*count == (long)(time + 1) * svm_size());
        SUCCEED(svm_barrier(count));
        SUCCEED(svm_unmap(count));
        SUCCEED(svm_finalize());
    }
    if (rank == 0)
        puts("all have met three times");
    return EXIT_SUCCESS;
}
