/* All that C can do wrong, or cannot have, is a status with a text; nothing of it ends the process, or has others wait. */
#include "support.h"

static int exchange_alone(void *context, const void *own, size_t length, void *all) {
    memcpy(all, own, length);
    return *(int *)context;
}

/* Before there is a job. */
static void out_of_order(void) {
    void *address = NULL;
    svm_file *file = NULL;
    DEMAND(svm_error()[0] == '\0');
    DEMAND(svm_rank() == SVM_ERR_STATE && svm_size() == SVM_ERR_STATE);
    REFUSED(svm_map("x", SVM_WRITE, 0, 8, NULL, &address), SVM_ERR_STATE, "svm_init");
    REFUSED(svm_open("x", SVM_WRITE, NULL, &file), SVM_ERR_STATE, "svm_init");
    REFUSED(svm_finalize(), SVM_ERR_STATE, "svm_init");
    REFUSED(svm_barrier(NULL), SVM_ERR_STATE, "svm_init");
    REFUSED(svm_remove("x"), SVM_ERR_STATE, "svm_init");
    DEMAND(address == NULL && file == NULL);
}

/* Gives a variable of the environment a value, or none. */
static void set(const char *variable, const char *value) {
    DEMAND((value != NULL ? setenv(variable, value, 1) : unsetenv(variable)) == 0);
}

/* With a setting that makes no sense no job is joined, by whatever a process learns of it. The first process of a job
 * listens for the others, and is left alone. */
static void bad_settings(void) {
    const char *rank = getenv("SVMIO_JOB_RANK"), *told = getenv("SVMIO_FABRIC");
    if (rank != NULL && strcmp(rank, "0") == 0)
        return;
    char *fabric = told != NULL ? strdup(told) : NULL;
    set("SVMIO_FABRIC", "bogus");
    REFUSED(svm_init(), SVM_ERR_UNSUPPORTED, "SVMIO_FABRIC");
    set("SVMIO_FABRIC", fabric);
    free(fabric);
    set("SVMIO_CACHE_PAGE", "3K");
    REFUSED(svm_init(), SVM_ERR_UNSUPPORTED, "SVMIO_CACHE_PAGE");
    set("SVMIO_CACHE_PAGE", NULL);
}

static void bad_exchanges(void) {
    int outcome = 7;
    svm_exchange exchange = {sizeof exchange, 0, 2, exchange_alone, &outcome};
    REFUSED(svm_init_with(NULL), SVM_ERR_ARGUMENT, "null pointer");
    exchange.size = 3;
    REFUSED(svm_init_with(&exchange), SVM_ERR_ARGUMENT, "sizeof(svm_exchange)");
    exchange.size = sizeof exchange;
    exchange.rank = 2;
    REFUSED(svm_init_with(&exchange), SVM_ERR_ARGUMENT, "rank 2 of 2");
    exchange.rank = -1;
    REFUSED(svm_init_with(&exchange), SVM_ERR_ARGUMENT, "rank -1");
    exchange.rank = 0;
    REFUSED(svm_init_with(&exchange), SVM_ERR_OTHER, "all_gather has returned 7");
    exchange.all_gather = NULL;
    REFUSED(svm_init_with(&exchange), SVM_ERR_ARGUMENT, "all_gather");
    /* One of one needs nobody. */
    svm_exchange alone = {sizeof alone, 0, 1, exchange_alone, &outcome};
    SUCCEED(svm_init_with(&alone));
    DEMAND(svm_rank() == 0 && svm_size() == 1);
    SUCCEED(svm_finalize());
}

