/* idle FILE SECONDS: a file that lies with all ranks is open, and nobody does anything. Prints the processor time of
 * the rank that used most, all its threads together.
 *
 * compute FILE ROUNDS MILLISECONDS: the last rank computes, with such a file open and without one, in turn, while the
 * others sleep. Prints how long each time took. */
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "files.h"
#include "timing.h"

enum { WORDS = 1 << 20 };

static void written(const char *file) {
    int64_t *words = touched(WORDS * sizeof *words);
    MPI_File handle = opened(file, MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_OK(MPI_File_write_at(handle, rank * WORDS * 8L, words, WORDS, MPI_INT64_T, MPI_STATUS_IGNORE));
    closed(&handle);
    free(words);
}

/* Opens the file, and reads what another rank has. */
static MPI_File used(const char *file) {
    int64_t piece;
    MPI_File handle = opened(file, MPI_MODE_RDWR);
    MPI_OK(MPI_File_read_at(handle, (rank + 1) % ranks * WORDS * 8L, &piece, 1, MPI_INT64_T, MPI_STATUS_IGNORE));
    return handle;
}

static double processor_time(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0, "getrusage");
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

void idle(const char *file, char **arguments) {
    int64_t seconds = number(arguments[0]);
    written(file);
    MPI_File handle = used(file);
    calm_barrier();
    /* What the barrier left to be done is not the file's. */
    usleep(200000);
    double before = processor_time();
    struct timespec rest = {seconds, 0};
    nanosleep(&rest, NULL);
    double own = processor_time() - before, most;
    MPI_OK(MPI_Reduce(&own, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD));
    tell("processor", most);
    closed(&handle);
}

static volatile double result;

static void work(long rounds) {
    double sum = 1;
    for (long i = 1; i <= rounds; i++) sum = sum / (double)i + 1;
    result = sum;
}

void compute(const char *file, char **arguments) {
    int64_t rounds = number(arguments[0]);
    double wanted = (double)number(arguments[1]) / 1e3;
    written(file);
    long amount = 1000;
    for (double taken = 0; rank == ranks - 1 && taken < wanted; amount += amount / 2) {
        double since = MPI_Wtime();
        work(amount);
        taken = MPI_Wtime() - since;
    }
    for (int64_t round = 0; round < 2 * rounds; round++) {
        MPI_File handle = MPI_FILE_NULL;
        if (round % 2) handle = used(file);
        calm_barrier();
        double since = MPI_Wtime();
        if (rank == ranks - 1) work(amount);
        double taken = MPI_Wtime() - since;
        calm_barrier();
        MPI_OK(MPI_Bcast(&taken, 1, MPI_DOUBLE, ranks - 1, MPI_COMM_WORLD));
        tell(round % 2 ? "with" : "without", taken);
        if (round % 2) closed(&handle);
    }
}
