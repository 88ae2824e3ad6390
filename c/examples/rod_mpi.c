/* A file that ranks of MPI write by MPI-IO, change as memory, and read by MPI-IO again. */
#include <mpi.h>
#include <stdio.h>
#include <svmio.h>

enum { CELLS = 30000 };

/* By this svmio's ranks tell each other what they need to. */
static int all_gather(void *comm, const void *own, size_t length, void *all) {
    int bytes = (int)length;
    return MPI_Allgather(own, bytes, MPI_BYTE, all, bytes, MPI_BYTE, *(MPI_Comm *)comm) != MPI_SUCCESS;
}

static void check(int status) {
    if (status != SVM_SUCCESS) {
        fprintf(stderr, "%s\n", svm_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static double cells[CELLS];

int main(int argc, char **argv) {
    int rank, size, wrong = 0;
    MPI_File file;
    MPI_Init(&argc, &argv);
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm); /* svmio's own */
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    svm_exchange exchange = {sizeof exchange, rank, size, all_gather, &comm};
    check(svm_init_with(&exchange));

    MPI_File_open(MPI_COMM_WORLD, "svm:/rod", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_File_set_errhandler(file, MPI_ERRORS_ARE_FATAL);
    for (int cell = 0; cell < CELLS; cell++)
        cells[cell] = rank * CELLS + cell;
    MPI_Offset own = (MPI_Offset)rank * sizeof cells;
    MPI_File_write_at_all(file, own, cells, CELLS, MPI_DOUBLE, MPI_STATUS_IGNORE);
    MPI_File_sync(file); /* sync, barrier, and then the others may read it: svm_map is both */

    void *address;
    check(svm_map("svm:/rod", SVM_WRITE, 0, (size_t)size * sizeof cells, NULL, &address));
    double *all = address;
    /* Each rank negates every size-th cell of the whole rod. */
    for (int cell = rank; cell < size * CELLS; cell += size)
        all[cell] = -all[cell];
    check(svm_barrier(all)); /* all have stored, and see what all have */
    for (int cell = 0; cell < size * CELLS; cell++)
        wrong += all[cell] != -cell;

    MPI_File_sync(file); /* what others have stored is seen by MPI-IO, too */
    MPI_File_read_at_all(file, own, cells, CELLS, MPI_DOUBLE, MPI_STATUS_IGNORE);
    for (int cell = 0; cell < CELLS; cell++)
        wrong += cells[cell] != -(rank * CELLS + cell);

    check(svm_unmap(all));
    MPI_File_close(&file);
    check(svm_finalize());
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks, %d wrong cells\n", size, wrong);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return wrong != 0;
}