static void bad_names_and_flags(void) {
    void *address = NULL;
    svm_file *file = NULL;
    svm_options options = svm_default_options();
    REFUSED(svm_init(), SVM_ERR_STATE, "svm_finalize");
    REFUSED(svm_map("missing", SVM_READ, 0, 8, NULL, &address), SVM_ERR_NO_SUCH_FILE, "/missing");
    REFUSED(svm_open("svm:/missing", SVM_WRITE, NULL, &file), SVM_ERR_NO_SUCH_FILE, "/missing");
    REFUSED(svm_map("", SVM_WRITE | SVM_CREATE, 0, 8, NULL, &address), SVM_ERR_NAME, "empty");
    REFUSED(svm_map("../x", SVM_WRITE | SVM_CREATE, 0, 8, NULL, &address), SVM_ERR_NAME, "above");
    REFUSED(svm_map("x", 0, 0, 8, NULL, &address), SVM_ERR_ARGUMENT, "SVM_READ");
    REFUSED(svm_map("x", SVM_WRITE | 256, 0, 8, NULL, &address), SVM_ERR_ARGUMENT, "0x100");
    REFUSED(svm_map("x", SVM_WRITE | SVM_EXCLUSIVE, 0, 8, NULL, &address), SVM_ERR_ARGUMENT, "SVM_CREATE");
    REFUSED(svm_map(NULL, SVM_READ, 0, 8, NULL, &address), SVM_ERR_ARGUMENT, "SVM_WRITE");
    REFUSED(svm_map("x", SVM_WRITE | SVM_CREATE, 0, 8, NULL, NULL), SVM_ERR_ARGUMENT, "null pointer");
    REFUSED(svm_open("x", SVM_WRITE | SVM_CREATE, NULL, NULL), SVM_ERR_ARGUMENT, "null pointer");
    REFUSED(svm_remove("missing"), SVM_ERR_NO_SUCH_FILE, "/missing");
    REFUSED(svm_remove(NULL), SVM_ERR_ARGUMENT, "null pointer");

    options.segment_size = 12345;
    REFUSED(svm_map("x", SVM_WRITE | SVM_CREATE, 0, 8, &options, &address), SVM_ERR_ARGUMENT, "power of two");
    options = svm_default_options();
    options.size = 1;
    REFUSED(svm_map("x", SVM_WRITE | SVM_CREATE, 0, 8, &options, &address), SVM_ERR_ARGUMENT, "sizeof(svm_options)");
    /* Options of a later release: those that say nothing will do. */
    struct {
        svm_options known;
        long later;
    } later;
    memset(&later, 0, sizeof later);
    later.known.size = sizeof later;
    SUCCEED(svm_map("x", SVM_WRITE | SVM_CREATE, 0, 8, &later.known, &address));
    SUCCEED(svm_unmap(address));
    later.later = 1;
    REFUSED(svm_map("x", SVM_WRITE | SVM_CREATE, 0, 8, &later.known, &address), SVM_ERR_ARGUMENT, "newer");
    REFUSED(svm_map("x", SVM_WRITE | SVM_CREATE | SVM_EXCLUSIVE, 0, 8, NULL, &address), SVM_ERR_EXISTS, "/x");
    SUCCEED(svm_remove("x"));
    REFUSED(svm_map("x", SVM_READ, 0, 8, NULL, &address), SVM_ERR_NO_SUCH_FILE, "/x");
}

/* Of a file that was made by a call that fails nothing is left; what was there before is. */
static void nothing_is_left(void) {
    const unsigned flags = SVM_WRITE | SVM_CREATE | SVM_EXCLUSIVE;
    int rank = svm_rank(), last = svm_size() - 1;
    void *address;
    for (int time = 0; time < 2; time++) {
        REFUSED(svm_map("left", flags, 0, rank == last ? 0 : 8, NULL, &address), SVM_ERR_RANGE, "/left");
        REFUSED(svm_map("left", flags, rank == last ? UINT64_MAX - 8 : 0, 8, NULL, &address), SVM_ERR_NO_SPACE,
                "/left");
    }
    void *other;
    SUCCEED(svm_map("left", flags, 0, 8, NULL, &address));
    REFUSED(svm_map("left", flags, 0, 8, NULL, &other), SVM_ERR_EXISTS, "/left");
    SUCCEED(svm_unmap(address));
    SUCCEED(svm_map("left", SVM_READ, 0, 8, NULL, &address));
    SUCCEED(svm_unmap(address));
}

