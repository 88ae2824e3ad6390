/* A collective that does not block is over for who asks by MPI_Request_get_status alone. */
#include "check.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    enum { LONG = 1 << 18 };
    static double values[LONG];
    for (int i = 0; i < LONG; i++) values[i] = rank;
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_Request request;
    MPI_OK(MPI_Iallreduce(MPI_IN_PLACE, values, LONG, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request));
    int is_over = 0;
    while (!is_over) MPI_OK(MPI_Request_get_status(request, &is_over, MPI_STATUS_IGNORE));
    MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < LONG; i++) EQUAL((int)values[i], ranks * (ranks - 1) / 2);
    if (rank == 0) printf("who asked was told\n");
    MPI_Finalize();
    return 0;
}
