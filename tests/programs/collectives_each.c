/* Each collective once, of all ranks; and where svmio has no business: of one rank, between groups. */
#include "check.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    enum { MOST = 16 };
    HOLDS(ranks <= MOST);
    int own = rank + 1, sum = ranks * (ranks + 1) / 2, all[MOST], other[MOST], ones[MOST], places[MOST], bytes[MOST];
    MPI_Datatype types[MOST];
    MPI_Comm world = MPI_COMM_WORLD;
    for (int i = 0; i < ranks; i++) {
        ones[i] = 1, places[i] = i, bytes[i] = i * (int)sizeof(int), types[i] = MPI_INT;
        all[i] = 0, other[i] = 10 * rank + i;
    }
    MPI_OK(MPI_Barrier(world));
    int told = rank == ranks - 1 ? 77 : 0;
    MPI_OK(MPI_Bcast(&told, 1, MPI_INT, ranks - 1, world));
    EQUAL(told, 77);
    MPI_OK(MPI_Gather(&own, 1, MPI_INT, all, 1, MPI_INT, 0, world));
    if (rank == 0) EQUAL(all[ranks - 1], ranks);
    MPI_OK(MPI_Gatherv(&own, 1, MPI_INT, all, ones, places, MPI_INT, 0, world));
    if (rank == 0) EQUAL(all[ranks - 1], ranks);
    int part;
    MPI_OK(MPI_Scatter(other, 1, MPI_INT, &part, 1, MPI_INT, 0, world));
    EQUAL(part, rank);
    MPI_OK(MPI_Scatterv(other, ones, places, MPI_INT, &part, 1, MPI_INT, ranks - 1, world));
    EQUAL(part, 10 * (ranks - 1) + rank);
    MPI_OK(MPI_Allgather(&own, 1, MPI_INT, all, 1, MPI_INT, world));
    EQUAL(all[ranks - 1], ranks);
    MPI_OK(MPI_Allgatherv(&own, 1, MPI_INT, all, ones, places, MPI_INT, world));
    EQUAL(all[0], 1);
    MPI_OK(MPI_Alltoall(other, 1, MPI_INT, all, 1, MPI_INT, world));
    EQUAL(all[ranks - 1], 10 * (ranks - 1) + rank);
    MPI_OK(MPI_Alltoallv(other, ones, places, MPI_INT, all, ones, places, MPI_INT, world));
    EQUAL(all[ranks - 1], 10 * (ranks - 1) + rank);
    MPI_OK(MPI_Alltoallw(other, ones, bytes, types, all, ones, bytes, types, world));
    EQUAL(all[ranks - 1], 10 * (ranks - 1) + rank);
    int result = -1;
    MPI_OK(MPI_Reduce(&own, &result, 1, MPI_INT, MPI_SUM, 0, world));
    EQUAL(result, rank == 0 ? sum : -1);
    MPI_OK(MPI_Allreduce(&own, &result, 1, MPI_INT, MPI_MAX, world));
    EQUAL(result, ranks);
    MPI_OK(MPI_Reduce_scatter(ones, &result, ones, MPI_INT, MPI_SUM, world));
    EQUAL(result, ranks);
    MPI_OK(MPI_Reduce_scatter_block(ones, &result, 1, MPI_INT, MPI_SUM, world));
    EQUAL(result, ranks);
    MPI_OK(MPI_Scan(&own, &result, 1, MPI_INT, MPI_SUM, world));
    EQUAL(result, own * rank / 2 + own);
    MPI_OK(MPI_Exscan(&own, &result, 1, MPI_INT, MPI_SUM, world));
    if (rank > 0) EQUAL(result, own * rank / 2);

    MPI_OK(MPI_Barrier(MPI_COMM_SELF));
    MPI_Comm half, between;
    MPI_OK(MPI_Comm_split(world, rank > 0, rank, &half));
    MPI_OK(MPI_Intercomm_create(half, 0, world, rank > 0 ? 0 : 1, 5, &between));
    MPI_OK(MPI_Barrier(between));
    MPI_OK(MPI_Comm_free(&between));
    MPI_OK(MPI_Comm_free(&half));
    if (rank == 0) printf("each is right\n");
    MPI_Finalize();
    return 0;
}