static void bad_ranges_and_addresses(void) {
    char elsewhere[16], bytes[64];
    void *address, *other;
    svm_file *file, *none = (svm_file *)bytes;
    uint64_t size;
    size_t got = 0;
    SUCCEED(svm_map("y", SVM_WRITE | SVM_CREATE, 5, 10000, NULL, &address));
    char *memory = (char *)address;
    memory[0] = 1;
    memory[9999] = 2;
    REFUSED(svm_map("y", SVM_WRITE, 0, 0, NULL, &other), SVM_ERR_RANGE, "/y");
    REFUSED(svm_map("y", SVM_READ, 0, 20000, NULL, &other), SVM_ERR_RANGE, "/y");
    REFUSED(svm_map("y", SVM_WRITE, UINT64_MAX, 8, NULL, &other), SVM_ERR_RANGE, "8 bytes");
    REFUSED(svm_map("y", SVM_WRITE, UINT64_MAX - 8, 8, NULL, &other), SVM_ERR_NO_SPACE, "/y");
    REFUSED(svm_sync(memory, 10001), SVM_ERR_RANGE, "/y");
    REFUSED(svm_sync(memory + 10000, 1), SVM_ERR_ARGUMENT, "nothing is mapped");
    REFUSED(svm_sync(NULL, 1), SVM_ERR_ARGUMENT, "nothing is mapped");
    REFUSED(svm_flush(elsewhere), SVM_ERR_ARGUMENT, "nothing is mapped");
    REFUSED(svm_refresh(elsewhere), SVM_ERR_ARGUMENT, "nothing is mapped");
    REFUSED(svm_barrier(elsewhere), SVM_ERR_ARGUMENT, "nothing is mapped");
    REFUSED(svm_fetch(elsewhere, 1), SVM_ERR_ARGUMENT, "nothing is mapped");
    REFUSED(svm_fetch(memory + 9999, 2), SVM_ERR_RANGE, "/y");
    REFUSED(svm_advise(memory, 1, 99), SVM_ERR_ARGUMENT, "99");
    REFUSED(svm_lock(memory, 1, 99), SVM_ERR_ARGUMENT, "99");
    REFUSED(svm_lock(memory, 10001, SVM_LOCK_EXCLUSIVE), SVM_ERR_RANGE, "/y");
    REFUSED(svm_unlock(memory, 1), SVM_ERR_ARGUMENT, "not locked");
    SUCCEED(svm_lock(memory, 10, SVM_LOCK_EXCLUSIVE));
    REFUSED(svm_lock(memory + 9, 10, SVM_LOCK_EXCLUSIVE), SVM_ERR_OTHER, "never end");
    REFUSED(svm_unlock(memory, 9), SVM_ERR_ARGUMENT, "not locked");
    REFUSED(svm_unmap(memory + 1), SVM_ERR_ARGUMENT, "begins");
    REFUSED(svm_finalize(), SVM_ERR_STATE, "svm_unmap");
    /* The lock goes with the mapping. */
    SUCCEED(svm_unmap(memory));
    REFUSED(svm_unmap(memory), SVM_ERR_ARGUMENT, "begins");

    SUCCEED(svm_open("y", SVM_READ, NULL, &file));
    REFUSED(svm_finalize(), SVM_ERR_STATE, "svm_close");
    REFUSED(svm_write_at(file, 0, bytes, 1), SVM_ERR_ACCESS, "not opened for writing");
    REFUSED(svm_read_at(file, 0, NULL, 1, NULL), SVM_ERR_ARGUMENT, "null pointer");
    REFUSED(svm_read_at(file, 10000, bytes, 64, NULL), SVM_ERR_RANGE, "/y");
    SUCCEED(svm_read_at(file, 10000, bytes, 64, &got));
    DEMAND(got == 5 && bytes[4] == 2);
    REFUSED(svm_file_size(file, NULL), SVM_ERR_ARGUMENT, "null pointer");
    REFUSED(svm_map_file(file, 10000, 64, NULL, &other), SVM_ERR_RANGE, "/y");
    REFUSED(svm_map_file(file, 0, 8, NULL, NULL), SVM_ERR_ARGUMENT, "null pointer");
    SUCCEED(svm_close(file));
    REFUSED(svm_close(file), SVM_ERR_ARGUMENT, "closed");
    REFUSED(svm_close(none), SVM_ERR_ARGUMENT, "closed");
    REFUSED(svm_file_size(none, &size), SVM_ERR_ARGUMENT, "closed");
    REFUSED(svm_file_sync(none), SVM_ERR_ARGUMENT, "closed");
    REFUSED(svm_read_at(NULL, 0, bytes, 1, NULL), SVM_ERR_ARGUMENT, "closed");
    REFUSED(svm_write_at(NULL, 0, bytes, 1), SVM_ERR_ARGUMENT, "closed");
}

/* What one process gets wrong all of them hear, and go on. */
static void others_hear(void) {
    int rank = svm_rank(), size = svm_size();
    void *address = NULL;
    REFUSED(svm_map("missing", SVM_READ, 0, 8, NULL, &address), SVM_ERR_NO_SUCH_FILE, "/missing");
    set("SVMIO_SERVERS", "n1,,n2");
    REFUSED(svm_map("z", SVM_WRITE | SVM_CREATE, 0, 100, NULL, &address), SVM_ERR_UNSUPPORTED, "SVMIO_SERVERS");
    set("SVMIO_SERVERS", NULL);
    SUCCEED(svm_map("z", SVM_WRITE | SVM_CREATE, 0, 100, NULL, &address));
    SUCCEED(svm_unmap(address));
    /* The last one wants more than there is. */
    size_t length = rank == size - 1 ? 101 : 100;
    REFUSED(svm_map("z", SVM_READ, 0, length, NULL, &address), SVM_ERR_RANGE, "/z");
    SUCCEED(svm_map("z", SVM_READ, 0, 100, NULL, &address));
    /* A file of one's own, which the others know nothing of. */
    if (rank == 0) {
        void *own;
        SUCCEED(svm_map("own", SVM_WRITE | SVM_CREATE | SVM_ALONE, 0, 8, NULL, &own));
        SUCCEED(svm_barrier(own));
        SUCCEED(svm_unmap(own));
    }
    SUCCEED(svm_barrier(address));
    if (rank == 0)
        REFUSED(svm_finalize(), SVM_ERR_STATE, "svm_unmap");
    else
        DEMAND(svm_finalize() == SVM_ERR_STATE);
    SUCCEED(svm_unmap(address));
}

int main(void) {
    DEMAND(strcmp(svm_strerror(SVM_SUCCESS), "success") == 0);
    out_of_order();
    bad_settings();
    bad_exchanges();
    SUCCEED(svm_init());
    if (svm_size() == 1) {
        bad_names_and_flags();
        bad_ranges_and_addresses();
    }
    nothing_is_left();
    others_hear();
    SUCCEED(svm_finalize());
    DEMAND(svm_rank() == SVM_ERR_STATE);
    printf("all is refused that has to be\n");
    return EXIT_SUCCESS;
}
