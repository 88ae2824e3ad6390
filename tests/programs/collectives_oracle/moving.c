/* Collectives that move data. MPI's own are given plain integers, or bytes: where the processes' datatypes differ, Open
 * MPI 4.1 does not choose one algorithm for all, and hangs. */

#include "buffer.h"
#include "check.h"
#include "oracle.h"
#include "stock.h"

enum { MOST = 64, MULTIPLE = 6 };

/* Of how many integers, or bytes, all data has a multiple. */
static int multiple(const struct round *round) { return round->is_of_bytes ? 1 : MULTIPLE; }

/* Bytes of so many of them. */
static int length(const struct round *round, int units) {
    return units * (round->is_of_bytes ? 1 : (int)sizeof(int));
}

static struct units plain_kind(const struct round *round) { return round->is_of_bytes ? byte_kinds[0] : kinds[0]; }

static struct units drawn_kind(const struct round *round, struct random *random) {
    int which = between(random, 0, (round->is_of_bytes ? BYTE_KINDS : KINDS) - 1);
    return round->is_of_bytes ? byte_kinds[which] : kinds[which];
}

/* What a rank makes of data. */
static struct units own_kind(struct round *round) { return drawn_kind(round, &round->own); }

static int is_root(struct round *round) { return round->rank == round->root; }

static void bcast(struct round *round) {
    struct units kind = own_kind(round);
    int count = round->units / kind.count;
    struct buffer ours = buffer_of(kind.type, count, round->seed + round->rank), theirs = copy_of(&ours);
    if (!alone) MPI_OK(tried->Bcast(ours.at, count, kind.type, round->root, round->comm));
    int bytes = length(round, round->units);
    char *plain = plain_of(theirs.at, kind.type, count, bytes);
    MPI_OK(stock.Bcast(plain, round->units, plain_kind(round).type, round->root, round->comm));
    spread(plain, bytes, theirs.at, kind.type, count);
    same(&ours, &theirs);
    free(plain), free_buffer(&ours), free_buffer(&theirs);
}

static void blocks_by(const struct collectives *by, struct round *round, int which, void *in, int sent,
                      MPI_Datatype from, void *out, int received, MPI_Datatype to) {
    if (round->is_in_place && which == 1 && is_root(round)) out = MPI_IN_PLACE;
    if (round->is_in_place && (which == 0 ? is_root(round) : which > 1)) in = MPI_IN_PLACE;
    switch (which) {
        case 0: MPI_OK(by->Gather(in, sent, from, out, received, to, round->root, round->comm)); break;
        case 1: MPI_OK(by->Scatter(in, sent, from, out, received, to, round->root, round->comm)); break;
        case 2: MPI_OK(by->Allgather(in, sent, from, out, received, to, round->comm)); break;
        default: MPI_OK(by->Alltoall(in, sent, from, out, received, to, round->comm));
    }
}

/* Gather, scatter, allgather, alltoall. */
static void blocks(struct round *round, int which) {
    struct units from = own_kind(round), to = own_kind(round);
    MPI_Datatype plain = plain_kind(round).type;
    int size = round->size, units = round->units, all = length(round, units * size);
    int sent = units / from.count, received = units / to.count;
    struct buffer send = buffer_of(from.type, (long)sent * size, round->seed + round->rank);
    struct buffer ours = buffer_of(to.type, (long)received * size, ~round->seed + round->rank), theirs = copy_of(&ours);
    char *in = plain_of(send.at, from.type, sent * size, all);
    char *out = plain_of(theirs.at, to.type, received * size, all);
    if (!alone) blocks_by(tried, round, which, send.at, sent, from.type, ours.at, received, to.type);
    blocks_by(&stock, round, which, in, units, plain, out, units, plain);
    spread(out, all, theirs.at, to.type, received * size);
    same(&ours, &theirs);
    free(in), free(out), free_buffer(&send), free_buffer(&ours), free_buffer(&theirs);
}

/* What all ranks make of it. */
static struct units common_kind(struct round *round) {
    struct random same = {round->seed};
    return drawn_kind(round, &same);
}

/* How many units rank `from` sends to rank `to`: all can tell. */
static int amount(struct round *round, int from, int to) {
    struct random random = {round->seed + (uint64_t)from * 1000 + (uint64_t)to};
    if (between(&random, 0, 3) == 0) return 0;
    return between(&random, 0, round->units / multiple(round)) * multiple(round);
}

/* A row of blocks. */
struct divided {
    int counts[MOST], places[MOST], bytes[MOST];
    MPI_Datatype types[MOST];
    /* Elements up to the end of the last one. */
    long end;
};

/* Blocks of those amounts, out of order and with gaps in between where they are a program's. */
static struct divided divided(struct round *round, struct units kind, const int *amounts, int is_plain) {
    struct divided blocks = {.end = 0};
    MPI_Aint lower, extent;
    MPI_OK(MPI_Type_get_extent(kind.type, &lower, &extent));
    for (int i = 0; i < round->size; i++) {
        int block = is_plain ? i : round->size - 1 - i;
        if (!is_plain) blocks.end += between(&round->own, 0, 2);
        blocks.counts[block] = amounts[block] / kind.count;
        blocks.places[block] = (int)blocks.end;
        blocks.bytes[block] = (int)(blocks.end * extent);
        blocks.types[block] = kind.type;
        blocks.end += blocks.counts[block];
    }
    return blocks;
}

