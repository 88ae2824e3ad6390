/* memory FILE BYTES: so many bytes are written in one collective call, in pieces of 8 bytes, those of all ranks in turn.
 * What is told is how much more memory the rank that took most of it had at any moment of it, beyond its buffer: what is
 * its own, and what it shares with others beyond the file itself, which may be mapped. Bytes. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "check.h"
#include "files.h"
#include "timing.h"

/* Bytes. */
struct resident {
    int64_t own, shared;
};

static int64_t kilobytes_in(const char *status, const char *name) {
    const char *line = strstr(status, name);
    CHECK(line != NULL, "no %s in /proc/self/status", name);
    return strtoll(line + strlen(name), NULL, 10);
}

static struct resident resident_now(void) {
    char status[8192];
    FILE *file = fopen("/proc/self/status", "r");
    CHECK(file != NULL, "/proc/self/status cannot be read");
    status[fread(status, 1, sizeof status - 1, file)] = 0;
    fclose(file);
    /* Files of a disk are mapped as "file", those of a tmpfs as "shmem". */
    int64_t mapped = kilobytes_in(status, "\nRssFile:") + kilobytes_in(status, "\nRssShmem:");
    return (struct resident){kilobytes_in(status, "\nRssAnon:") * 1024, mapped * 1024};
}

static atomic_int is_over;
static struct resident most;

static void note_most(void) {
    struct resident now = resident_now();
    if (now.own > most.own) most.own = now.own;
    if (now.shared > most.shared) most.shared = now.shared;
}

static void *watch(void *unused) {
    (void)unused;
    while (!atomic_load(&is_over)) {
        note_most();
        usleep(500);
    }
    return NULL;
}

void memory(const char *file, char **arguments) {
    int64_t bytes = number(arguments[0]), count = bytes / 8 / ranks;
    CHECK(bytes % (8 * ranks) == 0, "%lld bytes are not the same number of pieces for each", (long long)bytes);
    int64_t *words = touched((size_t)count * sizeof *words);
    for (int64_t i = 0; i < count; i++) words[i] = word(i * ranks + rank, 1);
    MPI_Datatype type;
    MPI_OK(MPI_Type_vector((int)count, 1, ranks, MPI_INT64_T, &type));
    MPI_OK(MPI_Type_commit(&type));

    pthread_t watcher;
    struct resident before = resident_now();
    HOLDS(pthread_create(&watcher, NULL, watch, NULL) == 0);
    MPI_File handle = opened(file, MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_OK(MPI_File_set_view(handle, rank * 8, MPI_INT64_T, type, "native", MPI_INFO_NULL));
    double since = started();
    MPI_OK(MPI_File_write_at_all(handle, 0, words, (int)count, MPI_INT64_T, MPI_STATUS_IGNORE));
    tell_moved("write", longest_since(since), bytes);
    note_most();
    atomic_store(&is_over, 1);
    HOLDS(pthread_join(watcher, NULL) == 0);

    int64_t shared = most.shared - before.shared - bytes;
    int64_t beyond = most.own - before.own + (shared > 0 ? shared : 0), largest;
    MPI_OK(MPI_Reduce(&beyond, &largest, 1, MPI_INT64_T, MPI_MAX, 0, MPI_COMM_WORLD));
    tell("beyond", (double)largest);

    /* As a stream of bytes: reading is not what this is about. */
    long wrong = 0;
    int64_t piece = count < 1 << 17 ? count : 1 << 17;
    MPI_OK(MPI_File_set_view(handle, 0, MPI_INT64_T, MPI_INT64_T, "native", MPI_INFO_NULL));
    for (int64_t done = 0; done < count; done += piece) {
        int64_t first = rank * count + done, some = count - done < piece ? count - done : piece;
        MPI_OK(MPI_File_read_at(handle, first, words, (int)some, MPI_INT64_T, MPI_STATUS_IGNORE));
        wrong += differing(words, first, some, 1);
    }
    tell_wrong(wrong);
    closed(&handle);
    free(words);
    MPI_OK(MPI_Type_free(&type));
}
