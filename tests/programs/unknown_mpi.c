/* A library to be preloaded: the MPI that it stands before says that it is a release which nobody knows yet. */
#include <mpi.h>
#include <string.h>

#ifdef OPEN_MPI
static const char version[] = "Open MPI v9.9.9, package: made up";
#else
static const char version[] = "MPICH Version:\t9.9.9";
#endif

int PMPI_Get_library_version(char *text, int *length) {
    int is_initialized;
    /* So that the real library is found by way of this one. */
    PMPI_Initialized(&is_initialized);
    strcpy(text, version);
    *length = sizeof version - 1;
    return MPI_SUCCESS;
}

int MPI_Get_library_version(char *text, int *length) { return PMPI_Get_library_version(text, length); }
