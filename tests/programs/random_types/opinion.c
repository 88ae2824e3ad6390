#include "opinion.h"

#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>

int asks_mpi;
/* How often it was asked, and of types that it is not trusted with; how often it disagreed, and divided by zero. */
static struct {
    uint64_t all, doubtful, disagreed, crashed;
} times;

/* Of so many doubtful ones it may be wrong over one: three times as often as over 10,000 seeds of any MPI. */
enum { DOUBTFUL_FOR_EACH = 100 };

static int has_empty_block(const struct type *type) {
    if (type->kind == SUBARRAY || type->kind == DARRAY || type->kind == RESIZED || type->kind == DUP) return 0;
    if (type->blocks == 0) return 1;
    if (type->kind == CONTIGUOUS) return 0;
    int is_alike = type->kind != INDEXED && type->kind != HINDEXED && type->kind != STRUCT;
    for (MPI_Count b = 0; b < (is_alike ? 1 : type->blocks); b++) {
        if (type->lengths[b] == 0) return 1;
    }
    return 0;
}

/* Whether a part of it is empty, or goes backwards: a vector by its stride, other types by their extent. */
static int is_doubtful(const struct type *type) {
    if (type->kind == LEAF) return 0;
    int is_vector = type->kind == VECTOR || type->kind == HVECTOR;
    if (has_empty_block(type) || type->extent < 0 || (is_vector && type->places[0] < 0)) return 1;
    for (int i = 0; i < type->part_count; i++) {
        if (is_doubtful(type->parts[i])) return 1;
    }
    return 0;
}

static void count(const struct type *made) {
    times.all++;
    times.doubtful += (uint64_t)is_doubtful(made);
}

static void disagree(const char *who, const char *how, const struct type *made) {
    times.disagreed++;
    printf("doubt: %s: %s %s: ", doing, who, how);
    describe(stdout, made);
    printf("\n");
    fflush(stdout);
    CHECK(is_doubtful(made), "%s %s for a type of which no part is empty or goes backwards", who, how);
}

static void compare(const char *who, const unsigned char *found, const unsigned char *expected, MPI_Aint bytes,
                    const struct type *made) {
    if (memcmp(found, expected, (size_t)bytes) != 0) disagree(who, "disagrees with the standard", made);
}

static void crash(const char *who, const struct type *made) {
    times.crashed++;
    disagree(who, "divides by zero", made);
}

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

void ask_for_packing(const struct type *made, const void *base, int elements, MPI_Datatype type,
                     const unsigned char *expected, MPI_Aint bytes) {
    if (!asks_mpi) return;
    unsigned char *by_mpi = malloc((size_t)bytes + 1);
    int position = 0;
    count(made);
    guard();
    if (sigsetjmp(before, 1) == 0) {
        MPI_OK(MPI_Pack(base, elements, type, by_mpi, (int)bytes, &position, MPI_COMM_SELF));
        EQUAL(position, bytes);
        compare("MPI_Pack", by_mpi, expected, bytes, made);
    } else {
        crash("MPI_Pack", made);
    }
    stop_guarding();
    free(by_mpi);
}

void ask_for_unpacking(const struct type *made, const unsigned char *data, MPI_Aint bytes, void *base, int elements,
                       MPI_Datatype type, const unsigned char *found, const unsigned char *expected, MPI_Aint length) {
    if (!asks_mpi) return;
    int position = 0;
    count(made);
    guard();
    if (sigsetjmp(before, 1) == 0) {
        MPI_OK(MPI_Unpack(data, (int)bytes, &position, base, elements, type, MPI_COMM_SELF));
        EQUAL(position, bytes);
        compare("MPI_Unpack", found, expected, length, made);
    } else {
        crash("MPI_Unpack", made);
    }
    stop_guarding();
}

void weigh_opinions(void) {
    uint64_t sums[] = {times.all, times.doubtful, times.disagreed, times.crashed};
    MPI_OK(MPI_Allreduce(MPI_IN_PLACE, sums, 4, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
    if (rank == 0 && asks_mpi) {
        printf("MPI_Pack and MPI_Unpack were asked %" PRIu64 " times, of doubtful types %" PRIu64
               "; they were wrong %" PRIu64 " times, dividing by zero %" PRIu64 "\n",
               sums[0], sums[1], sums[2], sums[3]);
    }
    /* Few seeds may have one by chance. */
    CHECK(sums[2] <= 2 + sums[1] / DOUBTFUL_FOR_EACH,
          "MPI_Pack and MPI_Unpack disagree with the standard %" PRIu64 " times, of %" PRIu64 " with doubtful types",
          sums[2], sums[1]);
}
