/* Collectives that do not block, as if they did. */
#include "check.h"
#include "random.h"
#include "stock.h"

static struct random ways = {1};

/* Completes a request as programs do, one among others or alone. */
static int complete(int code, MPI_Request request) {
    if (code != MPI_SUCCESS) return code;
    MPI_Request requests[3] = {MPI_REQUEST_NULL, request, MPI_REQUEST_NULL};
    char token = 0;
    int is_done = 0, which = 0, left = 1, indices[3];
    int way = between(&ways, 0, 8), has_others = way >= 4 && between(&ways, 0, 1);
    if (has_others) {
        MPI_OK(MPI_Irecv(&token, 1, MPI_CHAR, 0, 9, MPI_COMM_SELF, &requests[0]));
        MPI_OK(MPI_Isend(&way, 1, MPI_CHAR, 0, 9, MPI_COMM_SELF, &requests[2]));
        left = 3;
    }
    switch (way) {
        case 0:
        case 1: return MPI_Wait(&request, MPI_STATUS_IGNORE);
        case 2:
            while (!is_done && code == MPI_SUCCESS) code = MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
            EQUAL(request == MPI_REQUEST_NULL, 1);
            return code;
        case 3:
            while (!is_done) MPI_OK(MPI_Request_get_status(request, &is_done, MPI_STATUS_IGNORE));
            return MPI_Wait(&request, MPI_STATUS_IGNORE);
        case 4: return MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
        case 5:
            while (!is_done && code == MPI_SUCCESS) code = MPI_Testall(3, requests, &is_done, MPI_STATUSES_IGNORE);
            return code;
        case 6:
            for (; left > 0 && code == MPI_SUCCESS; left--) {
                code = MPI_Waitany(3, requests, &which, MPI_STATUS_IGNORE);
                EQUAL(which != MPI_UNDEFINED, 1);
            }
            return code;
        case 7:
            while (left > 0 && code == MPI_SUCCESS) {
                code = MPI_Waitsome(3, requests, &which, indices, MPI_STATUSES_IGNORE);
                EQUAL(which > 0, 1);
                left -= which;
            }
            return code;
        default:
            while (left > 0 && code == MPI_SUCCESS) {
                code = MPI_Testany(3, requests, &which, &is_done, MPI_STATUS_IGNORE);
                left -= is_done;
            }
            return code;
    }
}

#define BEGUN(name, function, parameters, ...)                                                                \
    static int name parameters {                                                                              \
        MPI_Request request;                                                                                  \
        int code = function(__VA_ARGS__, &request);                                                           \
        return complete(code, request);                                                                       \
    }
#define IN const void *in, int sent, MPI_Datatype from
#define OUT void *out, int received, MPI_Datatype to
#define ROOT int root, MPI_Comm comm
#define COMBINED const void *in, void *out, int count, MPI_Datatype type, MPI_Op op

BEGUN(barrier, MPI_Ibarrier, (MPI_Comm comm), comm)
BEGUN(bcast, MPI_Ibcast, (OUT, ROOT), out, received, to, root, comm)
BEGUN(gather, MPI_Igather, (IN, OUT, ROOT), in, sent, from, out, received, to, root, comm)
BEGUN(scatter, MPI_Iscatter, (IN, OUT, ROOT), in, sent, from, out, received, to, root, comm)
BEGUN(allgather, MPI_Iallgather, (IN, OUT, MPI_Comm comm), in, sent, from, out, received, to, comm)
BEGUN(alltoall, MPI_Ialltoall, (IN, OUT, MPI_Comm comm), in, sent, from, out, received, to, comm)
BEGUN(gatherv, MPI_Igatherv, (IN, void *out, const int *counts, const int *places, MPI_Datatype to, ROOT), in, sent,
      from, out, counts, places, to, root, comm)
BEGUN(scatterv, MPI_Iscatterv, (const void *in, const int *counts, const int *places, MPI_Datatype from, OUT, ROOT), in,
      counts, places, from, out, received, to, root, comm)
BEGUN(allgatherv, MPI_Iallgatherv,
      (IN, void *out, const int *counts, const int *places, MPI_Datatype to, MPI_Comm comm), in, sent, from, out,
      counts, places, to, comm)
BEGUN(alltoallv, MPI_Ialltoallv,
      (const void *in, const int *sent, const int *sent_places, MPI_Datatype from, void *out, const int *received,
       const int *received_places, MPI_Datatype to, MPI_Comm comm),
      in, sent, sent_places, from, out, received, received_places, to, comm)
BEGUN(alltoallw, MPI_Ialltoallw,
      (const void *in, const int *sent, const int *sent_places, const MPI_Datatype *from, void *out,
       const int *received, const int *received_places, const MPI_Datatype *to, MPI_Comm comm),
      in, sent, sent_places, from, out, received, received_places, to, comm)
BEGUN(reduce, MPI_Ireduce, (COMBINED, ROOT), in, out, count, type, op, root, comm)
BEGUN(allreduce, MPI_Iallreduce, (COMBINED, MPI_Comm comm), in, out, count, type, op, comm)
BEGUN(reduce_scatter, MPI_Ireduce_scatter,
      (const void *in, void *out, const int *counts, MPI_Datatype type, MPI_Op op, MPI_Comm comm), in, out, counts,
      type, op, comm)
BEGUN(reduce_scatter_block, MPI_Ireduce_scatter_block, (COMBINED, MPI_Comm comm), in, out, count, type, op, comm)
BEGUN(scan, MPI_Iscan, (COMBINED, MPI_Comm comm), in, out, count, type, op, comm)
BEGUN(exscan, MPI_Iexscan, (COMBINED, MPI_Comm comm), in, out, count, type, op, comm)

const struct collectives begun = {
    .Barrier = barrier,
    .Bcast = bcast,
    .Gather = gather,
    .Gatherv = gatherv,
    .Scatter = scatter,
    .Scatterv = scatterv,
    .Allgather = allgather,
    .Allgatherv = allgatherv,
    .Alltoall = alltoall,
    .Alltoallv = alltoallv,
    .Alltoallw = alltoallw,
    .Reduce = reduce,
    .Allreduce = allreduce,
    .Reduce_scatter = reduce_scatter,
    .Reduce_scatter_block = reduce_scatter_block,
    .Scan = scan,
    .Exscan = exscan,
};
