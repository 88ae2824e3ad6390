/* A collective of a communicator that was freed: the handler of MPI_COMM_WORLD and MPI_COMM_SELF is called once, with
 * what MPI says of the function that the program has called; and is there afterwards. */
#include "check.h"

static int calls;
static char told[MPI_MAX_ERROR_STRING];

static void hear(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    int length;
    PMPI_Error_string(*code, told, &length);
    calls++;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Errhandler handler;
    MPI_OK(MPI_Comm_create_errhandler(hear, &handler));
    MPI_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler));
    MPI_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, handler));
    MPI_OK(MPI_Errhandler_free(&handler));
    MPI_Comm comm, freed;
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    freed = comm;
    MPI_OK(MPI_Comm_free(&comm));
    for (int turn = 1; turn <= 3; turn++) {
        int value = 0;
        /* What it returns, MPICHs differ in. */
        MPI_Bcast(&value, 1, MPI_INT, 0, freed);
        EQUAL(calls, turn);
        CHECK(!strstr(told, "attr"), "%s", told);
    }
    if (rank == 0) printf("told %d times: %s\n", calls, told);
    MPI_Finalize();
    return 0;
}
