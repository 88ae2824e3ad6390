/* Several threads of each rank do collectives at once, each of a communicator of its own: those that block, and those that
 * do not, several at a time, completed in any order. */
#include <pthread.h>

#include "check.h"
#include "random.h"

enum { THREADS = 3, MANY = 6, LONG = 20000 };

struct lane {
    MPI_Comm comm;
    int number, rounds;
};

static void block(const struct lane *lane, int round, int *data) {
    int sum = -1, root = round % ranks;
    MPI_OK(MPI_Allreduce(&round, &sum, 1, MPI_INT, MPI_SUM, lane->comm));
    EQUAL(sum, round * ranks);
    for (int i = 0; i < LONG; i++) data[i] = rank == root ? lane->number + round + i : -1;
    MPI_OK(MPI_Bcast(data, LONG, MPI_INT, root, lane->comm));
    EQUAL(data[0], lane->number + round);
    EQUAL(data[LONG - 1], lane->number + round + LONG - 1);
}

static void begin_many(const struct lane *lane, struct random *own, int round, int (*data)[LONG]) {
    MPI_Request requests[MANY];
    int given[MANY], sums[MANY], left = MANY;
    for (int i = 0; i < MANY; i++) {
        int root = (round + i) % ranks;
        given[i] = round + i;
        for (int at = 0; at < LONG; at++) data[i][at] = rank == root ? lane->number + i + at : -1;
        if (i % 3 == 0) MPI_OK(MPI_Iallreduce(&given[i], &sums[i], 1, MPI_INT, MPI_SUM, lane->comm, &requests[i]));
        else if (i % 3 == 1) MPI_OK(MPI_Ibcast(data[i], LONG, MPI_INT, root, lane->comm, &requests[i]));
        else MPI_OK(MPI_Ibarrier(lane->comm, &requests[i]));
    }
    /* One that blocks, before those are complete. */
    if (round % 2) MPI_OK(MPI_Barrier(lane->comm));
    while (left > 0) {
        int which = between(own, 0, MANY - 1), is_done = 0;
        if (requests[which] == MPI_REQUEST_NULL) continue;
        if (between(own, 0, 1)) {
            MPI_OK(MPI_Wait(&requests[which], MPI_STATUS_IGNORE));
            is_done = 1;
        } else {
            MPI_OK(MPI_Test(&requests[which], &is_done, MPI_STATUS_IGNORE));
        }
        left -= is_done;
    }
    for (int i = 0; i < MANY; i++) {
        if (i % 3 == 0) EQUAL(sums[i], (round + i) * ranks);
        else if (i % 3 == 1) EQUAL(data[i][LONG - 1], lane->number + i + LONG - 1);
    }
}

static void *run(void *argument) {
    const struct lane *lane = argument;
    struct random own = {77u * (unsigned)rank + (unsigned)lane->number};
    int(*data)[LONG] = malloc(sizeof(int) * MANY * LONG);
    HOLDS(data != NULL);
    for (int round = 0; round < lane->rounds; round++) {
        block(lane, round, data[0]);
        begin_many(lane, &own, round, data);
    }
    free(data);
    return NULL;
}

int main(int argc, char **argv) {
    int provided = MPI_THREAD_SINGLE;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    EQUAL(provided, MPI_THREAD_MULTIPLE);
    EQUAL(argc, 2);
    pthread_t threads[THREADS];
    struct lane lanes[THREADS];
    /* Here all agree after how many collectives there are groups. */
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < THREADS; i++) {
        lanes[i] = (struct lane){.number = 1000 * i, .rounds = atoi(argv[1])};
        MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &lanes[i].comm));
        /* Those that do not block are MPI's own as long as no other has been called. */
        if (i > 0) MPI_OK(MPI_Barrier(lanes[i].comm));
    }
    for (int i = 0; i < THREADS; i++) EQUAL(pthread_create(&threads[i], NULL, run, &lanes[i]), 0);
    for (int i = 0; i < THREADS; i++) EQUAL(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < THREADS; i++) MPI_OK(MPI_Comm_free(&lanes[i].comm));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) printf("all threads were right\n");
    MPI_Finalize();
    return 0;
}
