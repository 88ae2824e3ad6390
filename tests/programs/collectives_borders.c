/* What a call only reads is memory that cannot be written, and between the blocks of a call is memory that cannot be
 * touched at all: a page behind each block. */
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

enum { MOST = 8 };
static size_t page;

/* A buffer of blocks of `integers`, each at the end of pages of its own. */
struct fenced {
    char *pages;
    size_t step, all;
    int *first;
    /* From one block to the next. */
    int stride;
};

static struct fenced fenced(int blocks, int integers) {
    size_t bytes = sizeof(int) * (size_t)integers, whole = (bytes + page - 1) / page * page;
    struct fenced made = {.step = whole + page, .all = (size_t)blocks * (whole + page)};
    made.pages = mmap(NULL, made.all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HOLDS(made.pages != MAP_FAILED);
    for (int i = 0; i < blocks; i++)
        HOLDS(mprotect(made.pages + (size_t)i * made.step + whole, page, PROT_NONE) == 0);
    made.first = (int *)(made.pages + whole - bytes);
    made.stride = (int)(made.step / sizeof(int));
    return made;
}

/* From now on it can only be read. */
static void seal(const struct fenced *buffer) {
    for (size_t at = 0; at < buffer->all; at += buffer->step)
        HOLDS(mprotect(buffer->pages + at, buffer->step - page, PROT_READ) == 0);
}

static void drop(struct fenced *buffer) { HOLDS(munmap(buffer->pages, buffer->all) == 0); }

static int *block(const struct fenced *buffer, int i) { return buffer->first + (size_t)i * (size_t)buffer->stride; }

static void fill(const struct fenced *buffer, int i, int integers, int from, int to) {
    for (int k = 0; k < integers; k++) block(buffer, i)[k] = 1000 * from + 100 * to + k;
}

static void is_filled(const struct fenced *buffer, int i, int integers, int from, int to) {
    for (int k = 0; k < integers; k++) EQUAL(block(buffer, i)[k], 1000 * from + 100 * to + k);
}

static void blocks_of(int integers) {
    MPI_Comm world = MPI_COMM_WORLD;
    int counts[MOST], places[MOST], places_of_bytes[MOST], root = ranks - 1;
    MPI_Datatype types[MOST];
    struct fenced sent = fenced(ranks, integers), received = fenced(ranks, integers);
    struct fenced one = fenced(1, integers), other = fenced(1, integers);
    for (int i = 0; i < ranks; i++) {
        counts[i] = integers, places[i] = i * sent.stride, types[i] = MPI_INT;
        places_of_bytes[i] = places[i] * (int)sizeof(int);
        fill(&sent, i, integers, rank, i);
    }
    fill(&one, 0, integers, rank, 0);
    seal(&sent), seal(&one);
    MPI_OK(MPI_Bcast(rank == root ? one.first : other.first, integers, MPI_INT, root, world));
    if (rank != root) is_filled(&other, 0, integers, root, 0);
    MPI_OK(MPI_Gatherv(one.first, integers, MPI_INT, received.first, counts, places, MPI_INT, root, world));
    if (rank == root) for (int i = 0; i < ranks; i++) is_filled(&received, i, integers, i, 0);
    MPI_OK(MPI_Scatterv(sent.first, counts, places, MPI_INT, other.first, integers, MPI_INT, root, world));
    is_filled(&other, 0, integers, root, rank);
    MPI_OK(MPI_Allgatherv(one.first, integers, MPI_INT, received.first, counts, places, MPI_INT, world));
    for (int i = 0; i < ranks; i++) is_filled(&received, i, integers, i, 0);
    MPI_OK(MPI_Alltoallv(sent.first, counts, places, MPI_INT, received.first, counts, places, MPI_INT, world));
    for (int i = 0; i < ranks; i++) is_filled(&received, i, integers, i, rank);
    memset(other.first, 0, sizeof(int) * (size_t)integers);
    MPI_OK(MPI_Alltoallw(sent.first, counts, places_of_bytes, types, received.first, counts, places_of_bytes, types,
                         world));
    for (int i = 0; i < ranks; i++) is_filled(&received, i, integers, i, rank);
    int times = ranks, sum = 1000 * (ranks * (ranks - 1) / 2);
    MPI_OK(MPI_Reduce(one.first, rank == root ? other.first : NULL, integers, MPI_INT, MPI_SUM, root, world));
    if (rank == root) for (int k = 0; k < integers; k++) EQUAL(other.first[k], sum + times * k);
    MPI_OK(MPI_Exscan(one.first, rank > 0 ? other.first : NULL, integers, MPI_INT, MPI_SUM, world));
    if (rank > 0) for (int k = 0; k < integers; k++) EQUAL(other.first[k], 1000 * (rank * (rank - 1) / 2) + rank * k);
    MPI_OK(MPI_Allreduce(one.first, other.first, integers, MPI_INT, MPI_SUM, world));
    for (int k = 0; k < integers; k++) EQUAL(other.first[k], sum + times * k);
    drop(&sent), drop(&received), drop(&one), drop(&other);
}

/* Two integers, with pages between them that nobody may touch. */
static int stride_of_pair;

static void add_pairs(void *left, void *right, int *count, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *count; i++) {
        int *from = (int *)left + 2 * i * stride_of_pair, *to = (int *)right + 2 * i * stride_of_pair;
        to[0] += from[0], to[stride_of_pair] += from[stride_of_pair];
    }
}

