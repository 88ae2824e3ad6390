/* Many mappings, with as many file descriptors as is usual: of a file for each array of a program, and of one file. */
#include <sys/resource.h>

#include "support.h"

enum { ARRAYS = 100, MOST_PARTS = 160, SEGMENT = 1 << 16, BYTES = 2 * SEGMENT, DESCRIPTORS = 1024 };

static void a_file_each(void) {
    static char *arrays[ARRAYS];
    int rank = svm_rank(), size = svm_size();
    for (int array = 0; array < ARRAYS; array++) {
        char name[32];
        void *address;
        snprintf(name, sizeof name, "array%d", array);
        SUCCEED(svm_map(name, SVM_WRITE | SVM_CREATE, 0, BYTES, NULL, &address));
        arrays[array] = (char *)address;
        arrays[array][rank] = (char)(array + rank);
    }
    for (int array = 0; array < ARRAYS; array++) {
        SUCCEED(svm_barrier(arrays[array]));
        for (int other = 0; other < size; other++)
            DEMAND(arrays[array][other] == (char)(array + other));
    }
    SUCCEED(svm_barrier(NULL));
    for (int array = 0; array < ARRAYS; array++)
        SUCCEED(svm_unmap(arrays[array]));
}

/* Of one process also where segments that were used before keep a quarter of the descriptors. */
static void parts_of_one_file(void) {
    static char *parts[MOST_PARTS];
    int rank = svm_rank(), size = svm_size();
    /* Several nodes have descriptors for each other. */
    const int count = size == 1 ? MOST_PARTS : 120;
    svm_file *file;
    svm_options options = svm_default_options();
    options.segment_size = SEGMENT;
    SUCCEED(svm_open("parts", SVM_READ | SVM_WRITE | SVM_CREATE, &options, &file));
    for (uint64_t at = 0; size == 1 && at < (uint64_t)count * BYTES; at += SEGMENT)
        SUCCEED(svm_write_at(file, at + SEGMENT - 1, "", 1));
    SUCCEED(svm_file_sync(file));
    for (int part = 0; part < count; part++) {
        void *address;
        SUCCEED(svm_map_file(file, (uint64_t)part * BYTES, BYTES, NULL, &address));
        parts[part] = (char *)address;
        parts[part][rank] = (char)(part + rank);
        SUCCEED(svm_flush(address));
    }
    SUCCEED(svm_barrier(NULL));
    for (int part = 0; part < count; part++) {
        SUCCEED(svm_refresh(parts[part]));
        for (int other = 0; other < size; other++)
            DEMAND(parts[part][other] == (char)(part + other));
    }
    SUCCEED(svm_barrier(NULL));
    for (int part = 0; part < count; part++)
        SUCCEED(svm_unmap(parts[part]));
    SUCCEED(svm_close(file));
}

int main(void) {
    struct rlimit limit;
    DEMAND(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = DESCRIPTORS;
    DEMAND(setrlimit(RLIMIT_NOFILE, &limit) == 0);

    SUCCEED(svm_init());
    int rank = svm_rank();
    a_file_each();
    parts_of_one_file();
    SUCCEED(svm_finalize());
    if (rank == 0)
        printf("all is mapped\n");
    return EXIT_SUCCESS;
}
