/* An attribute of a communicator, set before its first collective or after, does a collective of it when it goes: that
 * is the last one of the communicator, and none of the next one that has its handle. */
#include "check.h"

enum { ROUNDS = 3, MANY = 600 };

static int gone;

static int meet(MPI_Comm comm, int key, void *value, void *extra) {
    (void)key, (void)value, (void)extra;
    MPI_OK(MPI_Barrier(comm));
    gone++;
    return MPI_SUCCESS;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    HOLDS(ranks == 4);
    int key;
    MPI_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, meet, &key, NULL));
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Comm half, all;
        MPI_OK(MPI_Comm_split(MPI_COMM_WORLD, rank < 2 ? 0 : MPI_UNDEFINED, rank, &half));
        if (half != MPI_COMM_NULL) {
            if (round == 1) MPI_OK(MPI_Barrier(half));
            MPI_OK(MPI_Comm_set_attr(half, key, NULL));
            if (round == 0) MPI_OK(MPI_Barrier(half));
            MPI_OK(round == 0 ? MPI_Comm_disconnect(&half) : MPI_Comm_free(&half));
            EQUAL(gone, round + 1);
        }
        MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &all));
        for (int at = 0; at < MANY; at++) {
            int root = at % ranks, value = rank == root ? 1000 * round + at : -1, sum;
            MPI_OK(MPI_Bcast(&value, 1, MPI_INT, root, all));
            EQUAL(value, 1000 * round + at);
            MPI_OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all));
            EQUAL(sum, ranks * (ranks - 1) / 2);
        }
        MPI_OK(MPI_Comm_free(&all));
    }
    MPI_OK(MPI_Comm_free_keyval(&key));
    if (rank == 0) printf("each had its own\n");
    MPI_Finalize();
    return 0;
}
