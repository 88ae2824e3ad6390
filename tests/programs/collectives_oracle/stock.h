/* MPI's own collectives, also where a preloaded library has others under both of their names. */
#ifndef STOCK_H
#define STOCK_H

#include <mpi.h>

#define COLLECTIVES(each)                                                                                     \
    each(Barrier) each(Bcast) each(Gather) each(Gatherv) each(Scatter) each(Scatterv) each(Allgather)         \
        each(Allgatherv) each(Alltoall) each(Alltoallv) each(Alltoallw) each(Reduce) each(Allreduce)          \
            each(Reduce_scatter) each(Reduce_scatter_block) each(Scan) each(Exscan)

#define DECLARED(name) __typeof__(&MPI_##name) name;
struct collectives {
    COLLECTIVES(DECLARED)
};

/* Those that the program calls by name; the same done by those that do not block, whose requests are completed in some way
 * or other; and MPI's own. */
extern const struct collectives named, begun;
extern struct collectives stock;

/* Which of the first two are tried. */
extern const struct collectives *tried;

/* Only MPI's own are called. */
extern int alone;

/* Finds MPI's own. */
void find_stock(void);

#endif
