/* A child that is forked has nothing of a mapping: neither what lies on this node nor what was fetched from another. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

enum { PART = 1 << 20 };

/* The signal of which a child dies that loads from there, or 0. */
static int signal_of_child(const volatile char *at) {
    pid_t child = fork();
    DEMAND(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        (void)*at;
        _exit(0);
    }
    int status;
    DEMAND(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

int main(void) {
    SUCCEED(svm_init());
    int rank = svm_rank(), size = svm_size();
    void *address;
    svm_options options = svm_default_options();
    options.segment_size = PART;
    SUCCEED(svm_map("f", SVM_WRITE | SVM_CREATE, 0, (size_t)size * PART, &options, &address));
    volatile char *all = (volatile char *)address;
    all[(size_t)rank * PART] = (char)(rank + 1);
    SUCCEED(svm_barrier(address));
    for (int other = 0; other < size; other++) {
        volatile char *at = all + (size_t)other * PART;
        DEMAND(*at == other + 1);
        DEMAND(signal_of_child(at) == SIGSEGV);
        /* Nor does it have what nobody has touched. */
        DEMAND(signal_of_child(at + PART / 2) == SIGSEGV);
        DEMAND(*at == other + 1);
    }
    SUCCEED(svm_barrier(address));
    all[(size_t)rank * PART] = 0;
    SUCCEED(svm_unmap(address));
    SUCCEED(svm_finalize());
    if (rank == 0)
        printf("no child has any of it\n");
    return EXIT_SUCCESS;
}
