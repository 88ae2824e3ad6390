#include "timing.h"

#include <unistd.h>

#include "check.h"

/* Slow ways are not repeated. */
static const double ENOUGH = 1.0;

void calm_barrier(void) {
    MPI_Request request;
    MPI_OK(MPI_Ibarrier(MPI_COMM_WORLD, &request));
    for (int is_done = 0; !is_done;) {
        MPI_OK(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE));
        if (!is_done) usleep(1000);
    }
}

double started(void) {
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    return MPI_Wtime();
}

double longest(double own) {
    double longest;
    /* Who waits does not take the processor from who is still at work. */
    calm_barrier();
    MPI_OK(MPI_Allreduce(&own, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    return longest;
}

double longest_since(double since) { return longest(MPI_Wtime() - since); }

void tell_time(const char *what, double since) { tell(what, longest_since(since)); }

void tell(const char *what, double value) {
    if (rank == 0) {
        printf("%s %.9f\n", what, value);
        fflush(stdout);
    }
}

void tell_moved(const char *what, double seconds, int64_t bytes) {
    if (rank == 0) {
        printf("%s %.9f s %.1f MB/s\n", what, seconds, (double)bytes / 1e6 / seconds);
        fflush(stdout);
    }
}

void tell_wrong(long wrong) {
    long all;
    MPI_OK(MPI_Reduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD));
    tell("wrong", (double)all);
}

struct passes passes_of(int64_t wanted) {
    /* One more makes an even number odd. */
    CHECK(wanted < MOST_PASSES, "%d passes or more", MOST_PASSES);
    return (struct passes){.wanted = (int)wanted};
}

struct passes repeated(int64_t wanted) {
    struct passes passes = passes_of(wanted);
    passes.untimed = wanted > 1;
    return passes;
}

int is_wanting(const struct passes *passes) {
    return passes->count % 2 == 0 || (passes->count < passes->wanted && passes->total < ENOUGH);
}

void begin_pass(struct passes *passes) { passes->since = started(); }

void end_pass(struct passes *passes) {
    double seconds = longest_since(passes->since);
    if (passes->done == 0) passes->first = seconds;
    if (passes->done++ < passes->untimed) return;
    passes->seconds[passes->count++] = seconds;
    passes->total += seconds;
}

static int in_order(const void *a, const void *b) {
    double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

double median_of(const struct passes *passes) {
    double sorted[MOST_PASSES];
    CHECK(passes->count > 0, "nothing was timed");
    memcpy(sorted, passes->seconds, (size_t)passes->count * sizeof *sorted);
    qsort(sorted, (size_t)passes->count, sizeof *sorted, in_order);
    return (sorted[(passes->count - 1) / 2] + sorted[passes->count / 2]) / 2;
}
