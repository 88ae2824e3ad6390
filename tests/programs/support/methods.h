/* Every way in which MPI-3.1 moves data between a buffer and a place that the caller chooses: with explicit offsets
 * and with individual file pointers; blocking, nonblocking, collective, split, nonblocking collective. */
#ifndef METHODS_H
#define METHODS_H

#include <mpi.h>

enum pointer { EXPLICIT, INDIVIDUAL };

typedef int writer(MPI_File, MPI_Offset, const void *, int, MPI_Datatype, MPI_Status *);
typedef int reader(MPI_File, MPI_Offset, void *, int, MPI_Datatype, MPI_Status *);

/* `offset` is in etypes of the view. Those with the individual pointer seek there first. */
struct method {
    const char *name;
    enum pointer pointer;
    int is_collective;
    writer *write;
    reader *read;
};

extern const struct method methods[];
extern const int method_count;

#endif
