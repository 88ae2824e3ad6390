/* Barriers hold every rank until the last has come: of all ranks, and of two halves at the same time; each rank is late in
 * turn. Who waits in one goes on with messages that others wait for. The arguments are a file for what the ranks share, and
 * the number of rounds. */
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

/* How many turns of the others a rank is late. */
enum { LENGTH = 1 << 22, LATE = 20 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
    EQUAL(argc, 3);
    int rounds = atoi(argv[2]), fd = open(argv[1], O_RDWR | O_CREAT, 0600);
    HOLDS(fd >= 0 && ftruncate(fd, 4096) == 0 && ranks >= 2);
    atomic_int *come = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    HOLDS(come != MAP_FAILED);
    atomic_int *left = &come[48];
    MPI_Comm half;
    MPI_OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half));
    int members;
    MPI_OK(MPI_Comm_size(half, &members));
    for (int round = 1; round <= rounds; round++) {
        if (round % ranks == rank) {
            while (atomic_load(&come[0]) < round * ranks - 1) sched_yield();
            for (int turn = 0; turn < LATE; turn++) {
                HOLDS(atomic_load(left) <= (round - 1) * ranks);
                sched_yield();
            }
        }
        atomic_fetch_add_explicit(&come[0], 1, memory_order_relaxed);
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
        HOLDS(atomic_load_explicit(&come[0], memory_order_relaxed) >= round * ranks);
        atomic_fetch_add(left, 1);
        atomic_int *of_half = &come[16 + 16 * (rank % 2)];
        atomic_fetch_add_explicit(of_half, 1, memory_order_relaxed);
        MPI_OK(MPI_Barrier(half));
        HOLDS(atomic_load_explicit(of_half, memory_order_relaxed) >= round * members);
    }
    /* Long enough for MPI to have both sides at it. */
    char *message = calloc(LENGTH, 1);
    HOLDS(message != NULL);
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank == 0) {
        memset(message, 7, LENGTH);
        MPI_OK(MPI_Isend(message, LENGTH, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &request));
    }
    if (rank == 1) MPI_OK(MPI_Recv(message, LENGTH, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    HOLDS(rank > 1 || (message[0] == 7 && message[LENGTH - 1] == 7));
    int sum = 0;
    MPI_OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    EQUAL(sum, ranks * (ranks - 1) / 2);
    MPI_OK(MPI_Comm_free(&half));
    free(message);
    if (rank == 0) printf("all barriers held\n");
    MPI_Finalize();
    return 0;
}
