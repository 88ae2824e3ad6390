/* In each call that all processes make together one is wrong, the first one or the last: all are refused, within seconds,
 * the others with a text that names it, and all go on. Ranks of MPI, unless WITHOUT_MPI is defined. */
#ifndef WITHOUT_MPI
#include <mpi.h>
#endif
#include <stdint.h>
#include <unistd.h>

#include "support.h"

enum { SECONDS = 20, BYTES = 100000 };

static int rank, size, wrong;

/* Who waits for ever is ended. */
static void in_time(void) { alarm(SECONDS); }

/* That the text names the rank that is wrong, and what it has called. */
static int names_the_wrong_one(const char *function) {
    char start[64];
    snprintf(start, sizeof start, "rank %d: %s: ", wrong, function);
    return strncmp(svm_error(), start, strlen(start)) == 0;
}

/* One process makes a call that is wrong, the others one that is right; then they are still in step. */
#define ONE_IS_REFUSED(function, wrong_call, right_call, status, words)                                      \
    do {                                                                                                     \
        in_time();                                                                                           \
        if (rank == wrong) {                                                                                 \
            REFUSED(wrong_call, status, words);                                                              \
            DEMAND(strncmp(svm_error(), "rank ", 5) != 0);                                                   \
        } else {                                                                                             \
            REFUSED(right_call, status, words);                                                              \
            DEMAND(names_the_wrong_one(function));                                                           \
        }                                                                                                    \
        SUCCEED(svm_barrier(NULL));                                                                          \
    } while (0)

/* One process makes another call than the others, both right: that none of them can do. */
#define BOTH_ARE_REFUSED(one_call, other_call, status, words)                                                \
    do {                                                                                                     \
        in_time();                                                                                           \
        if (rank == wrong)                                                                                   \
            REFUSED(one_call, status, words);                                                                \
        else                                                                                                 \
            REFUSED(other_call, status, words);                                                              \
        SUCCEED(svm_barrier(NULL));                                                                          \
    } while (0)

static void maps(void) {
    const unsigned flags = SVM_WRITE | SVM_CREATE;
    svm_options options = svm_default_options(), bad = options, odd = options;
    bad.size = 1;
    odd.segment_size = 12345;
    void *at = NULL;
#define MAP(name, flags, offset, length, options, address) svm_map(name, flags, offset, length, options, address)
#define REFUSED_TO_ONE(call, status, words)                                                                  \
    ONE_IS_REFUSED("svm_map", call, MAP("f", flags, 0, BYTES, &options, &at), status, words);                \
    DEMAND(at == NULL)
    REFUSED_TO_ONE(MAP("f", flags, 0, BYTES, &options, NULL), SVM_ERR_ARGUMENT, "null pointer");
    REFUSED_TO_ONE(MAP("f", flags, 0, BYTES, &bad, &at), SVM_ERR_ARGUMENT, "sizeof(svm_options)");
    REFUSED_TO_ONE(MAP("f", flags, 0, BYTES, &odd, &at), SVM_ERR_ARGUMENT, "power of two");
    REFUSED_TO_ONE(MAP("f", flags, UINT64_MAX, BYTES, &options, &at), SVM_ERR_RANGE, "more than a file has");
    REFUSED_TO_ONE(MAP("f", flags | 256, 0, BYTES, &options, &at), SVM_ERR_ARGUMENT, "0x100");
    REFUSED_TO_ONE(MAP("f", SVM_CREATE, 0, BYTES, &options, &at), SVM_ERR_ARGUMENT, "SVM_READ");
    REFUSED_TO_ONE(MAP("f", SVM_WRITE | SVM_EXCLUSIVE, 0, BYTES, &options, &at), SVM_ERR_ARGUMENT, "SVM_CREATE");
    REFUSED_TO_ONE(MAP("", flags, 0, BYTES, &options, &at), SVM_ERR_NAME, "empty");
    REFUSED_TO_ONE(MAP("../f", flags, 0, BYTES, &options, &at), SVM_ERR_NAME, "above");
    REFUSED_TO_ONE(MAP(NULL, SVM_READ, 0, BYTES, &options, &at), SVM_ERR_ARGUMENT, "SVM_WRITE");
    REFUSED_TO_ONE(MAP("f", flags, 0, 0, &options, &at), SVM_ERR_RANGE, "/f");
#undef REFUSED_TO_ONE
    BOTH_ARE_REFUSED(MAP("g", flags, 0, 8, NULL, &at), MAP("f", flags, 0, 8, NULL, &at), SVM_ERR_ARGUMENT, "/g");
    BOTH_ARE_REFUSED(MAP(NULL, flags, 0, 8, NULL, &at), MAP("f", flags, 0, 8, NULL, &at), SVM_ERR_ARGUMENT,
                     "without a name");
    BOTH_ARE_REFUSED(svm_barrier(NULL), MAP("f", flags, 0, 8, NULL, &at), SVM_ERR_STATE, "svm_map");
    DEMAND(at == NULL);
    in_time();
    SUCCEED(MAP("f", flags, 0, BYTES, &options, &at));
    SUCCEED(svm_unmap(at));
}

