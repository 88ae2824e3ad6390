/* Members of a communicator mix collectives with those for large counts: each collective once, in the one way by some, in the
 * other by the rest. */
#include "check.h"

enum { MOST = 8 };

static int is_large;

#define MIXED(name, plain, large) MPI_OK(is_large ? MPI_##name##_c large : MPI_##name plain)

int main(int argc, char **argv) {
    begin(&argc, &argv);
    HOLDS(ranks <= MOST);
    is_large = rank % 2;
    MPI_Comm world = MPI_COMM_WORLD;
    int own = rank + 1, sum = ranks * (ranks + 1) / 2, all[MOST], other[MOST], result;
    int ones[MOST], places[MOST], bytes[MOST];
    MPI_Count large_ones[MOST];
    MPI_Aint large_places[MOST], large_bytes[MOST];
    MPI_Datatype types[MOST];
    for (int i = 0; i < ranks; i++) {
        large_ones[i] = ones[i] = 1, large_places[i] = places[i] = i, types[i] = MPI_INT;
        large_bytes[i] = bytes[i] = i * (int)sizeof(int);
        other[i] = 10 * rank + i;
    }
    int last = ranks - 1, told = rank == last ? 77 : 0;
#define TELL(name, ...) MIXED(name, (&told, 1, MPI_INT, last, world __VA_ARGS__), (&told, 1, MPI_INT, last, world __VA_ARGS__))
    TELL(Bcast);
    EQUAL(told, 77);
#define BLOCKS(name, send, receive, ...)                                                                               \
    MIXED(name, (send, 1, MPI_INT, receive, 1, MPI_INT __VA_ARGS__, world),                                            \
          (send, 1, MPI_INT, receive, 1, MPI_INT __VA_ARGS__, world))
#define ALL_ARE(expected)                                                                                              \
    do {                                                                                                               \
        for (int i = 0; i < ranks; i++) EQUAL(all[i], expected);                                                       \
        memset(all, -1, sizeof all);                                                                                   \
    } while (0)
    BLOCKS(Gather, &own, all, , 0);
    if (rank == 0) ALL_ARE(i + 1);
    BLOCKS(Allgather, &own, all);
    ALL_ARE(i + 1);
    BLOCKS(Alltoall, other, all);
    ALL_ARE(10 * i + rank);
    BLOCKS(Scatter, other, &result, , last);
    EQUAL(result, 10 * last + rank);
    MIXED(Gatherv, (&own, 1, MPI_INT, all, ones, places, MPI_INT, 0, world),
          (&own, 1, MPI_INT, all, large_ones, large_places, MPI_INT, 0, world));
    if (rank == 0) ALL_ARE(i + 1);
    MIXED(Allgatherv, (&own, 1, MPI_INT, all, ones, places, MPI_INT, world),
          (&own, 1, MPI_INT, all, large_ones, large_places, MPI_INT, world));
    ALL_ARE(i + 1);
    MIXED(Scatterv, (other, ones, places, MPI_INT, &result, 1, MPI_INT, last, world),
          (other, large_ones, large_places, MPI_INT, &result, 1, MPI_INT, last, world));
    EQUAL(result, 10 * last + rank);
    MIXED(Alltoallv, (other, ones, places, MPI_INT, all, ones, places, MPI_INT, world),
          (other, large_ones, large_places, MPI_INT, all, large_ones, large_places, MPI_INT, world));
    ALL_ARE(10 * i + rank);
    MIXED(Alltoallw, (other, ones, bytes, types, all, ones, bytes, types, world),
          (other, large_ones, large_bytes, types, all, large_ones, large_bytes, types, world));
    ALL_ARE(10 * i + rank);
#define COMBINE(name, send, count, large_count, ...)                                                                   \
    MIXED(name, (send, &result, count, MPI_INT, MPI_SUM __VA_ARGS__, world),                                           \
          (send, &result, large_count, MPI_INT, MPI_SUM __VA_ARGS__, world))
    COMBINE(Reduce, &own, 1, 1, , 0);
    if (rank == 0) EQUAL(result, sum);
    COMBINE(Allreduce, &own, 1, 1);
    EQUAL(result, sum);
    COMBINE(Reduce_scatter, ones, ones, large_ones);
    EQUAL(result, ranks);
    COMBINE(Reduce_scatter_block, ones, 1, 1);
    EQUAL(result, ranks);
    COMBINE(Scan, &own, 1, 1);
    EQUAL(result, own * (own + 1) / 2);
    COMBINE(Exscan, &own, 1, 1);
    if (rank > 0) EQUAL(result, own * rank / 2);
    /* And one that does not block. */
    MPI_Request request;
    told = rank == last ? 78 : 0;
    TELL(Ibcast, , &request);
    MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EQUAL(told, 78);
    if (rank == 0) printf("all counts are right\n");
    MPI_Finalize();
    return 0;
}
