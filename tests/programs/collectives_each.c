/* Each collective once, of all ranks, those that do not block all at the same time; and where svmio has no business: of one
 * rank, between groups. */
#include "check.h"

enum { MOST = 16 };

static void begun(MPI_Comm world, int own, int sum, const int *other, const int *ones, const int *places,
                  const int *bytes, const MPI_Datatype *types) {
    enum { CALLS = 17 };
    MPI_Request requests[CALLS], *next = requests;
    int told[2] = {0, rank == ranks - 1 ? 77 : 0};
    int part = -1, varying = -1, all[8][MOST], results[6] = {-1, -1, -1, -1, -1, -1};
    MPI_OK(MPI_Ibarrier(world, next++));
    MPI_OK(MPI_Ibcast(told, 2, MPI_INT, ranks - 1, world, next++));
    MPI_OK(MPI_Igather(&own, 1, MPI_INT, all[0], 1, MPI_INT, 0, world, next++));
    MPI_OK(MPI_Igatherv(&own, 1, MPI_INT, all[1], ones, places, MPI_INT, 0, world, next++));
    MPI_OK(MPI_Iscatter(other, 1, MPI_INT, &part, 1, MPI_INT, 0, world, next++));
    MPI_OK(MPI_Iscatterv(other, ones, places, MPI_INT, &varying, 1, MPI_INT, ranks - 1, world, next++));
    MPI_OK(MPI_Iallgather(&own, 1, MPI_INT, all[2], 1, MPI_INT, world, next++));
    MPI_OK(MPI_Iallgatherv(&own, 1, MPI_INT, all[3], ones, places, MPI_INT, world, next++));
    MPI_OK(MPI_Ialltoall(other, 1, MPI_INT, all[4], 1, MPI_INT, world, next++));
    MPI_OK(MPI_Ialltoallv(other, ones, places, MPI_INT, all[5], ones, places, MPI_INT, world, next++));
    MPI_OK(MPI_Ialltoallw(other, ones, bytes, types, all[6], ones, bytes, types, world, next++));
    MPI_OK(MPI_Ireduce(&own, &results[0], 1, MPI_INT, MPI_SUM, 0, world, next++));
    MPI_OK(MPI_Iallreduce(&own, &results[1], 1, MPI_INT, MPI_MAX, world, next++));
    MPI_OK(MPI_Ireduce_scatter(ones, &results[2], ones, MPI_INT, MPI_SUM, world, next++));
    MPI_OK(MPI_Ireduce_scatter_block(ones, &results[3], 1, MPI_INT, MPI_SUM, world, next++));
    MPI_OK(MPI_Iscan(&own, &results[4], 1, MPI_INT, MPI_SUM, world, next++));
    MPI_OK(MPI_Iexscan(&own, &results[5], 1, MPI_INT, MPI_SUM, world, next++));
    EQUAL(next - requests, CALLS);
    MPI_Status statuses[CALLS];
    MPI_OK(MPI_Waitall(CALLS, requests, statuses));
    EQUAL(told[1], 77);
    EQUAL(part, rank);
    EQUAL(varying, 10 * (ranks - 1) + rank);
    for (int which = 0; which < 4; which++)
        if (rank == 0 || which > 1) EQUAL(all[which][ranks - 1], ranks);
    for (int which = 4; which < 7; which++) EQUAL(all[which][ranks - 1], 10 * (ranks - 1) + rank);
    EQUAL(results[0], rank == 0 ? sum : -1);
    EQUAL(results[1], ranks);
    EQUAL(results[2], ranks);
    EQUAL(results[3], ranks);
    EQUAL(results[4], own * rank / 2 + own);
    if (rank > 0) EQUAL(results[5], own * rank / 2);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
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

    begun(world, own, sum, other, ones, places, bytes, types);

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
