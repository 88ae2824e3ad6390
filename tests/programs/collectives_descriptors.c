/* Communicators where descriptors are short. "few": of one rank, all at once. "many": of all ranks, as there are more
 * communicators than descriptors, of which the program needs some, too. */
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"

/* Allows descriptors up to this number. */
static void allow(rlim_t most) {
    struct rlimit limit;
    HOLDS(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = most;
    HOLDS(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

static MPI_Comm copied(void) {
    MPI_Comm copy;
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    MPI_OK(MPI_Barrier(copy));
    return copy;
}

static void few(void) {
    enum { MOST = 8, LIMIT = 10 };
    static MPI_Comm copies[MOST];
    int next = open("/dev/null", O_RDONLY);
    HOLDS(next >= 0 && close(next) == 0);
    double from = MPI_Wtime();
    for (int left = 0; left < MOST; left++) {
        if (rank == 1) allow(next + left);
        copies[left] = copied();
        double took = MPI_Wtime() - from;
        CHECK(took < LIMIT, "communicators up to %d descriptors took %.1f s", left, took);
    }
    if (rank == 1) allow(1024);
    MPI_Comm more = copied();
    MPI_OK(MPI_Comm_free(&more));
    for (int left = 0; left < MOST; left++) MPI_OK(MPI_Comm_free(&copies[left]));
}

static void many(void) {
    enum { COPIES = 1100 };
    static MPI_Comm copies[COPIES];
    allow(1024);
    for (int i = 0; i < COPIES; i++) copies[i] = copied();
    FILE *file = fopen("/dev/null", "r");
    CHECK(file != NULL, "no descriptor is left");
    fclose(file);
    for (int i = 0; i < COPIES; i++) MPI_OK(MPI_Comm_free(&copies[i]));
    MPI_Comm more = copied();
    MPI_OK(MPI_Comm_free(&more));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    HOLDS(argc == 2);
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (strcmp(argv[1], "few") == 0) few();
    else many();
    if (rank == 0) printf("descriptors sufficed\n");
    MPI_Finalize();
    return 0;
}
