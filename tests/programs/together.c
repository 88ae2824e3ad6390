/* Files that are opened, synced, resized and closed together, again and again: more often than ranks agree by MPI's own
 * collectives before they do so by svmio's means. What is left to MPI goes on meanwhile.
 *
 *   together progress FILE   a long message to a rank that waits in a sync or an open
 *   together threads FILE    two files of one communicator, each in the hands of another thread
 *   together pointers FILE   several threads of each rank are the first to use a shared pointer
 *   together failures FILE   what fails for one, fails for all
 *   together lost FILE       a rank ends without a word
 *   together stock FILE      a rank that cannot do as the others do */
#include <pthread.h>
#include <unistd.h>

#include "check.h"

enum { ENOUGH = 12, OFTEN = 260, LONG = 4 << 20 };

static const char *name;

static MPI_File opened(const char *file, int mode) {
    MPI_File handle;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, file, mode, MPI_INFO_NULL, &handle));
    return handle;
}

static void closed(MPI_File *file) { MPI_OK(MPI_File_close(file)); }

/* From then on ranks agree by svmio's means: they have done so by MPI's more than 512 times, twice in each sync. */
static void sync_often(MPI_File file) {
    for (int i = 0; i < OFTEN; i++) MPI_OK(MPI_File_sync(file));
}

/* One rank waits for the others in svmio while they wait for its part in MPI: the end of a message that it has begun to
 * send, or of a collective that it has begun. Each rank in turn, because not all of them are waited for by all others. */
