/* Collectives that do not block, as programs use them: many at a time, of several communicators, completed in any order;
 * with others that block in between, differently on each rank; with buffers whose datatypes, and communicators, are freed
 * before they are complete; and depending on nothing that the program does meanwhile. */
#include "check.h"
#include "random.h"

enum { MANY = 40, LONG = 50000 };

/* Each rank completes them in an order of its own, and does things that block between. */
static void in_any_order(uint64_t seed) {
    struct random own = {seed + 977u * (unsigned)rank};
    MPI_Comm comms[2];
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]));
    MPI_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[1]));
    MPI_OK(MPI_Barrier(comms[0]));
    MPI_OK(MPI_Barrier(comms[1]));
    MPI_Request requests[MANY];
    static int sums[MANY], given[MANY], told[MANY][LONG];
    for (int i = 0; i < MANY; i++) {
        MPI_Comm comm = comms[i % 2];
        given[i] = rank + i;
        if (i % 4 < 2) {
            MPI_OK(MPI_Iallreduce(&given[i], &sums[i], 1, MPI_INT, MPI_SUM, comm, &requests[i]));
        } else {
            int place;
            MPI_OK(MPI_Comm_rank(comm, &place));
            for (int at = 0; at < LONG; at++) told[i][at] = place == i % ranks ? i + at : -1;
            MPI_OK(MPI_Ibcast(told[i], LONG, MPI_INT, i % ranks, comm, &requests[i]));
        }
        if (between(&own, 0, 9) == 0) {
            int is_done;
            MPI_OK(MPI_Test(&requests[between(&own, 0, i)], &is_done, MPI_STATUS_IGNORE));
        }
        /* The same on all ranks. */
        if (i % 13 == 5) MPI_OK(MPI_Barrier(comm));
    }
    for (int left = MANY; left > 0;) {
        int which = between(&own, 0, MANY - 1);
        while (requests[which] == MPI_REQUEST_NULL && left > 0) {
            which = (which + 1) % MANY;
            int is_null = 1;
            for (int i = 0; i < MANY; i++) is_null &= requests[i] == MPI_REQUEST_NULL;
            if (is_null) left = 0;
        }
        if (left > 0) MPI_OK(MPI_Wait(&requests[which], MPI_STATUS_IGNORE));
    }
    for (int i = 0; i < MANY; i++) {
        if (i % 4 < 2) EQUAL(sums[i], ranks * (ranks - 1) / 2 + ranks * i);
        else EQUAL(told[i][LONG - 1], i + LONG - 1);
    }
    MPI_OK(MPI_Comm_free(&comms[0]));
    MPI_OK(MPI_Comm_free(&comms[1]));
}

/* What MPI has as long as it needs it, the program may free at once. */
static void of_what_is_freed(void) {
    MPI_Comm comm;
    MPI_Datatype every_other;
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MPI_OK(MPI_Barrier(comm));
    MPI_OK(MPI_Type_vector(1000, 1, 2, MPI_INT, &every_other));
    MPI_OK(MPI_Type_commit(&every_other));
    static int data[2000];
    for (int i = 0; i < 2000; i++) data[i] = rank == 0 ? i : -1;
    MPI_Request request;
    MPI_OK(MPI_Ibcast(data, 1, every_other, 0, comm, &request));
    MPI_OK(MPI_Type_free(&every_other));
    MPI_OK(MPI_Comm_free(&comm));
    MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < 2000; i++) EQUAL(data[i], rank == 0 || i % 2 == 0 ? i : -1);
}

/* A rank that has begun, and does nothing of MPI's for others to go on by, holds up nobody. */
static void without_calls(void) {
    static int data[LONG], sums[LONG];
    for (int i = 0; i < LONG; i++) data[i] = i + rank;
    MPI_Request request;
    int token = rank, next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks, from = -1;
    MPI_OK(MPI_Iallreduce(data, sums, LONG, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    if (rank > 0) {
        MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        MPI_OK(MPI_Send(&token, 1, MPI_INT, 0, 3, MPI_COMM_WORLD));
    } else {
        /* The others send when they are through, and need this rank's data for that. */
        for (int i = 1; i < ranks; i++)
            MPI_OK(MPI_Recv(&from, 1, MPI_INT, i, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    EQUAL(sums[LONG - 1], ranks * (LONG - 1) + ranks * (ranks - 1) / 2);

    /* A rank waits for the collective that others come to when it has taken their messages, which are long. */
    static char sent[300000], received[300000];
    MPI_Request requests[2];
    MPI_OK(MPI_Irecv(received, sizeof received, MPI_CHAR, last, 4, MPI_COMM_WORLD, &requests[0]));
    if (rank > 0) MPI_OK(MPI_Send(sent, sizeof sent, MPI_CHAR, next, 4, MPI_COMM_WORLD));
    MPI_OK(MPI_Ibarrier(MPI_COMM_WORLD, &requests[1]));
    if (rank == 0) MPI_OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    if (rank == 0) MPI_OK(MPI_Send(sent, sizeof sent, MPI_CHAR, next, 4, MPI_COMM_WORLD));
    MPI_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    for (uint64_t seed = 1; seed <= 20; seed++) in_any_order(seed);
    for (int round = 0; round < 20; round++) of_what_is_freed();
    for (int round = 0; round < 20; round++) without_calls();
    if (rank == 0) printf("all that was begun is right\n");
    MPI_Finalize();
    return 0;
}
