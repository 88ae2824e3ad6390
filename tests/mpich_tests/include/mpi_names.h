/* Included ahead of MPICH's tests when they are built outside MPICH's own tree.
 *
 * Their pools of datatypes use constructors that later versions of the standard dropped, and that Open MPI's mpi.h
 * replaces by an error message. In C the later ones take the same arguments. */

#include "../../romio/mpi_names.h"

#ifdef OPEN_MPI
#undef MPI_Type_hvector
#undef MPI_Type_hindexed
#define MPI_Type_hvector MPI_Type_create_hvector
#define MPI_Type_hindexed MPI_Type_create_hindexed
#endif

#ifdef REMOVE_BY_MPI
#include <unistd.h>
#define unlink(name) MPI_File_delete(name, MPI_INFO_NULL)
#endif