static void progress(void) {
    char *long_message = calloc(LONG, 1);
    HOLDS(long_message != NULL);
    MPI_File file = opened(name, MPI_MODE_CREATE | MPI_MODE_RDWR);
    for (int round = 0; round < 2 * ENOUGH; round++) {
        if (round == ENOUGH) sync_often(file);
        MPI_Request requests[64];
        int count = 0, late = round % ranks;
        if (rank == late) {
            memset(long_message, round, LONG);
            for (int to = 0; to < ranks; to++)
                if (to != late) MPI_OK(MPI_Isend(long_message, LONG, MPI_BYTE, to, round, MPI_COMM_WORLD, &requests[count++]));
        } else {
            MPI_OK(MPI_Recv(long_message, LONG, MPI_BYTE, late, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            EQUAL(long_message[LONG - 1], round);
        }
        if (round % 3 == 0) MPI_OK(MPI_File_sync(file));
        if (round % 3 == 1) MPI_OK(MPI_File_write_at_all(file, rank, "x", 1, MPI_BYTE, MPI_STATUS_IGNORE));
        if (round % 3 == 2) {
            closed(&file);
            file = opened(name, MPI_MODE_RDWR);
        }
        MPI_OK(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
        int sum = 0;
        MPI_Request request;
        MPI_OK(MPI_Iallreduce(&round, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
        if (rank != late) MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        MPI_OK(MPI_File_sync(file));
        if (rank == late) MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        EQUAL(sum, round * ranks);
    }
    closed(&file);
    free(long_message);
}

/* A file in the hands of a thread, and whose turn it is. */
struct hold {
    MPI_File file;
    int number;
};
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn;

/* ROMIO lets one thread at a time into its collective functions, whatever the file: so ranks have to take the files in the
 * same order. */
static void *use(void *own) {
    struct hold *hold = own;
    MPI_File file = hold->file;
    for (int round = 0; round < 16 * ENOUGH; round++) {
        pthread_mutex_lock(&mutex);
        while (turn != hold->number) pthread_cond_wait(&changed, &mutex);
        MPI_OK(MPI_File_write_at_all(file, rank * (MPI_Offset)sizeof round, &round, sizeof round, MPI_BYTE,
                                     MPI_STATUS_IGNORE));
        MPI_OK(MPI_File_sync(file));
        if (round % 10 == 0) MPI_OK(MPI_File_set_size(file, (round + 1) * 100));
        MPI_Offset size;
        MPI_OK(MPI_File_get_size(file, &size));
        EQUAL(size, (round / 10 * 10 + 1) * 100);
        turn = 1 - turn;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void threads(void) {
    char other[256];
    snprintf(other, sizeof other, "%s-2", name);
    struct hold holds[2] = {{opened(name, MPI_MODE_CREATE | MPI_MODE_RDWR), 0},
                            {opened(other, MPI_MODE_CREATE | MPI_MODE_RDWR), 1}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) EQUAL(pthread_create(&threads[i], NULL, use, &holds[i]), 0);
    for (int i = 0; i < 2; i++) EQUAL(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 2; i++) closed(&holds[i].file);
}

/* What threads write by the shared pointer of one file, beginning at the same time. */
enum { WRITERS = 4, RECORDS = 6 };
static pthread_barrier_t all_there;
struct writer {
    MPI_File file;
    int number;
};

static void *append(void *own) {
    struct writer *writer = own;
    pthread_barrier_wait(&all_there);
    for (int i = 0; i < RECORDS; i++) {
        int record = (rank * WRITERS + writer->number) * RECORDS + i;
        MPI_Offset position;
        if (writer->number == 0) MPI_OK(MPI_File_get_position_shared(writer->file, &position));
        MPI_OK(MPI_File_write_shared(writer->file, &record, 1, MPI_INT, MPI_STATUS_IGNORE));
    }
    return NULL;
}

/* In each round with a new file, whose pointer nobody has used. */
static void pointers(void) {
    EQUAL(pthread_barrier_init(&all_there, NULL, WRITERS), 0);
    for (int round = 0; round < ENOUGH; round++) {
        int count = ranks * WRITERS * RECORDS, records[count], times[count];
        char own[256];
        snprintf(own, sizeof own, "%s-%d", name, round);
        MPI_File file = opened(own, MPI_MODE_CREATE | MPI_MODE_RDWR);
        MPI_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
        pthread_t threads[WRITERS];
        struct writer writers[WRITERS];
        for (int i = 0; i < WRITERS; i++) {
            writers[i] = (struct writer){file, i};
            EQUAL(pthread_create(&threads[i], NULL, append, &writers[i]), 0);
        }
        for (int i = 0; i < WRITERS; i++) EQUAL(pthread_join(threads[i], NULL), 0);
        MPI_OK(MPI_File_sync(file));
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_OK(MPI_File_sync(file));
        MPI_Offset position;
        MPI_OK(MPI_File_get_position_shared(file, &position));
        EQUAL(position, count);
        MPI_OK(MPI_File_read_at_all(file, 0, records, count, MPI_INT, MPI_STATUS_IGNORE));
        memset(times, 0, sizeof times);
        for (int i = 0; i < count; i++) {
            HOLDS(0 <= records[i] && records[i] < count);
            times[records[i]]++;
        }
        for (int i = 0; i < count; i++) EQUAL(times[i], 1);
        closed(&file);
    }
    EQUAL(pthread_barrier_destroy(&all_there), 0);
}

static void failures(void) {
    char missing[256];
    snprintf(missing, sizeof missing, "%s-missing", name);
    MPI_OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    for (int round = 0; round < 2 * ENOUGH; round++) {
        MPI_File file, none;
        MPI_FAILS(MPI_File_open(MPI_COMM_WORLD, missing, MPI_MODE_RDONLY, MPI_INFO_NULL, &none), MPI_ERR_NO_SUCH_FILE);
        int mode = MPI_MODE_CREATE | MPI_MODE_RDWR;
        file = opened(name, mode);
        MPI_FAILS(MPI_File_open(MPI_COMM_WORLD, name, mode | MPI_MODE_EXCL, MPI_INFO_NULL, &none), MPI_ERR_FILE_EXISTS);
        if (round == ENOUGH) sync_often(file);
        closed(&file);
        file = opened(name, MPI_MODE_RDONLY);
        int code = MPI_File_write_at_all(file, 0, "x", rank == 1, MPI_BYTE, MPI_STATUS_IGNORE);
        HOLDS(code != MPI_SUCCESS);
        closed(&file);
    }
}

/* As in collectives_lost.c. */
static void lost(void) {
    MPI_File file = opened(name, MPI_MODE_CREATE | MPI_MODE_RDWR);
    sync_often(file);
    char unfinished[64], finished[64], others[64];
    if (rank == 1) {
        /* Who is still in a sync when a rank ends hears of that there. */
        for (int other = 0; other < ranks; other += 2) {
            snprintf(unfinished, sizeof unfinished, "unfinished-%d", other);
            while (access(unfinished, R_OK) != 0) usleep(1000);
        }
        _exit(0);
    }
    snprintf(unfinished, sizeof unfinished, "unfinished-%d", rank);
    snprintf(finished, sizeof finished, "told-%d", rank);
    FILE *told = fopen(unfinished, "w");
    HOLDS(told != NULL);
    for (int again = 0; again < 2; again++) {
        /* The end of a split access is one of those whose texts MPICH 5 does not lose. */
        MPI_OK(MPI_File_write_at_all_begin(file, rank, "x", 1, MPI_BYTE));
        int code = MPI_File_write_at_all_end(file, "x", MPI_STATUS_IGNORE), length;
        HOLDS(code != MPI_SUCCESS);
        char text[MPI_MAX_ERROR_STRING];
        MPI_Error_string(code, text, &length);
        fprintf(told, "%s\n", text);
    }
    HOLDS(fclose(told) == 0 && rename(unfinished, finished) == 0);
    /* The loss of this rank is not what the other one is to be told. */
    snprintf(others, sizeof others, "told-%d", 2 - rank);
    while (access(others, R_OK) != 0) usleep(1000);
    _exit(0);
}

int main(int argc, char **argv) {
    int is_threaded = argc == 3 && (strcmp(argv[1], "threads") == 0 || strcmp(argv[1], "pointers") == 0), provided;
    if (is_threaded) {
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &ranks);
        EQUAL(provided, MPI_THREAD_MULTIPLE);
    } else {
        begin(&argc, &argv);
    }
    HOLDS(argc == 3);
    doing = argv[1];
    name = argv[2];
    if (strcmp(doing, "stock") == 0) {
        /* Later than the first open, which would fail by it; looked at again when ranks are to agree by themselves. */
        MPI_File first = opened(name, MPI_MODE_CREATE | MPI_MODE_RDWR);
        closed(&first);
        if (rank == 1) setenv("SVMIO_WATCHDOG_TIMEOUT", "soon", 1);
    }
    if (strcmp(doing, "threads") == 0) threads();
    else if (strcmp(doing, "pointers") == 0) pointers();
    else if (strcmp(doing, "stock") == 0) failures();
    else if (strcmp(doing, "progress") == 0) progress();
    else if (strcmp(doing, "failures") == 0) failures();
    else if (strcmp(doing, "lost") == 0) lost();
    else failed(__FILE__, __LINE__, "what to do?");
    if (rank == 0) printf("%s: all is right\n", doing);
    MPI_Finalize();
    return 0;
}