static void mappings(void) {
    void *at, *other, *own;
    char elsewhere[8];
    in_time();
    SUCCEED(svm_map("f", SVM_WRITE, 0, BYTES, NULL, &at));
    SUCCEED(svm_map(NULL, SVM_WRITE, 0, BYTES, NULL, &other));
    char *inside = (char *)at + 1;
#define REFUSED_TO_ONE(function, bad)                                                                        \
    ONE_IS_REFUSED(#function, function(bad), function(at), SVM_ERR_ARGUMENT, "svmio")
    REFUSED_TO_ONE(svm_barrier, elsewhere);
    REFUSED_TO_ONE(svm_unmap, NULL);
    REFUSED_TO_ONE(svm_unmap, elsewhere);
    REFUSED_TO_ONE(svm_unmap, inside);
    BOTH_ARE_REFUSED(svm_unmap(other), svm_unmap(at), SVM_ERR_ARGUMENT, "/f");
    BOTH_ARE_REFUSED(svm_barrier(other), svm_barrier(at), SVM_ERR_ARGUMENT, "/f");
    BOTH_ARE_REFUSED(svm_barrier(NULL), svm_barrier(at), SVM_ERR_ARGUMENT, "the job");
    /* All can be used still. */
    in_time();
    ((char *)at)[rank] = 'x';
    SUCCEED(svm_barrier(at));
    DEMAND(((char *)at)[wrong] == 'x');
    if (rank == wrong)
        REFUSED(svm_finalize(), SVM_ERR_STATE, "svm_unmap");
    else
        DEMAND(svm_finalize() == SVM_ERR_STATE);
    SUCCEED(svm_unmap(other));
    ONE_IS_REFUSED("svm_unmap", svm_unmap(other), svm_unmap(at), SVM_ERR_ARGUMENT, "begins");
    /* Of a mapping of its own, the others need not hear. */
    in_time();
    if (rank == wrong) {
        SUCCEED(svm_map("own", SVM_WRITE | SVM_CREATE | SVM_ALONE, 0, BYTES, NULL, &own));
        REFUSED(svm_unmap((char *)own + 1), SVM_ERR_ARGUMENT, "begins");
        SUCCEED(svm_unmap(own));
        REFUSED(svm_unmap(own), SVM_ERR_ARGUMENT, "begins");
        REFUSED(svm_map("own", SVM_ALONE, 0, BYTES, NULL, &own), SVM_ERR_ARGUMENT, "SVM_READ");
    }
    SUCCEED(svm_unmap(at));
}

static void files(void) {
    svm_file *file = NULL, *closed, *own;
    svm_options bad = svm_default_options();
    char elsewhere[8];
    void *at;
    bad.size = 1;
    const unsigned flags = SVM_READ | SVM_WRITE;
#define OPENING_REFUSED_TO_ONE(call, status, words)                                                          \
    ONE_IS_REFUSED("svm_open", call, svm_open("f", flags, NULL, &file), status, words);                      \
    DEMAND(file == NULL)
    OPENING_REFUSED_TO_ONE(svm_open("f", flags, NULL, NULL), SVM_ERR_ARGUMENT, "null pointer");
    OPENING_REFUSED_TO_ONE(svm_open("f", flags, &bad, &file), SVM_ERR_ARGUMENT, "sizeof(svm_options)");
    OPENING_REFUSED_TO_ONE(svm_open("f", 0, NULL, &file), SVM_ERR_ARGUMENT, "SVM_READ");
    OPENING_REFUSED_TO_ONE(svm_open("", flags, NULL, &file), SVM_ERR_NAME, "empty");
    BOTH_ARE_REFUSED(svm_open("g", flags, NULL, &file), svm_open("f", flags, NULL, &file), SVM_ERR_ARGUMENT, "/g");
    in_time();
    SUCCEED(svm_open("f", flags, NULL, &closed));
    SUCCEED(svm_close(closed));
    SUCCEED(svm_open("f", flags, NULL, &file));
#undef REFUSED_TO_ONE
#define REFUSED_TO_ONE(function, bad)                                                                        \
    ONE_IS_REFUSED(#function, function(bad), function(file), SVM_ERR_ARGUMENT, "closed")
    REFUSED_TO_ONE(svm_file_sync, NULL);
    REFUSED_TO_ONE(svm_file_sync, (svm_file *)elsewhere);
    REFUSED_TO_ONE(svm_file_sync, closed);
    REFUSED_TO_ONE(svm_close, NULL);
    REFUSED_TO_ONE(svm_close, (svm_file *)elsewhere);
    REFUSED_TO_ONE(svm_close, closed);
    BOTH_ARE_REFUSED(svm_file_sync(file), svm_close(file), SVM_ERR_STATE, "svm_file_sync");
    if (rank == wrong)
        SUCCEED(svm_map_file(file, 0, 8, NULL, &at));
    ONE_IS_REFUSED("svm_close", svm_close(file), svm_close(file), SVM_ERR_STATE, "mapped");
    in_time();
    if (rank == wrong) {
        SUCCEED(svm_unmap(at));
        REFUSED(svm_unmap(at), SVM_ERR_ARGUMENT, "begins");
        SUCCEED(svm_open("own", SVM_WRITE | SVM_CREATE | SVM_ALONE, NULL, &own));
        SUCCEED(svm_close(own));
        REFUSED(svm_close(own), SVM_ERR_ARGUMENT, "closed");
        REFUSED(svm_file_sync(own), SVM_ERR_ARGUMENT, "closed");
    }
    SUCCEED(svm_file_sync(file));
    SUCCEED(svm_close(file));
}

#ifdef WITHOUT_MPI
static int enter(void) { return svm_init(); }
#else
static int all_gather(void *comm, const void *own, size_t length, void *all) {
    int bytes = (int)length;
    return MPI_Allgather(own, bytes, MPI_BYTE, all, bytes, MPI_BYTE, *(MPI_Comm *)comm) != MPI_SUCCESS;
}

static MPI_Comm comm;

static svm_exchange right_exchange(void) {
    svm_exchange exchange = {sizeof exchange, rank, size, all_gather, &comm};
    return exchange;
}

static int enter(void) {
    svm_exchange exchange = right_exchange();
    return svm_init_with(&exchange);
}

/* One rank has a setting that makes no sense, of which all hear. It is looked at until it was once right. */
static void badly_set(void) {
    svm_exchange exchange = right_exchange();
    in_time();
    if (rank == wrong)
        DEMAND(setenv("SVMIO_CACHE_PAGE", "3K", 1) == 0);
    REFUSED(svm_init_with(&exchange), SVM_ERR_UNSUPPORTED, "SVMIO_CACHE_PAGE");
    if (rank == wrong)
        DEMAND(unsetenv("SVMIO_CACHE_PAGE") == 0);
}

/* One rank says that it is another one, or that there are others. */
static void joining(void) {
    for (int kind = 0; kind < 4; kind++) {
        svm_exchange exchange = right_exchange();
        char words[64];
        in_time();
        if (rank == wrong) {
            const int ranks_told[] = {-1, size, (rank + 1) % size, rank};
            exchange.rank = ranks_told[kind];
            exchange.ranks += kind == 3;
        }
        DEMAND(svm_init_with(&exchange) == SVM_ERR_ARGUMENT);
        snprintf(words, sizeof words, "rank %d", rank == wrong && kind < 2 ? exchange.rank : wrong);
        DEMAND((rank == wrong && kind == 3) || strstr(svm_error(), words) != NULL);
        DEMAND(svm_rank() == SVM_ERR_STATE);
    }
    /* It is in a job already. */
    if (rank == wrong) {
        svm_exchange alone = {sizeof alone, 0, 1, all_gather, &comm};
        SUCCEED(svm_init_with(&alone));
    }
    svm_exchange exchange = right_exchange();
    in_time();
    REFUSED(svm_init_with(&exchange), SVM_ERR_STATE, "svm_finalize");
    if (rank == wrong)
        SUCCEED(svm_finalize());
}
#endif

int main(int argc, char **argv) {
    (void)argc;
    (void)argv;
#ifndef WITHOUT_MPI
    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    wrong = size - 1;
    badly_set();
    for (int i = 0; i < 2; i++) {
        wrong = i == 0 ? 0 : size - 1;
        joining();
    }
#endif
    SUCCEED(enter());
    rank = svm_rank();
    size = svm_size();
    DEMAND(size > 1);
    for (int i = 0; i < 2; i++) {
        wrong = i == 0 ? 0 : size - 1;
        maps();
        mappings();
        files();
    }
    in_time();
    SUCCEED(svm_finalize());
    if (rank == 0)
        printf("all are refused together\n");
#ifndef WITHOUT_MPI
    MPI_Comm_free(&comm);
    MPI_Finalize();
#endif
    return EXIT_SUCCESS;
}
