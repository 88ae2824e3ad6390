/* The last process is lost while a file is mapped and another one is open: the others, who are told so, end what they
 * have, each by itself, and leave. Whoever has started them lets them go on, and has them wait for each other. */
#include <signal.h>

#include "support.h"

enum { SLAB = 64 << 10 };

/* Says how far this process is, and goes on when it is told to. */
static void go_on_after(const char *what) {
    puts(what);
    fflush(stdout);
    DEMAND(getchar() != EOF);
}

int main(void) {
    SUCCEED(svm_init());
    int rank = svm_rank(), size = svm_size();
    svm_options options = svm_default_options();
    options.segment_size = SLAB;
    void *address;
    svm_file *file;
    SUCCEED(svm_map("/kept", SVM_WRITE | SVM_CREATE, 0, (size_t)size * SLAB, &options, &address));
    SUCCEED(svm_open("/other", SVM_READ | SVM_WRITE | SVM_CREATE, NULL, &file));
    char *kept = (char *)address;
    /* Each slab lies on the node of its process. */
    memset(kept + (size_t)rank * SLAB, 'a' + rank, SLAB);
    SUCCEED(svm_barrier(address));
    go_on_after("all have stored");
    if (rank == size - 1)
        raise(SIGKILL);

    DEMAND(svm_barrier(NULL) == SVM_ERR_OTHER);
    /* Into the slab of the next one of those who are left. */
    kept[(size_t)((rank + 1) % (size - 1)) * SLAB + 7] = (char)('A' + rank);
    DEMAND(svm_unmap(address) == SVM_ERR_OTHER);
    DEMAND(strstr(svm_error(), "rank 2") != NULL);
    REFUSED(svm_flush(address), SVM_ERR_ARGUMENT, "nothing is mapped");
    uint64_t bytes;
    DEMAND(svm_close(file) == SVM_ERR_OTHER);
    REFUSED(svm_file_size(file, &bytes), SVM_ERR_ARGUMENT, "closed");
    go_on_after("all is ended");
    DEMAND(svm_finalize() == SVM_ERR_OTHER);
    REFUSED(svm_finalize(), SVM_ERR_STATE, "svm_init");
    DEMAND(svm_rank() == SVM_ERR_STATE);
    return EXIT_SUCCESS;
}
