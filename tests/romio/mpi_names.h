/* Included ahead of ROMIO's test programs when they are built outside MPICH's own tree.
 *
 * They use names that later versions of the standard dropped. Every MPI library tested here still
 * has what stands behind them; some headers no longer say so. */

#include <mpi.h>

#ifndef MPIO_Request
#define MPIO_Request MPI_Request
#define MPIO_Wait MPI_Wait
#define MPIO_Test MPI_Test
#endif

#ifndef MPIO_USES_MPI_REQUEST
#define MPIO_USES_MPI_REQUEST
#endif

/* Open MPI's mpi.h replaces these two by an error message; the library exports both objects. */
#ifdef OPEN_MPI
extern struct ompi_predefined_datatype_t ompi_mpi_lb;
extern struct ompi_predefined_datatype_t ompi_mpi_ub;
#undef MPI_LB
#undef MPI_UB
#define MPI_LB ((MPI_Datatype) &ompi_mpi_lb)
#define MPI_UB ((MPI_Datatype) &ompi_mpi_ub)
#endif
