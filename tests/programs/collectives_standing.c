/* A rank is stopped from outside while the others wait for it in a collective; then all go on. */
#include <unistd.h>

#include "check.h"

static void use(MPI_Comm comm, int value) {
    int sum = -1;
    MPI_OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm));
    EQUAL(sum, ranks * value);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    use(MPI_COMM_WORLD, 3);
    if (rank == 1) {
        FILE *file = fopen("unfinished", "w");
        HOLDS(file != NULL && fprintf(file, "%d\n", (int)getpid()) > 0 && fclose(file) == 0);
        HOLDS(rename("unfinished", "process") == 0);
        while (access("goes-on", R_OK) != 0) usleep(1000);
    }
    use(MPI_COMM_WORLD, 5);
    MPI_Comm copy;
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    use(copy, 7);
    MPI_OK(MPI_Comm_free(&copy));
    if (rank == 0) printf("all went on\n");
    MPI_Finalize();
    return 0;
}
