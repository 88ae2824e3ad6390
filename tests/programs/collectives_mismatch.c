/* A rank is sent more than it asks for, over MPI's messages: the communicator's error handler gets MPI's own code. */
#include "check.h"

static int handled;

static void handle(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    handled = *code;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    EQUAL(ranks, 2);
    MPI_Errhandler handler;
    MPI_OK(MPI_Comm_create_errhandler(handle, &handler));
    MPI_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    int data[20] = {0};
    int code = MPI_Bcast(data, rank == 0 ? 20 : 10, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 1) {
        int class;
        MPI_OK(MPI_Error_class(code, &class));
        EQUAL(class, MPI_ERR_TRUNCATE);
        EQUAL(handled, code);
        printf("the error was MPI's own\n");
        fflush(stdout);
    } else {
        EQUAL(code, MPI_SUCCESS);
    }
    MPI_Finalize();
    return 0;
}
