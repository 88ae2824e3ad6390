/* One process maps a file for storing, which makes it as long as is wanted; the others map it for loading in the same
 * call, each what it wants of it. */
#include "support.h"

enum { BYTES = 300000 };

static int rank, size;

static uint64_t length_of(const char *name) {
    svm_file *file;
    uint64_t bytes;
    SUCCEED(svm_open(name, SVM_READ, NULL, &file));
    SUCCEED(svm_file_size(file, &bytes));
    SUCCEED(svm_close(file));
    return bytes;
}

/* The process `writer` maps `length` bytes for storing, and all see what it stores. */
static void one_stores(int writer, unsigned flags, size_t length) {
    unsigned own = rank == writer ? SVM_WRITE | flags : SVM_READ;
    /* Of the others each maps another part. */
    uint64_t offset = rank == writer ? 0 : (uint64_t)rank * 1000;
    void *address;
    SUCCEED(svm_map("/one", own, offset, length - offset, NULL, &address));
    unsigned char *bytes = (unsigned char *)address;
    if (rank == writer)
        for (size_t i = 0; i < length; i++)
            bytes[i] = (unsigned char)(i % 251 + (unsigned)writer);
    SUCCEED(svm_barrier(address));
    for (size_t i = 0; i < length - offset; i++)
        DEMAND(bytes[i] == (unsigned char)((i + offset) % 251 + (unsigned)writer));
    SUCCEED(svm_unmap(address));
    DEMAND(length_of("/one") == length);
}

int main(void) {
    SUCCEED(svm_init());
    rank = svm_rank(), size = svm_size();
    one_stores(0, SVM_CREATE, BYTES);
    one_stores(size - 1, 0, 2 * BYTES);
    /* What one of them wants more than the other makes of it fails for all, and the file stays as it is. */
    void *address = NULL;
    int is_writer = rank == 0;
    REFUSED(svm_map("/one", is_writer ? SVM_WRITE : SVM_READ, 0, 3 * BYTES + !is_writer, NULL, &address), SVM_ERR_RANGE,
            "/one");
    DEMAND(address == NULL && length_of("/one") == 2 * BYTES);
    one_stores(0, 0, 3 * BYTES);
    SUCCEED(svm_finalize());
    if (rank == 0)
        printf("all see what one stores\n");
    return EXIT_SUCCESS;
}
