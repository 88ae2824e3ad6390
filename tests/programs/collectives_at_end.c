/* A collective of an attribute of MPI_COMM_SELF that goes, at the end of MPI: the ranks have set it before and after their
 * first other one. */
#include "check.h"

static int goes(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)value, (void)extra;
    int own = 1, sum = 0;
    MPI_OK(MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    EQUAL(sum, ranks);
    if (rank == 0) printf("all met at the end\n");
    return MPI_SUCCESS;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int key;
    MPI_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, goes, &key, NULL));
    if (rank == 0) MPI_OK(MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank != 0) MPI_OK(MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL));
    MPI_Finalize();
    return 0;
}
