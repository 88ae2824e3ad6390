/* Barriers and collectives of an MPI, as many times as `MILLISECONDS` hold, with the rounds and buffers of the same
 * measurement of svmio's. For each it prints the seconds of one, of the rank that takes longest, and how many were called.
 * What they give is checked before and after they are timed. With `sessions`, each rank has a session of its own, so the
 * kernel schedules it in a group of its own. */
#include "check.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LENGTH = 1 << 20, LEAST = 4, MOST = 1000000 };

static unsigned char *one, *all;
static long own, sum;

static void barrier(void) { MPI_OK(MPI_Barrier(MPI_COMM_WORLD)); }

static void allreduce(void) { MPI_OK(MPI_Allreduce(&own, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD)); }

static void bcast(void) { MPI_OK(MPI_Bcast(one, LENGTH, MPI_BYTE, 0, MPI_COMM_WORLD)); }

static void allgather(void) { MPI_OK(MPI_Allgather(one, LENGTH, MPI_BYTE, all, LENGTH, MPI_BYTE, MPI_COMM_WORLD)); }

static unsigned char byte_of(int giver, int turn, size_t at) {
    return (unsigned char)((at * 2654435761u >> 13) + (unsigned)giver * 31u + (unsigned)turn * 7u);
}

static void give(int giver, int turn) {
    for (size_t i = 0; i < LENGTH; i++) one[i] = byte_of(giver, turn, i);
}

static void check_bytes(const unsigned char *bytes, int giver, int turn) {
    for (size_t i = 0; i < LENGTH; i++) {
        CHECK(bytes[i] == byte_of(giver, turn, i), "byte %zu of rank %d is %d instead of %d", i, giver, bytes[i],
              byte_of(giver, turn, i));
    }
}

static double clock_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Nobody leaves before the last, another one in each turn, has come. */
static void check_barrier(int turn) {
    if (rank == turn % ranks) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    double come = clock_seconds(), last = 0;
    barrier();
    double left = clock_seconds();
    MPI_OK(MPI_Allreduce(&come, &last, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    CHECK(left >= last, "left %g s before the last one had come", last - left);
}

static void check_allreduce(int turn) {
    own = rank + turn;
    sum = -1;
    allreduce();
    EQUAL(sum, (long)ranks * (ranks - 1) / 2 + (long)ranks * turn);
}

static void check_bcast(int turn) {
    give(rank, turn);
    bcast();
    check_bytes(one, 0, turn);
}

static void check_allgather(int turn) {
    give(rank, turn);
    memset(all, 0, (size_t)LENGTH * (size_t)ranks);
    allgather();
    for (int giver = 0; giver < ranks; giver++) check_bytes(all + (size_t)LENGTH * (size_t)giver, giver, turn);
}

static const struct collective {
    const char *name;
    void (*call)(void);
    void (*check)(int turn);
} collectives[] = {
    {"barrier", barrier, check_barrier},
    {"allreduce", allreduce, check_allreduce},
    {"bcast", bcast, check_bcast},
    {"allgather", allgather, check_allgather},
};

static double seconds_of(void (*call)(void), long count) {
    barrier();
    double started = MPI_Wtime();
    for (long i = 0; i < count; i++) call();
    double mine = MPI_Wtime() - started, longest = 0;
    MPI_OK(MPI_Allreduce(&mine, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    return longest / (double)count;
}

static long between(double count) { return count < LEAST ? LEAST : count > MOST ? MOST : (long)count; }

static void measure(const struct collective *collective, double limit) {
    collective->check(0);
    long counts[3] = {LEAST};
    double seconds = seconds_of(collective->call, counts[0]);
    counts[1] = between(limit / 10 / seconds);
    seconds = seconds_of(collective->call, counts[1]);
    counts[2] = between(limit / seconds);
    seconds = seconds_of(collective->call, counts[2]);
    collective->check(1);
    if (rank == 0) {
        printf("%s %.12f\n", collective->name, seconds);
        printf("%s.calls %ld\n", collective->name, counts[0] + counts[1] + counts[2] + 2);
    }
}

static void begin_session(void) {
    /* Open MPI's launcher has made it the first of a process group, and such a one gets no session. */
    setpgid(0, getpgid(getppid()));
    /* Hydra's ranks have one already. The bare call: a library may have another function of that name. */
    CHECK(syscall(SYS_setsid) >= 0 || getsid(0) == getpid(), "no session of its own");
}

int main(int argc, char **argv) {
    int first = 2;
    if (argc > 2 && strcmp(argv[2], "sessions") == 0) {
        begin_session();
        first++;
    }
    begin(&argc, &argv);
    CHECK(argc > first, "usage: mpiexec -n N collectives MILLISECONDS [sessions] NAME...");
    double limit = atof(argv[1]) / 1e3;
    one = malloc(LENGTH);
    all = malloc((size_t)LENGTH * (size_t)ranks);
    CHECK(one != NULL && all != NULL, "no memory");
    memset(one, 0, LENGTH);
    memset(all, 0, (size_t)LENGTH * (size_t)ranks);
    for (int i = first; i < argc; i++) {
        const struct collective *found = NULL;
        for (size_t j = 0; j < sizeof collectives / sizeof *collectives; j++) {
            if (strcmp(collectives[j].name, argv[i]) == 0) found = &collectives[j];
        }
        CHECK(found != NULL, "no such collective: %s", argv[i]);
        measure(found, limit);
    }
    MPI_Finalize();
    return 0;
}
