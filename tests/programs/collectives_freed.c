/* A program frees the request of a collective that is under way: it is told that it may not, and may wait for it as if
 * nothing had been. */
#include "check.h"

enum { ROUNDS = 20, LENGTH = 5000 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    static int own[LENGTH], all[LENGTH];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < LENGTH; i++) own[i] = i + rank + round;
        MPI_Request request;
        /* Rank 0 begins last, so that the others' is not over. */
        for (int other = 1; rank == 0 && other < ranks; other++)
            MPI_OK(MPI_Recv(NULL, 0, MPI_INT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MPI_OK(MPI_Iallreduce(own, all, LENGTH, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
        if (rank != 0) {
            MPI_Request before = request;
            MPI_FAILS(MPI_Request_free(&request), MPI_ERR_REQUEST);
            HOLDS(request == before);
            MPI_OK(MPI_Send(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD));
        }
        MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        HOLDS(request == MPI_REQUEST_NULL);
        for (int i = 0; i < LENGTH; i++) EQUAL(all[i], ranks * (i + round) + ranks * (ranks - 1) / 2);
    }
    if (rank == 0) printf("requests under way were kept\n");
    MPI_OK(MPI_Finalize());
    return 0;
}