static void gaps_of_elements(void) {
    struct fenced sent = fenced(2, 1), received = fenced(2, 1);
    MPI_Datatype vector, pair;
    MPI_Op add;
    stride_of_pair = sent.stride;
    MPI_OK(MPI_Type_vector(2, 1, stride_of_pair, MPI_INT, &vector));
    MPI_OK(MPI_Type_create_resized(vector, 0, 2 * (MPI_Aint)sent.step, &pair));
    MPI_OK(MPI_Type_commit(&pair));
    MPI_OK(MPI_Op_create(add_pairs, 1, &add));
    *block(&sent, 0) = rank, *block(&sent, 1) = 10 * rank;
    seal(&sent);
    int sum = ranks * (ranks - 1) / 2;
    MPI_OK(MPI_Allreduce(sent.first, received.first, 1, pair, add, MPI_COMM_WORLD));
    EQUAL(*block(&received, 0), sum);
    EQUAL(*block(&received, 1), 10 * sum);
    MPI_OK(MPI_Reduce(sent.first, received.first, 1, pair, add, 1, MPI_COMM_WORLD));
    MPI_OK(MPI_Op_free(&add));
    MPI_OK(MPI_Type_free(&pair));
    MPI_OK(MPI_Type_free(&vector));
    drop(&sent), drop(&received);
}

/* Datatypes that say addresses, for a buffer that is nowhere. */
static void addresses(void) {
    int own[2] = {rank, 10 * rank}, all[2 * MOST], apart[2 * MOST], one = 1;
    MPI_Datatype here, there;
    MPI_Aint places[2];
    int lengths[] = {1, 1};
    MPI_OK(MPI_Get_address(&own[1], &places[0]));
    MPI_OK(MPI_Get_address(&own[0], &places[1]));
    MPI_OK(MPI_Type_create_hindexed(2, lengths, places, MPI_INT, &here));
    MPI_OK(MPI_Type_commit(&here));
    MPI_OK(MPI_Get_address(apart, &places[0]));
    MPI_OK(MPI_Type_create_hindexed(1, &one, places, MPI_INT, &there));
    MPI_OK(MPI_Type_commit(&there));
    MPI_OK(MPI_Gather(MPI_BOTTOM, 1, here, all, 2, MPI_INT, 0, MPI_COMM_WORLD));
    for (int i = 0; rank == 0 && i < ranks; i++) {
        EQUAL(all[2 * i], 10 * i);
        EQUAL(all[2 * i + 1], i);
    }
    MPI_OK(MPI_Bcast(MPI_BOTTOM, 1, here, 1, MPI_COMM_WORLD));
    EQUAL(own[0], 1);
    EQUAL(own[1], 10);
    own[0] = rank;
    /* Elements in a row from an address on. */
    MPI_OK(MPI_Allgather(own, 1, MPI_INT, MPI_BOTTOM, 1, there, MPI_COMM_WORLD));
    for (int i = 0; i < ranks; i++) EQUAL(apart[i], i);
    MPI_OK(MPI_Type_free(&here));
    MPI_OK(MPI_Type_free(&there));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    HOLDS(ranks > 1 && ranks <= MOST);
    page = (size_t)sysconf(_SC_PAGESIZE);
    /* Within a card, a slot, several slots; so long that it goes from memory to memory. */
    int lengths[] = {1, 10, 3000, 100000};
    for (int i = 0; i < 4; i++) blocks_of(lengths[i]);
    gaps_of_elements();
    addresses();
    if (rank == 0) printf("all borders were kept\n");
    MPI_Finalize();
    return 0;
}
