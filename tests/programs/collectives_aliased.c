/* Collectives that are given one buffer to send from and to receive in. The arguments are what is tried of it:
 * "refused"  MPI finds the mistake, and says so to the rank that makes it;
 * "same"     what is received begins where what is sent does;
 * "shifted"  they have a part in common.
 * In the last two all get what they would if what is sent had been copied before. */
#include "check.h"

enum { MOST = 8, SHORT = 16, LONG = 70000, ROOT = 0 };

static int counts[MOST], places[MOST], bytes[MOST];
static MPI_Datatype types[MOST];

static const char *names[] = {"gather",   "gatherv",   "scatter",   "scatterv", "allgather",      "allgatherv",
                              "alltoall", "alltoallv", "alltoallw", "reduce",   "allreduce",      "reduce_scatter",
                              "reduce_scatter_block", "scan", "exscan"};
enum { GATHER, GATHERV, SCATTER, SCATTERV, ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, ALLTOALLW };
enum { REDUCE = ALLTOALLW + 1, ALLREDUCE, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, SCAN, EXSCAN, ALL };

static int waiting(int which, const void *in, void *out, int n) {
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Datatype type = MPI_INT;
    switch (which) {
        case GATHER: return MPI_Gather(in, n, type, out, n, type, ROOT, comm);
        case GATHERV: return MPI_Gatherv(in, n, type, out, counts, places, type, ROOT, comm);
        case SCATTER: return MPI_Scatter(in, n, type, out, n, type, ROOT, comm);
        case SCATTERV: return MPI_Scatterv(in, counts, places, type, out, n, type, ROOT, comm);
        case ALLGATHER: return MPI_Allgather(in, n, type, out, n, type, comm);
        case ALLGATHERV: return MPI_Allgatherv(in, n, type, out, counts, places, type, comm);
        case ALLTOALL: return MPI_Alltoall(in, n, type, out, n, type, comm);
        case ALLTOALLV: return MPI_Alltoallv(in, counts, places, type, out, counts, places, type, comm);
        case ALLTOALLW: return MPI_Alltoallw(in, counts, bytes, types, out, counts, bytes, types, comm);
        case REDUCE: return MPI_Reduce(in, out, n, type, MPI_SUM, ROOT, comm);
        case ALLREDUCE: return MPI_Allreduce(in, out, n, type, MPI_SUM, comm);
        case REDUCE_SCATTER: return MPI_Reduce_scatter(in, out, counts, type, MPI_SUM, comm);
        case REDUCE_SCATTER_BLOCK: return MPI_Reduce_scatter_block(in, out, n, type, MPI_SUM, comm);
        case SCAN: return MPI_Scan(in, out, n, type, MPI_SUM, comm);
        default: return MPI_Exscan(in, out, n, type, MPI_SUM, comm);
    }
}

static int begun(int which, const void *in, void *out, int n, MPI_Request *request) {
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Datatype type = MPI_INT;
    switch (which) {
        case GATHER: return MPI_Igather(in, n, type, out, n, type, ROOT, comm, request);
        case GATHERV: return MPI_Igatherv(in, n, type, out, counts, places, type, ROOT, comm, request);
        case SCATTER: return MPI_Iscatter(in, n, type, out, n, type, ROOT, comm, request);
        case SCATTERV: return MPI_Iscatterv(in, counts, places, type, out, n, type, ROOT, comm, request);
        case ALLGATHER: return MPI_Iallgather(in, n, type, out, n, type, comm, request);
        case ALLGATHERV: return MPI_Iallgatherv(in, n, type, out, counts, places, type, comm, request);
        case ALLTOALL: return MPI_Ialltoall(in, n, type, out, n, type, comm, request);
        case ALLTOALLV: return MPI_Ialltoallv(in, counts, places, type, out, counts, places, type, comm, request);
        case ALLTOALLW: return MPI_Ialltoallw(in, counts, bytes, types, out, counts, bytes, types, comm, request);
        case REDUCE: return MPI_Ireduce(in, out, n, type, MPI_SUM, ROOT, comm, request);
        case ALLREDUCE: return MPI_Iallreduce(in, out, n, type, MPI_SUM, comm, request);
        case REDUCE_SCATTER: return MPI_Ireduce_scatter(in, out, counts, type, MPI_SUM, comm, request);
        case REDUCE_SCATTER_BLOCK: return MPI_Ireduce_scatter_block(in, out, n, type, MPI_SUM, comm, request);
        case SCAN: return MPI_Iscan(in, out, n, type, MPI_SUM, comm, request);
        default: return MPI_Iexscan(in, out, n, type, MPI_SUM, comm, request);
    }
}

