/* memory FILE BYTES: so many bytes are written in one collective call, in pieces of 8 bytes, those of all ranks in
 * turn. What is told is how much more memory the rank that took most of it had at any moment of it, beyond its buffer:
 * what is its own, what it has mapped that others may have as well, and what it has mapped of svmio's segments, in
 * which files are, beyond this file's size. And these three by themselves, of segments all. Bytes. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "check.h"
#include "files.h"
#include "timing.h"

/* Bytes of memory that is there. */
struct resident {
    int64_t own, mapped, segments;
};

static int64_t own_now(void) {
    char line[256];
    int64_t kilobytes = -1;
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status != NULL, "/proc/self/status cannot be read");
    while (fgets(line, sizeof line, status)) sscanf(line, "RssAnon: %" SCNd64, &kilobytes);
    fclose(status);
    CHECK(kilobytes >= 0, "no RssAnon in /proc/self/status");
    return kilobytes * 1024;
}

/* The kernel's sums, RssShmem and RssFile, do not tell what is mapped: a buffer that ranks share would pass for a part
 * of the file that this rank has not touched. */
static struct resident resident_now(void) {
    char line[4096], access[8];
    struct resident now = {.own = own_now()};
    int64_t *kind = &now.mapped, kilobytes;
    FILE *maps = fopen("/proc/self/smaps", "r");
    CHECK(maps != NULL, "/proc/self/smaps cannot be read");
    while (fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%*x-%*x %4s", access) == 1) {
            kind = strstr(line, "/segment-") != NULL ? &now.segments : &now.mapped;
        } else if (sscanf(line, "Rss: %" SCNd64, &kilobytes) == 1) {
            *kind += kilobytes * 1024;
        } else if (sscanf(line, "Anonymous: %" SCNd64, &kilobytes) == 1) {
            /* Its own already. */
            *kind -= kilobytes * 1024;
        }
    }
    fclose(maps);
    return now;
}

static atomic_int is_over;
static struct resident most;

static void keep_larger(int64_t *most_of, int64_t now) {
    if (now > *most_of) *most_of = now;
}

static void note_most(void) {
    struct resident now = resident_now();
    keep_larger(&most.own, now.own);
    keep_larger(&most.mapped, now.mapped);
    keep_larger(&most.segments, now.segments);
}

/* Going through what is mapped takes long, of a large file with small pages. */
enum { NAP = 500, NAPS = 20 };

static void *watch(void *unused) {
    (void)unused;
    for (long i = 0; !atomic_load(&is_over); i++) {
        if (i % NAPS == 0) {
            note_most();
        } else {
            keep_larger(&most.own, own_now());
        }
        usleep(NAP);
    }
    return NULL;
}

static void tell_largest(const char *what, int64_t own) {
    int64_t largest;
    MPI_OK(MPI_Reduce(&own, &largest, 1, MPI_INT64_T, MPI_MAX, 0, MPI_COMM_WORLD));
    tell(what, (double)largest);
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
    atomic_store(&is_over, 1);
    HOLDS(pthread_join(watcher, NULL) == 0);
    note_most();

    int64_t own = most.own - before.own, mapped = most.mapped - before.mapped;
    int64_t segments = most.segments - before.segments, more = segments - bytes;
    tell_largest("beyond", own + mapped + (more > 0 ? more : 0));
    tell_largest("own", own);
    tell_largest("mapped", mapped);
    tell_largest("segments", segments);

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
