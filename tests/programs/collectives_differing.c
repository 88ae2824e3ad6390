/* collectives_differing: the processes differ in how many collectives of a communicator MPI is to do before there is a
 * group. One communicator has many scans before MPI_COMM_WORLD has had a collective, another one a few afterwards. */
#include "check.h"

static void scan(int times) {
    MPI_Comm comm;
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (int i = 0; i < times; i++) {
        int own = i, sum = 0, told = rank == 0 ? i : -1;
        MPI_OK(MPI_Scan(&own, &sum, 1, MPI_INT, MPI_SUM, comm));
        EQUAL(sum, (rank + 1) * i);
        MPI_OK(MPI_Bcast(&told, 1, MPI_INT, 0, comm));
        EQUAL(told, i);
    }
    MPI_OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv) {
    const char *number = getenv("OMPI_COMM_WORLD_RANK");
    if (!number) number = getenv("PMI_RANK");
    HOLDS(number);
    setenv("SVMIO_COLLECTIVES_AFTER", atoi(number) % 2 ? "4" : "0", 1);
    begin(&argc, &argv);
    scan(300);
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    scan(10);
    if (rank == 0) printf("all scans are right\n");
    MPI_Finalize();
    return 0;
}
