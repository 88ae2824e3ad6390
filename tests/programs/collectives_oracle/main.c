/* Random collectives, each done twice: as the program calls it, waiting in it or not, and by MPI's own function. Both have
 * to come to the same, byte for byte. Arguments: the first seed and how many. What all calls came to is told as a number:
 * where MPI's own functions are svmio's, too, as with the component of Open MPI, that of a run without svmio has to be the
 * same. With a third argument, "alone", only MPI's own are called; with "waiting", none that do not block, which are
 * MPI's own where svmio leaves them to it: Open MPI 4.1 hangs after its own MPI_Ialltoallv in place. */
#include "buffer.h"
#include "check.h"
#include "oracle.h"
#include "stock.h"

static uint64_t seed;
static int waiting;

void describe(const struct round *round, const char *what) {
    static char text[400];
    snprintf(text, sizeof text, "seed %llu: %s of %d by %d of %d, root %d%s", (unsigned long long)seed, what,
             round->units, round->rank, round->size, round->root, round->is_in_place ? ", in place" : "");
    doing = text;
}

/* A communicator of some or all, in some order. */
static MPI_Comm communicator(struct random *shared) {
    MPI_Comm comm;
    switch (between(shared, 0, 4)) {
        case 0: MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm)); break;
        case 1: MPI_OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comm)); break;
        case 2: MPI_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm)); break;
        case 3: MPI_OK(MPI_Comm_split(MPI_COMM_WORLD, rank > 0, rank, &comm)); break;
        default: comm = MPI_COMM_WORLD;
    }
    return comm;
}

/* What a program leaves to MPI while it is in a collective: a long message around, and a collective. Half of the ranks
 * see to its end before they come to the collective, the others after. */
struct meanwhile {
    MPI_Request requests[3];
    char *sent, *received;
    int own, sum;
};

enum { LONG = 300000 };

static void start(struct meanwhile *meanwhile) {
    meanwhile->sent = malloc(LONG), meanwhile->received = malloc(LONG);
    HOLDS(meanwhile->sent && meanwhile->received);
    memset(meanwhile->sent, rank, LONG);
    meanwhile->own = rank + 1;
    int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    MPI_OK(MPI_Irecv(meanwhile->received, LONG, MPI_CHAR, last, 1, MPI_COMM_WORLD, &meanwhile->requests[0]));
    MPI_OK(MPI_Isend(meanwhile->sent, LONG, MPI_CHAR, next, 1, MPI_COMM_WORLD, &meanwhile->requests[1]));
    MPI_OK(MPI_Iallreduce(&meanwhile->own, &meanwhile->sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                          &meanwhile->requests[2]));
}

static void finish(struct meanwhile *meanwhile) {
    MPI_OK(MPI_Waitall(3, meanwhile->requests, MPI_STATUSES_IGNORE));
    EQUAL(meanwhile->sum, ranks * (ranks + 1) / 2);
    EQUAL(meanwhile->received[LONG - 1], (rank + ranks - 1) % ranks);
    free(meanwhile->sent), free(meanwhile->received);
}

static void one(void) {
    struct random shared = {seed};
    MPI_Comm comm = communicator(&shared);
    struct round round = {.comm = comm, .seed = seed << 20};
    MPI_OK(MPI_Comm_rank(comm, &round.rank));
    MPI_OK(MPI_Comm_size(comm, &round.size));
    /* Those that do not block are MPI's own as long as no other has been called. */
    if (between(&shared, 0, 3) > 0) MPI_OK(named.Barrier(comm));
    int calls = between(&shared, 1, 6);
    for (int call = 0; call < calls; call++) {
        int longest[] = {0, 1, 20, 300, 3000, 40000};
        round.units = between(&shared, 0, longest[between(&shared, 0, 5)]);
        round.is_of_bytes = between(&shared, 0, 3) == 0;
        round.is_in_place = between(&shared, 0, 2) == 0;
        /* Of those that all have, whatever the size. */
        round.root = between(&shared, 0, 59) % round.size;
        uint64_t drawn = (uint64_t)between(&shared, 0, 1 << 30);
        round.seed = (seed << 32) + drawn;
        round.shared.state = drawn, round.own.state = round.seed + 7919u * (unsigned)rank;
        int is_mixed = between(&shared, 0, 5) == 0, is_early = rank % 2 == between(&shared, 0, 1);
        struct meanwhile meanwhile;
        if (is_mixed) start(&meanwhile);
        if (is_mixed && is_early) finish(&meanwhile);
        int is_begun = between(&shared, 0, 1);
        tried = is_begun && !waiting ? &begun : &named;
        if (between(&shared, 0, 5) == 0) MPI_OK(tried->Barrier(comm));
        int is_move = between(&shared, 0, 1);
        /* Those of one rank are all MPI's own. */
        if (round.size > 1 && is_move) move(&round);
        if (round.size > 1 && !is_move) reduce(&round);
        if (is_mixed && !is_early) finish(&meanwhile);
    }
    if (comm != MPI_COMM_WORLD) MPI_OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    alone = argc == 4 && strcmp(argv[3], "alone") == 0;
    waiting = argc == 4 && strcmp(argv[3], "waiting") == 0;
    HOLDS(argc == 3 || alone || waiting);
    find_stock();
    make_kinds();
    make_operations();
    uint64_t first = strtoull(argv[1], NULL, 10), seeds = strtoull(argv[2], NULL, 10);
    for (seed = first; seed < first + seeds; seed++) one();
    doing = "";
    free_kinds();
    free_operations();
    uint64_t own = digest() * (2 * (uint64_t)rank + 1), sum = 0;
    MPI_OK(MPI_Reduce(&own, &sum, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD));
    if (rank == 0) printf("%llu seeds are right, digest %llx\n", (unsigned long long)seeds, (unsigned long long)sum);
    MPI_Finalize();
    return 0;
}
