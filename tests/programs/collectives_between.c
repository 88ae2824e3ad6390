/* Communicators of two groups are duplicated while a collective of the same two is on its way. */
#include "check.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    enum { ROUNDS = 20 };
    int first = ranks / 2, is_second = rank >= first;
    MPI_Comm half, both;
    MPI_OK(MPI_Comm_split(MPI_COMM_WORLD, is_second, rank, &half));
    MPI_OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, is_second ? 0 : first, 7, &both));
    MPI_OK(MPI_Barrier(both));
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Comm copy;
        MPI_Request request;
        int own = rank + round, sum = -1, expected = 0;
        for (int i = is_second ? 0 : first; i < (is_second ? first : ranks); i++) expected += i + round;
        MPI_OK(MPI_Comm_idup(both, &copy, &request));
        MPI_OK(MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, both));
        EQUAL(sum, expected);
        MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        sum = -1;
        MPI_OK(MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, copy));
        EQUAL(sum, expected);
        MPI_OK(MPI_Comm_free(&copy));
    }
    MPI_OK(MPI_Comm_free(&both));
    MPI_OK(MPI_Comm_free(&half));
    if (rank == 0) printf("both groups were right\n");
    MPI_Finalize();
    return 0;
}
