/* Rank 0 is in MPI_Finalize, and sleeps there, before the others begin with theirs; until then these poll. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The state of a process, as in /proc/PID/stat, after the name in parentheses. */
static char state_of(int pid)
{
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *stat = fopen(path, "r");
    if (!stat || fscanf(stat, "%*d (%*[^)]) %c", &state) != 1) {
        perror(path);
        exit(1);
    }
    fclose(stat);
    return state;
}

int main(int count, char **words)
{
    MPI_Init(&count, &words);
    int rank, size, first = getpid();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Bcast(&first, 1, MPI_INT, 0, MPI_COMM_WORLD);

    /* Everyone sends to everyone, so that every connection has something to flush. */
    int *sent = calloc(size, sizeof *sent), *received = calloc(size, sizeof *received);
    MPI_Alltoall(sent, 1, MPI_INT, received, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);

    /* Seen asleep several times, as it may be for a moment before. */
    int there = 0;
    for (int asleep = 0; rank != 0 && asleep < 20; asleep = state_of(first) == 'S' ? asleep + 1 : 0)
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    MPI_Finalize();
    printf("rank %d ends\n", rank);
    return 0;
}
