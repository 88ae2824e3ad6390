/* A rank cannot do its part of a collective, as of a datatype that was not committed: all hear of it, and who it is.
 * The argument is how the ranks come to the collective. A second one is "row" where the datatype's data lies in one, or
 * "nodes" where messages tell it, which do not carry the reason. */
#include "check.h"

enum { MEMBER = 1 };

static int by_messages;

/* What an error says names the rank, or is the rank's own. */
static void told(int code) {
    HOLDS(code != MPI_SUCCESS);
    char text[MPI_MAX_ERROR_STRING], name[64];
    int length;
    MPI_Error_string(code, text, &length);
    const char *who = by_messages ? "rank %d on node" : "member %d does no more operations";
    snprintf(name, sizeof name, who, MEMBER);
    CHECK(rank == MEMBER || strstr(text, name) != NULL, "rank %d is told: %s", rank, text);
    int has_reason = rank == MEMBER || !by_messages;
    CHECK(!has_reason || strstr(text, "MPI_Pack failed") != NULL, "rank %d is told: %s", rank, text);
}

static void add(void *left, void *sum, int *count, MPI_Datatype *type) {
    int size;
    MPI_Type_size(*type, &size);
    for (int i = 0; i < *count * size / (int)sizeof(int); i++) ((int *)sum)[i] += ((int *)left)[i];
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    by_messages = argc == 3 && strcmp(argv[2], "nodes") == 0;
    int is_row = argc == 3 && strcmp(argv[2], "row") == 0;
    HOLDS(argc == 2 || by_messages || is_row);
    int is_begun = strcmp(argv[1], "begun") == 0, is_combining = strcmp(argv[1], "combining") == 0;
    HOLDS(is_begun || is_combining || strcmp(argv[1], "waiting") == 0);
    MPI_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_Datatype pieces;
    MPI_OK(MPI_Type_vector(10, 1, is_row ? 1 : 2, MPI_INT, &pieces));
    if (rank != MEMBER) MPI_OK(MPI_Type_commit(&pieces));
    int own[20] = {rank}, all[1000];
    HOLDS(ranks * 10 <= 1000);
    /* What others have begun has to end, too, if they were not told when they began it. */
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_SUCCESS;
    if (rank != MEMBER || is_begun) {
        MPI_Datatype type = is_begun ? pieces : MPI_INT;
        code = MPI_Iallgather(own, is_begun ? 1 : 10, type, all, 10, MPI_INT, MPI_COMM_WORLD, &request);
    }
    if (is_combining) {
        MPI_Op sum;
        MPI_OK(MPI_Op_create(add, 1, &sum));
        told(MPI_Allreduce(own, all, 1, pieces, sum, MPI_COMM_WORLD));
        MPI_OK(MPI_Op_free(&sum));
    } else if (!is_begun) {
        told(MPI_Allgather(own, 1, pieces, all, 10, MPI_INT, MPI_COMM_WORLD));
    }
    if (code == MPI_SUCCESS && rank != MEMBER) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank != MEMBER || is_begun) told(code);
    /* And so do all that follow. */
    told(MPI_Allgather(own, 10, MPI_INT, all, 10, MPI_INT, MPI_COMM_WORLD));
    told(MPI_Iallgather(own, 10, MPI_INT, all, 10, MPI_INT, MPI_COMM_WORLD, &request));
    MPI_OK(MPI_Type_free(&pieces));
    printf("rank %d was told\n", rank);
    MPI_Finalize();
    return 0;
}
