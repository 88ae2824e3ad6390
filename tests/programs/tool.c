/* To be preloaded: a tool that stands between a program and MPI, and tells what it has heard of. */
#include <mpi.h>
#include <stdio.h>

int MPI_Init(int *argc, char ***argv) {
    fprintf(stderr, "tool: init\n");
    return PMPI_Init(argc, argv);
}

int MPI_File_open(MPI_Comm comm, const char *name, int mode, MPI_Info info, MPI_File *file) {
    fprintf(stderr, "tool: open %s\n", name);
    return PMPI_File_open(comm, name, mode, info, file);
}

int MPI_File_close(MPI_File *file) {
    fprintf(stderr, "tool: close\n");
    return PMPI_File_close(file);
}

int MPI_File_delete(const char *name, MPI_Info info) {
    fprintf(stderr, "tool: delete %s\n", name);
    return PMPI_File_delete(name, info);
}

int MPI_Barrier(MPI_Comm comm) {
    fprintf(stderr, "tool: barrier\n");
    return PMPI_Barrier(comm);
}

int MPI_Finalize(void) {
    /* Tools put together their reports by collectives. */
    int own = 1, sum = 0;
    PMPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    fprintf(stderr, "tool: report of %d\n", sum);
    return PMPI_Finalize();
}
