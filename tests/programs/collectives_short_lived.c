/* collectives_short_lived PREFIX: many files that are open at once, and communicators that come and go, with a few
 * collectives each; then two of many collectives: as many scans, which nobody else does here, as rank 0 tells at the end. */
#include "check.h"

/* How much memory that it shares with others this process uses, in KiB. */
static long shared(void) {
    FILE *status = fopen("/proc/self/status", "r");
    HOLDS(status);
    char line[256];
    long found = -1;
    while (fgets(line, sizeof line, status)) sscanf(line, "RssShmem: %ld kB", &found);
    fclose(status);
    HOLDS(found >= 0);
    return found;
}

static void scan(MPI_Comm comm) {
    int own = 1, sum = 0;
    MPI_OK(MPI_Scan(&own, &sum, 1, MPI_INT, MPI_SUM, comm));
    EQUAL(sum, rank + 1);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    HOLDS(argc == 2);
    enum { FILES = 260, IN_TURN = 200, BEGUN = 32, MANY = 300 };
    static MPI_File files[FILES];
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    long before = shared();
    for (int i = 0; i < FILES; i++) {
        char name[4096];
        snprintf(name, sizeof name, "%s-%d", argv[1], i);
        int mode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
        MPI_OK(MPI_File_open(MPI_COMM_WORLD, name, mode, MPI_INFO_NULL, &files[i]));
    }
    for (int i = 0; i < IN_TURN; i++) {
        MPI_Comm comm;
        MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        scan(comm);
        MPI_OK(MPI_Comm_free(&comm));
    }
    long more = shared() - before;
    CHECK(more < 10 << 10, "%ld KiB more of shared memory", more);

    MPI_Comm comms[2];
    for (int which = 0; which < 2; which++) MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[which]));
    for (int i = 0; i < BEGUN; i++) {
        int own = 1, sum = 0;
        MPI_Request request;
        MPI_OK(MPI_Iscan(&own, &sum, 1, MPI_INT, MPI_SUM, comms[1], &request));
        MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        EQUAL(sum, rank + 1);
    }
    for (int i = 0; i < MANY; i++)
        for (int which = 0; which < 2; which++) scan(comms[which]);
    for (int which = 0; which < 2; which++) MPI_OK(MPI_Comm_free(&comms[which]));
    for (int i = 0; i < FILES; i++) MPI_OK(MPI_File_close(&files[i]));
    if (rank == 0) printf("scans: %d of few and %d of many\n", IN_TURN, 2 * MANY);
    MPI_Finalize();
    return 0;
}
