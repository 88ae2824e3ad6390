/* Barriers and collectives of an MPI, as many times as `MILLISECONDS` hold, with the rounds and buffers of the same
 * measurement of svmio's. For each it prints the seconds of one, of the rank that takes longest. */
#include "check.h"

enum { LENGTH = 1 << 20, LEAST = 4, MOST = 1000000 };

static char *one, *all;

static void barrier(void) { MPI_OK(MPI_Barrier(MPI_COMM_WORLD)); }

static void allreduce(void) {
    long own = rank, sum = 0;
    MPI_OK(MPI_Allreduce(&own, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
    EQUAL(sum, (long)ranks * (ranks - 1) / 2);
}

static void bcast(void) { MPI_OK(MPI_Bcast(one, LENGTH, MPI_BYTE, 0, MPI_COMM_WORLD)); }

static void allgather(void) {
    MPI_OK(MPI_Allgather(one, LENGTH, MPI_BYTE, all, LENGTH, MPI_BYTE, MPI_COMM_WORLD));
    CHECK(all[LENGTH * (size_t)ranks - 1] == one[0] || rank != ranks - 1, "other bytes came than were given");
}

static const struct collective {
    const char *name;
    void (*call)(void);
} collectives[] = {
    {"barrier", barrier}, {"allreduce", allreduce}, {"bcast", bcast}, {"allgather", allgather}};

static double seconds_of(void (*call)(void), long count) {
    barrier();
    double started = MPI_Wtime();
    for (long i = 0; i < count; i++) call();
    double own = MPI_Wtime() - started, longest = 0;
    MPI_OK(MPI_Allreduce(&own, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    return longest / (double)count;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc > 2, "usage: mpiexec -n N collectives MILLISECONDS NAME...");
    double limit = atof(argv[1]) / 1e3;
    one = malloc(LENGTH);
    all = malloc((size_t)LENGTH * (size_t)ranks);
    CHECK(one != NULL && all != NULL, "no memory");
    memset(one, rank + 1, LENGTH);
    memset(all, 0, (size_t)LENGTH * (size_t)ranks);
    for (int i = 2; i < argc; i++) {
        const struct collective *found = NULL;
        for (size_t j = 0; j < sizeof collectives / sizeof *collectives; j++) {
            if (strcmp(collectives[j].name, argv[i]) == 0) found = &collectives[j];
        }
        CHECK(found != NULL, "no such collective: %s", argv[i]);
        double count = limit / seconds_of(found->call, LEAST);
        count = limit / seconds_of(found->call, count < LEAST ? LEAST : count / 10 > MOST ? MOST : (long)(count / 10) + 1);
        double seconds = seconds_of(found->call, count < LEAST ? LEAST : count > MOST ? MOST : (long)count);
        if (rank == 0) printf("%s %.12f\n", found->name, seconds);
    }
    MPI_Finalize();
    return 0;
}