static int call(int which, int is_begun, const void *in, void *out, int n) {
    if (!is_begun) return waiting(which, in, out, n);
    MPI_Request request;
    int code = begun(which, in, out, n, &request);
    return code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
}

static int has_root(int which) { return which <= SCATTERV || which == REDUCE; }

/* How much this rank sends, and receives, where each has n integers for each. */
static int sent(int which, int n) {
    int is_for_each = (which >= ALLTOALL && which <= ALLTOALLW) || which == REDUCE_SCATTER ||
                      which == REDUCE_SCATTER_BLOCK;
    if (which == SCATTER || which == SCATTERV) return rank == ROOT ? n * ranks : 0;
    return is_for_each ? n * ranks : n;
}

static int received(int which, int n) {
    if (which == GATHER || which == GATHERV || which == REDUCE)
        return rank != ROOT ? 0 : which == REDUCE ? n : n * ranks;
    if (which == EXSCAN && rank == 0) return 0;
    return which >= ALLGATHER && which <= ALLTOALLW ? n * ranks : n;
}

/* Where the block that the rank has for itself lies in what it sends, and in what it receives. */
static int own_of_sent(int which, int n) { return which == SCATTER || which == SCATTERV ? rank * n : 0; }

static int own_of_received(int which, int n) {
    int is_one_of_many = which == GATHER || which == GATHERV || which == ALLGATHER || which == ALLGATHERV;
    return is_one_of_many ? rank * n : 0;
}

static void have(int n) {
    for (int i = 0; i < ranks; i++) {
        counts[i] = n, places[i] = i * n, bytes[i] = i * n * (int)sizeof(int), types[i] = MPI_INT;
    }
}

/* A call that receives so many integers behind what it sends, or before. */
static void taken(int which, int is_begun, int n, int behind) {
    static int memory[3 * MOST * LONG], apart[MOST * LONG], expected[MOST * LONG];
    char text[100];
    snprintf(text, sizeof text, "%s%s of %d, %d behind", is_begun ? "i" : "", names[which], n, behind);
    doing = text;
    int *in = memory + MOST * LONG, *out = in + behind;
    for (int i = 0; i < n * ranks; i++) in[i] = out[i] = -1;
    for (int i = 0; i < sent(which, n); i++) apart[i] = in[i] = rank * 1000 + which * 10 + i % 7;
    MPI_OK(call(which, is_begun, apart, expected, n));
    MPI_OK(call(which, is_begun, in, out, n));
    for (int i = 0; i < received(which, n); i++) EQUAL(out[i], expected[i]);
    doing = "";
}

static void refused(int which, int is_begun, int n) {
    static int memory[MOST * SHORT];
    if (has_root(which) && rank != ROOT) return;
    doing = names[which];
    const int *in = memory + own_of_received(which, n);
    int *out = memory + own_of_sent(which, n);
    EQUAL(class_of(call(which, is_begun, in, out, n)), MPI_ERR_BUFFER);
    doing = "";
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    HOLDS(ranks <= MOST);
    MPI_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int at = 1; at < argc; at++) {
        for (int of = 0; of < 2 * ALL; of++) {
            int which = of % ALL, is_begun = of / ALL;
            have(SHORT);
            if (strcmp(argv[at], "refused") == 0) {
                refused(which, is_begun, SHORT);
                continue;
            }
            int is_shifted = strcmp(argv[at], "shifted") == 0;
            HOLDS(is_shifted || strcmp(argv[at], "same") == 0);
            int lengths[] = {SHORT, LONG};
            for (int length = 0; length < 2; length++) {
                int n = lengths[length], behind[] = {-1, n / 2 + 1};
                have(n);
                if (!is_shifted) taken(which, is_begun, n, own_of_sent(which, n) - own_of_received(which, n));
                else
                    for (int i = 0; i < 2; i++) taken(which, is_begun, n, behind[i]);
            }
        }
    }
    /* Who was refused something can go on. */
    int own = 1, all = 0;
    MPI_OK(MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    EQUAL(all, ranks);
    if (rank == 0) printf("all aliases were right\n");
    MPI_Finalize();
    return 0;
}
