/* Many communicators, at once and one after the other, freed in any order; some made while others are used. */
#include "check.h"

static void use(MPI_Comm comm, int number) {
    int told = rank == 0 ? number : -1;
    MPI_OK(MPI_Bcast(&told, 1, MPI_INT, 0, comm));
    EQUAL(told, number);
    int own = rank, largest = -1;
    MPI_OK(MPI_Allreduce(&own, &largest, 1, MPI_INT, MPI_MAX, comm));
    EQUAL(largest, ranks - 1);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    enum { AT_ONCE = 40, IN_TURN = 60, MEANWHILE = 20 };
    static MPI_Comm comms[AT_ONCE];
    /* Here all agree after how many collectives there are groups. */
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < AT_ONCE; i++) {
        MPI_OK(MPI_Comm_dup(i % 3 ? comms[i / 2] : MPI_COMM_WORLD, &comms[i]));
        use(comms[i], i);
    }
    for (int i = 0; i < AT_ONCE; i++) use(comms[i * 37 % AT_ONCE], i);
    for (int i = 0; i < AT_ONCE; i++) MPI_OK(MPI_Comm_free(&comms[i * 37 % AT_ONCE]));
    for (int i = 0; i < IN_TURN; i++) {
        MPI_Comm comm;
        MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        use(comm, i);
        MPI_OK(MPI_Comm_free(&comm));
        use(MPI_COMM_WORLD, i);
    }
    for (int i = 0; i < MEANWHILE; i++) {
        MPI_Comm comm;
        MPI_Request request;
        MPI_OK(MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request));
        use(MPI_COMM_WORLD, i);
        MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        use(comm, i);
        MPI_OK(MPI_Comm_free(&comm));
    }
    if (rank == 0) printf("all communicators are right\n");
    MPI_Finalize();
    return 0;
}
