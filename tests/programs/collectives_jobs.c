/* The last rank is on a node of its own. The others make communicators of which none is within one that was made before:
   all with 2, 3 and 4 of them; then one of all. Each does collectives, whoever does them. Tells how many threads the
   first rank has more than before. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

static int threads(void) {
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    int count = 0;
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "Threads: %d", &count) == 1) break;
    if (status) fclose(status);
    return count;
}

/* Before MPI tells it. */
static int is_last(const char *last) {
    const char *told = getenv("PMI_RANK");
    if (!told) told = getenv("OMPI_COMM_WORLD_RANK");
    HOLDS(told);
    return !strcmp(told, last);
}

static void use(MPI_Comm comm, unsigned members) {
    unsigned all = 0, mine = 1u << rank;
    MPI_OK(MPI_Allreduce(&mine, &all, 1, MPI_UNSIGNED, MPI_BOR, comm));
    EQUAL(all, members);
}

int main(int argc, char **argv) {
    HOLDS(argc == 2);
    if (is_last(argv[1])) setenv("SVMIO_NODE", "apart", 1);
    begin(&argc, &argv);
    int before = threads(), together = ranks - 1;
    MPI_Group world;
    MPI_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    for (int few = 2; few <= 4; few++)
        for (unsigned members = 0; members < 1u << together; members++) {
            if (__builtin_popcount(members) != few || !(members >> rank & 1)) continue;
            int chosen[32], count = 0;
            for (int i = 0; i < together; i++)
                if (members >> i & 1) chosen[count++] = i;
            MPI_Group group;
            MPI_Comm comm;
            MPI_OK(MPI_Group_incl(world, count, chosen, &group));
            MPI_OK(MPI_Comm_create_group(MPI_COMM_WORLD, group, (int)members, &comm));
            use(comm, members);
            use(comm, members);
            MPI_OK(MPI_Comm_free(&comm));
            MPI_OK(MPI_Group_free(&group));
        }
    use(MPI_COMM_WORLD, (1u << ranks) - 1);
    MPI_OK(MPI_Group_free(&world));
    if (rank == 0) printf("all members are right; threads more: %d\n", threads() - before);
    MPI_Finalize();
    return 0;
}