/* What lies in the blocks, one behind the other. */
static char *plain_blocks(const struct round *round, const struct divided *blocks, const struct divided *plain,
                          const void *at) {
    char *data = malloc((size_t)length(round, (int)plain->end) + 1);
    HOLDS(data != NULL);
    for (int i = 0; i < round->size; i++) {
        const char *block = (const char *)at + blocks->bytes[i];
        int bytes = length(round, plain->counts[i]);
        char *part = plain_of(block, blocks->types[i], blocks->counts[i], bytes);
        memcpy(data + plain->bytes[i], part, (size_t)bytes);
        free(part);
    }
    return data;
}

/* Of how many ranks no block has any data, in place. */
static int empty_ranks(struct round *round) {
    int empty = 0;
    for (int me = 0; me < round->size; me++) {
        int all = 0;
        for (int i = 0; i < round->size; i++) all += amount(round, me < i ? me : i, me < i ? i : me);
        empty += all == 0;
    }
    return empty;
}

/* Which do it: by those that do not block, not all in place. Open MPI 4.1 has a rank without any data leave its own
 * MPI_Ialltoallv and MPI_Ialltoallw at once, uncounted: the next one of the communicator that does not block finds no
 * partner, and by an even number of ranks MPI_Ialltoallw itself does not. */
static const struct collectives *able(struct round *round, int which) {
    int empty = round->is_in_place && which >= 3 ? empty_ranks(round) : 0;
    return empty > 0 && empty < round->size ? &named : tried;
}

static void varying_by(const struct collectives *by, struct round *round, int which, const struct divided *sent,
                       const struct divided *received, int n, int m, void *in, void *out) {
    MPI_Datatype from = sent->types[0], to = received->types[0];
    if (round->is_in_place && which == 1 && is_root(round)) out = MPI_IN_PLACE;
    if (round->is_in_place && (which == 0 ? is_root(round) : which > 1)) in = MPI_IN_PLACE;
    switch (which) {
        case 0:
            MPI_OK(by->Gatherv(in, n, from, out, received->counts, received->places, to, round->root, round->comm));
            break;
        case 1:
            MPI_OK(by->Scatterv(in, sent->counts, sent->places, from, out, m, to, round->root, round->comm));
            break;
        case 2:
            MPI_OK(by->Allgatherv(in, n, from, out, received->counts, received->places, to, round->comm));
            break;
        case 3:
            MPI_OK(by->Alltoallv(in, sent->counts, sent->places, from, out, received->counts, received->places, to,
                                 round->comm));
            break;
        default:
            MPI_OK(by->Alltoallw(in, sent->counts, sent->bytes, sent->types, out, received->counts, received->bytes,
                                 received->types, round->comm));
    }
}

/* Gatherv, scatterv, allgatherv, alltoallv, alltoallw. */
static void varying(struct round *round, int which) {
    struct units from = own_kind(round), to = own_kind(round), plain = plain_kind(round);
    int out[MOST], in[MOST], size = round->size, me = round->rank;
    for (int i = 0; i < size; i++) {
        /* In place, what two send each other is of one length. */
        int both = round->is_in_place && which >= 3;
        out[i] = which >= 3 ? amount(round, both && i < me ? i : me, both && i < me ? me : i) : amount(round, 0, i);
        in[i] = which >= 3 ? amount(round, both && me < i ? me : i, both && me < i ? i : me) : amount(round, 0, i);
    }
    long all = 0;
    for (int i = 0; i < size; i++) all += in[i];
    /* MPICH's own MPI_Iallgatherv has each rank cut long data by its datatype's extent, and hangs where these differ. */
    enum { SHORT = 81920 };
    if (which == 2 && tried == &begun && length(round, (int)all) >= SHORT) to = common_kind(round);
    struct divided sent = divided(round, from, out, 0), received = divided(round, to, in, 0);
    struct divided plain_sent = divided(round, plain, out, 1), plain_received = divided(round, plain, in, 1);
    int own = amount(round, 0, me), n = own / from.count, m = own / to.count;
    struct buffer send = buffer_of(from.type, sent.end + own + MULTIPLE, round->seed + me);
    struct buffer ours = buffer_of(to.type, own + received.end + MULTIPLE, ~round->seed + me), theirs = copy_of(&ours);
    if (!alone) varying_by(able(round, which), round, which, &sent, &received, n, m, send.at, ours.at);
    int has_one = which == 0 || which == 2, gets_one = which == 1;
    char *data = has_one ? plain_of(send.at, from.type, n, length(round, own))
                         : plain_blocks(round, &sent, &plain_sent, send.at);
    char *into = gets_one ? plain_of(theirs.at, to.type, m, length(round, own))
                          : plain_blocks(round, &received, &plain_received, theirs.at);
    varying_by(&stock, round, which, &plain_sent, &plain_received, own, own, data, into);
    if (gets_one) spread(into, length(round, own), theirs.at, to.type, m);
    for (int i = 0; i < size && !gets_one; i++)
        spread(into + plain_received.bytes[i], length(round, plain_received.counts[i]),
               (char *)theirs.at + received.bytes[i], to.type, received.counts[i]);
    same(&ours, &theirs);
    free(data), free(into), free_buffer(&send), free_buffer(&ours), free_buffer(&theirs);
}

void move(struct round *round) {
    HOLDS(round->size <= MOST);
    round->units = (round->units + multiple(round) - 1) / multiple(round) * multiple(round);
    int which = between(&round->shared, 0, 10);
    const char *names[] = {"bcast",    "bcast",      "gather",   "scatter",    "allgather", "alltoall",
                           "gatherv", "scatterv", "allgatherv", "alltoallv", "alltoallw"};
    describe(round, names[which]);
    if (which < 2) bcast(round);
    else if (which < 6) blocks(round, which - 2);
    else varying(round, which - 6);
}
