/* nodes_computing NAME DIRECTORY SECONDS: the first rank and then the last computes, calling nothing of MPI's, until all
 * others have read, written and locked what lies on its node, and again when it has computed for so many seconds more; in
 * the end nobody does anything for a second. Reports how long each has computed, and what the open file has cost the
 * processor in that second. */
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "random.h"
#include "report.h"

enum {
    SEGMENT = 65536,
    /* What each rank reads of another's, and what each other rank writes there: long enough to go straight into place,
     * and so little that it is gathered. */
    READ = 3 * SEGMENT,
    LONG = 2 * SEGMENT,
    SHORT = 1000,
    OF_ONE = LONG + SEGMENT,
};

static const char *directory;
static double least;

static void path_of(char *path, size_t length, const char *what, int round, int of) {
    snprintf(path, length, "%s/%s-%d-%d", directory, what, round, of);
}

static void announce(const char *what, int round) {
    char path[4096];
    path_of(path, sizeof path, what, round, rank);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fclose(file) == 0, "%s cannot be written", path);
}

static int has(const char *what, int round, int of) {
    char path[4096];
    path_of(path, sizeof path, what, round, of);
    return access(path, F_OK) == 0;
}

static int have_all(const char *what, int round, int but) {
    for (int r = 0; r < ranks; r++) {
        if (r != but && !has(what, round, r)) return 0;
    }
    return 1;
}

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static volatile double result;

static void compute_some(void) {
    double sum = 1;
    for (int i = 1; i <= 1000000; i++) sum = sum / i + 1;
    result = sum;
}

static void compute_until_others_are_done(int round) {
    double since = seconds(CLOCK_MONOTONIC);
    do compute_some();
    while (!have_all("done", round, rank));
    double done = seconds(CLOCK_MONOTONIC);
    while (seconds(CLOCK_MONOTONIC) - done < least) compute_some();
    announce("silent", round);
    do compute_some();
    while (!have_all("again", round, rank));
    report_number("computed us", (long)((seconds(CLOCK_MONOTONIC) - since) * 1e6));
}

/* Where a rank's part begins: what it writes of its own, and behind that what each rank writes there. */
static MPI_Offset part_of(int owner) { return (MPI_Offset)owner * (READ + ranks * OF_ONE); }
static MPI_Offset place_of(int owner, int writer) { return part_of(owner) + READ + (MPI_Offset)writer * OF_ONE; }

static void fill(unsigned char *bytes, int length, int seed) {
    for (int i = 0; i < length; i++) bytes[i] = byte_at((uint64_t)seed, (uint64_t)i);
}

static void check_bytes(MPI_File file, MPI_Offset at, int length, int seed, const char *what) {
    static unsigned char found[READ], expected[READ];
    MPI_OK(MPI_File_read_at(file, at, found, length, MPI_BYTE, MPI_STATUS_IGNORE));
    fill(expected, length, seed);
    CHECK(memcmp(found, expected, (size_t)length) == 0, "%s at %lld is not what was written", what, (long long)at);
}

static void one_computes(MPI_File file, int home, int is_atomic, int round) {
    static unsigned char bytes[LONG];
    MPI_OK(MPI_File_set_atomicity(file, is_atomic));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == home) {
        compute_until_others_are_done(round);
    } else {
        MPI_Offset at = place_of(home, rank);
        check_bytes(file, part_of(home), READ, home + 1, "what the computing rank wrote");
        fill(bytes, LONG, 100 * round + rank);
        MPI_OK(MPI_File_write_at(file, at, bytes, LONG, MPI_BYTE, MPI_STATUS_IGNORE));
        MPI_OK(MPI_File_write_at(file, at + LONG, bytes, SHORT, MPI_BYTE, MPI_STATUS_IGNORE));
        check_bytes(file, at, LONG, 100 * round + rank, "a long write");
        check_bytes(file, at + LONG, SHORT, 100 * round + rank, "a short write");
        announce("done", round);
        while (!has("silent", round, home)) usleep(1000);
        check_bytes(file, at, LONG, 100 * round + rank, "a long write, later");
        MPI_OK(MPI_File_write_at(file, at + LONG, bytes, SHORT, MPI_BYTE, MPI_STATUS_IGNORE));
        announce("again", round);
    }
    MPI_OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_OK(MPI_File_sync(file));
    for (int other = 0; other < ranks && rank == home; other++) {
        if (other == home) continue;
        check_bytes(file, place_of(home, other), LONG, 100 * round + other, "a long write of another");
        check_bytes(file, place_of(home, other) + LONG, SHORT, 100 * round + other, "a short write of another");
    }
}

static void rest(void) {
    struct timespec second = {1, 0};
    MPI_Barrier(MPI_COMM_WORLD);
    /* What the barrier leaves to be done is not the file's. */
    usleep(200000);
    double before = seconds(CLOCK_PROCESS_CPUTIME_ID);
    nanosleep(&second, NULL);
    report_number("resting CPU us", (long)((seconds(CLOCK_PROCESS_CPUTIME_ID) - before) * 1e6));
    announce("rested", 0);
    while (!have_all("rested", 0, -1)) usleep(1000);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc == 4, "usage: nodes_computing NAME DIRECTORY SECONDS");
    directory = argv[2];
    least = atof(argv[3]);
    report_to(directory);
    int level;
    MPI_Query_thread(&level);
    EQUAL(level, MPI_THREAD_SINGLE);

    MPI_File file;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "svm_segment_size", "65536");
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    MPI_Info_free(&info);
    int length = READ + ranks * OF_ONE;
    unsigned char *own = calloc((size_t)length, 1);
    fill(own, READ, rank + 1);
    MPI_OK(MPI_File_write_at_all(file, part_of(rank), own, length, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    /* The master's rank, and one that is only home. */
    int homes[] = {0, ranks - 1}, round = 1;
    for (int i = 0; i < 2; i++) {
        for (int is_atomic = 0; is_atomic < 2; is_atomic++) one_computes(file, homes[i], is_atomic, round++);
    }
    rest();
    MPI_OK(MPI_File_close(&file));
    free(own);
    if (rank == 0) printf("all was served\n");
    MPI_Finalize();
    return 0;
}
