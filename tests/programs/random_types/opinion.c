#include "opinion.h"

#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>

int asks_mpi;
/* How often it was asked, and disagreed or crashed. */
static uint64_t asked, wrong;

static sigjmp_buf before;
static struct sigaction usual;

static void give_up(int signal) {
    (void)signal;
    siglongjmp(before, 1);
}

/* Until `stop_guarding`, who divides by zero goes back to where `before` was set. */
static void guard(void) {
    struct sigaction action = {.sa_handler = give_up};
    HOLDS(sigaction(SIGFPE, &action, &usual) == 0);
}

static void stop_guarding(void) { HOLDS(sigaction(SIGFPE, &usual, NULL) == 0); }

void ask_for_packing(const void *base, int count, MPI_Datatype type, const unsigned char *expected, MPI_Aint bytes) {
    if (!asks_mpi) return;
    unsigned char *by_mpi = malloc((size_t)bytes + 1);
    int position = 0;
    asked++;
    guard();
    if (sigsetjmp(before, 1) == 0) {
        MPI_OK(MPI_Pack(base, count, type, by_mpi, (int)bytes, &position, MPI_COMM_SELF));
        EQUAL(position, bytes);
        wrong += memcmp(by_mpi, expected, (size_t)bytes) != 0;
    } else {
        wrong++;
    }
    stop_guarding();
    free(by_mpi);
}

void ask_for_unpacking(const unsigned char *data, MPI_Aint bytes, void *base, int count, MPI_Datatype type,
                       const unsigned char *found, const unsigned char *expected, MPI_Aint length) {
    if (!asks_mpi) return;
    int position = 0;
    asked++;
    guard();
    if (sigsetjmp(before, 1) == 0) {
        MPI_OK(MPI_Unpack(data, (int)bytes, &position, base, count, type, MPI_COMM_SELF));
        EQUAL(position, bytes);
        wrong += memcmp(found, expected, (size_t)length) != 0;
    } else {
        wrong++;
    }
    stop_guarding();
}

void weigh_opinions(void) {
    uint64_t sums[] = {asked, wrong};
    MPI_OK(MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sums[1] * 50 <= sums[0], "MPI_Pack and MPI_Unpack disagree with the standard %" PRIu64 " times of %" PRIu64, sums[1],
          sums[0]);
}
