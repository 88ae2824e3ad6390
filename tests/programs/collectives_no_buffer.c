/* Calls without a buffer where one has to be: MPI says so, and the communicator can be used all the same. */
#include "check.h"

enum { COUNT = 4 };

#define REFUSED(call)                                                                                         \
    do {                                                                                                      \
        doing = #call;                                                                                        \
        EQUAL(class_of(call), MPI_ERR_BUFFER);                                                                \
    } while (0)

static void add(void *left, void *right, int *count, MPI_Datatype *type) {
    (void)type;
    for (int at = 0; at < *count; at++) ((int *)right)[at] += ((int *)left)[at];
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm all = MPI_COMM_WORLD;
    MPI_OK(MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN));
    MPI_Op own;
    MPI_OK(MPI_Op_create(add, 1, &own));
    MPI_Datatype gaps;
    MPI_OK(MPI_Type_vector(2, 1, 2, MPI_INT, &gaps));
    MPI_OK(MPI_Type_commit(&gaps));
    int data[16 * COUNT] = {0};
    int counts[16], places[16];
    HOLDS(ranks <= 16);
    for (int other = 0; other < ranks; other++) counts[other] = COUNT, places[other] = COUNT * other;
    MPI_Op ops[] = {MPI_SUM, own};
    for (int at = 0; at < 2; at++) {
        MPI_Op op = ops[at];
        REFUSED(MPI_Allreduce(data, NULL, COUNT, MPI_INT, op, all));
        REFUSED(MPI_Allreduce(NULL, data, COUNT, MPI_INT, op, all));
        REFUSED(MPI_Allreduce(data, MPI_IN_PLACE, COUNT, MPI_INT, op, all));
        REFUSED(MPI_Scan(data, NULL, COUNT, MPI_INT, op, all));
        REFUSED(MPI_Reduce_scatter(data, NULL, counts, MPI_INT, op, all));
        REFUSED(MPI_Reduce_scatter_block(data, NULL, COUNT, MPI_INT, op, all));
    }
    MPI_Request request;
    REFUSED(MPI_Iallreduce(data, NULL, COUNT, MPI_INT, MPI_SUM, all, &request));
    REFUSED(MPI_Iscan(data, NULL, COUNT, MPI_INT, MPI_SUM, all, &request));
    REFUSED(MPI_Ireduce_scatter(data, NULL, counts, MPI_INT, MPI_SUM, all, &request));
    REFUSED(MPI_Bcast(NULL, COUNT, MPI_INT, 0, all));
    REFUSED(MPI_Bcast(NULL, 1, gaps, 0, all));
    REFUSED(MPI_Allgather(data, COUNT, MPI_INT, NULL, COUNT, MPI_INT, all));
    REFUSED(MPI_Allgatherv(data, COUNT, MPI_INT, NULL, counts, places, MPI_INT, all));
    REFUSED(MPI_Alltoall(data, COUNT, MPI_INT, NULL, COUNT, MPI_INT, all));
    /* Where nothing is received, there has to be none. */
    int sum[COUNT];
    MPI_OK(MPI_Reduce(data, rank == 0 ? sum : NULL, COUNT, MPI_INT, MPI_SUM, 0, all));
    MPI_OK(MPI_Exscan(data, rank == 0 ? NULL : sum, COUNT, MPI_INT, MPI_SUM, all));
    MPI_OK(MPI_Allreduce(NULL, NULL, 0, MPI_INT, MPI_SUM, all));
    MPI_OK(MPI_Barrier(all));
    MPI_OK(MPI_Type_free(&gaps));
    MPI_OK(MPI_Op_free(&own));
    if (rank == 0) printf("all were told by MPI\n");
    MPI_Finalize();
    return 0;
}
