/* Collectives of a datatype, and by an operation, that are none: the function that was called says so to the handler of
 * its communicator, and nobody else's hears of it. The argument is that communicator, "world" or a "copy" of it; errors
 * of the world then end the job. */
#include "check.h"

enum { COUNT = 4 };

static void add(void *left, void *right, int *count, MPI_Datatype *type) {
    (void)type;
    for (int at = 0; at < *count; at++) ((int *)right)[2 * at] += ((int *)left)[2 * at];
}

#define REFUSED(call, class)                                                                                  \
    do {                                                                                                      \
        doing = #call;                                                                                        \
        MPI_FAILS(call, class);                                                                               \
    } while (0)

int main(int argc, char **argv) {
    begin(&argc, &argv);
    HOLDS(argc == 2);
    MPI_Comm comm = MPI_COMM_WORLD;
    if (strcmp(argv[1], "copy") == 0) MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MPI_OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    MPI_Datatype none = (MPI_Datatype)0, gaps;
    MPI_Op no_op __attribute__((unused)) = (MPI_Op)0, own;
    MPI_OK(MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &gaps));
    MPI_OK(MPI_Type_commit(&gaps));
    MPI_OK(MPI_Op_create(add, 1, &own));
    int data[16 * COUNT] = {0}, all[16 * COUNT];
    int counts[16] __attribute__((unused)), places[16] __attribute__((unused));
    HOLDS(ranks <= 16);
    for (int other = 0; other < ranks; other++) counts[other] = 1, places[other] = other;
    MPI_Request request;
    for (int turn = 0; turn < 3; turn++) {
        REFUSED(MPI_Bcast(data, COUNT, none, 0, comm), MPI_ERR_TYPE);
        REFUSED(MPI_Ibcast(data, COUNT, none, 0, comm, &request), MPI_ERR_TYPE);
        REFUSED(MPI_Allgather(data, 1, none, all, 1, MPI_INT, comm), MPI_ERR_TYPE);
        REFUSED(MPI_Allgather(data, 1, MPI_INT, all, 1, none, comm), MPI_ERR_TYPE);
        REFUSED(MPI_Alltoall(data, 1, none, all, 1, none, comm), MPI_ERR_TYPE);
        REFUSED(MPI_Allreduce(data, all, COUNT, none, own, comm), MPI_ERR_TYPE);
#ifndef OPEN_MPI
        /* At these Open MPI looks without asking what they are. */
        REFUSED(MPI_Allgatherv(data, 1, MPI_INT, all, counts, places, none, comm), MPI_ERR_TYPE);
        REFUSED(MPI_Allreduce(data, all, COUNT, MPI_INT, no_op, comm), MPI_ERR_OP);
        REFUSED(MPI_Allreduce(data, all, COUNT, gaps, no_op, comm), MPI_ERR_OP);
        REFUSED(MPI_Scan(data, all, COUNT, MPI_INT, no_op, comm), MPI_ERR_OP);
        REFUSED(MPI_Reduce(data, all, COUNT, MPI_INT, no_op, 0, comm), MPI_ERR_OP);
#endif
        /* Those that are there are served as before. */
        for (int at = 0; at < COUNT; at++) data[2 * at] = rank + at;
        MPI_OK(MPI_Allreduce(data, all, COUNT, gaps, own, comm));
        for (int at = 0; at < COUNT; at++) EQUAL(all[2 * at], ranks * at + ranks * (ranks - 1) / 2);
        MPI_OK(MPI_Bcast(data, COUNT, gaps, 0, comm));
        for (int at = 0; at < COUNT; at++) EQUAL(data[2 * at], at);
    }
    MPI_OK(MPI_Type_free(&gaps));
    MPI_OK(MPI_Op_free(&own));
    if (rank == 0) printf("all were told by MPI\n");
    MPI_Finalize();
    return 0;
}
