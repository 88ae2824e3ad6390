/* Writes until the store is full, in every way or in some, and looks whether everything is still there that was written
 * before. */
#include "check.h"
#include "random.h"
#include "report.h"

/* What a rank writes at once, in blocks of two integers; the most that is tried. */
enum { BYTES = 1 << 18 };
static int most = 200;
static unsigned char out[BYTES], in[BYTES];

enum placing { BY_RANK, INTERLEAVED, SHARED, NONE };

/* Whether all ranks make a call, and whether they must all fail in the same one. */
enum company { ALONE, TOGETHER, AS_ONE };

static int write_at(MPI_File f, MPI_Offset o) { return MPI_File_write_at(f, o, out, BYTES, MPI_BYTE, MPI_STATUS_IGNORE); }
static int write_at_all(MPI_File f, MPI_Offset o) {
    return MPI_File_write_at_all(f, o, out, BYTES, MPI_BYTE, MPI_STATUS_IGNORE);
}
static int waited(int code, MPI_Request *request) {
    return code != MPI_SUCCESS ? code : MPI_Wait(request, MPI_STATUS_IGNORE);
}
static int iwrite_at(MPI_File f, MPI_Offset o) {
    MPI_Request request;
    return waited(MPI_File_iwrite_at(f, o, out, BYTES, MPI_BYTE, &request), &request);
}
static int iwrite_at_all(MPI_File f, MPI_Offset o) {
    MPI_Request request;
    return waited(MPI_File_iwrite_at_all(f, o, out, BYTES, MPI_BYTE, &request), &request);
}
static int write_shared(MPI_File f, MPI_Offset o) {
    (void)o;
    return MPI_File_write_shared(f, out, BYTES, MPI_BYTE, MPI_STATUS_IGNORE);
}
static int write_ordered(MPI_File f, MPI_Offset o) {
    (void)o;
    return MPI_File_write_ordered(f, out, BYTES, MPI_BYTE, MPI_STATUS_IGNORE);
}
static int preallocate(MPI_File f, MPI_Offset o) { return MPI_File_preallocate(f, (o / BYTES / ranks + 1) * ranks * BYTES); }

static const struct way {
    const char *name;
    int (*write)(MPI_File, MPI_Offset);
    enum placing placing;
    enum company company;
} ways[] = {
    {"write_at", write_at, BY_RANK, ALONE},
    {"write_at, strided", write_at, INTERLEAVED, ALONE},
    {"write_at_all", write_at_all, BY_RANK, AS_ONE},
    {"write_at_all, strided", write_at_all, INTERLEAVED, AS_ONE},
    {"iwrite_at", iwrite_at, BY_RANK, ALONE},
    {"iwrite_at_all", iwrite_at_all, BY_RANK, TOGETHER},
    {"write_shared", write_shared, SHARED, ALONE},
    {"write_ordered", write_ordered, SHARED, AS_ONE},
    {"preallocate", preallocate, NONE, AS_ONE},
};

static void fill(unsigned char *buffer, int round) {
    for (int i = 0; i < BYTES; i++) buffer[i] = byte_at((uint64_t)(round * 64 + rank + 1), (uint64_t)i % 4096);
}

static void set_view(MPI_File file, const struct way *way) {
    if (way->placing != INTERLEAVED) return;
    MPI_Datatype block, tile;
    MPI_Aint from = 8 * rank;
    int length = 2;
    MPI_Type_create_hindexed(1, &length, &from, MPI_INT, &block);
    MPI_Type_create_resized(block, 0, 8 * ranks, &tile);
    MPI_Type_commit(&tile);
    MPI_OK(MPI_File_set_view(file, 0, MPI_BYTE, tile, "native", MPI_INFO_NULL));
    MPI_Type_free(&block);
    MPI_Type_free(&tile);
}

/* Where a round's bytes of this rank go, in the way's view. */
static MPI_Offset place(const struct way *way, int round) {
    return (MPI_Offset)BYTES * (way->placing == INTERLEAVED ? round : round * ranks + rank);
}

static void compare(MPI_File file, const struct way *way, int rounds) {
    if (way->placing == SHARED || way->placing == NONE) return;
    for (int round = 0; round < rounds; round++) {
        fill(out, round);
        memset(in, 0, BYTES);
        MPI_OK(MPI_File_read_at(file, place(way, round), in, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK(memcmp(in, out, BYTES) == 0, "what round %d of %d has written is not there", round, rounds);
    }
}

static void fill_up(const char *name, const struct way *way) {
    MPI_File file;
    MPI_Info info;
    int rounds = 0, code = MPI_SUCCESS;
    doing = way->name;
    MPI_Info_create(&info);
    MPI_Info_set(info, "svm_segment_size", "1048576");
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR, info, &file));
    MPI_Info_free(&info);
    set_view(file, way);
    int has_failed = 0, have_all = 0;
    for (int call = 0; call < most && !have_all; call++) {
        fill(out, call);
        int result = way->write(file, place(way, call));
        if (!has_failed) {
            code = result;
            has_failed = code != MPI_SUCCESS;
            rounds += !has_failed;
        }
        have_all = has_failed;
        /* A collective call is everybody's, also of those whose part has failed before. */
        if (way->company != ALONE) MPI_Allreduce(&has_failed, &have_all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
    report(way->name, code);
    MPI_Barrier(MPI_COMM_WORLD);
    const char *outcome = getenv("SVMIO_OUTCOME");
    if (way->company == AS_ONE && outcome && !strcmp(outcome, "shared")) {
        int extremes[2] = {rounds, -rounds};
        MPI_Allreduce(MPI_IN_PLACE, extremes, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        CHECK(extremes[0] == -extremes[1], "the ranks fail after %d to %d rounds", -extremes[1], extremes[0]);
    }
    int total;
    MPI_Allreduce(&rounds, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    report_number("rounds", total);
    compare(file, way, rounds);
    int synced = MPI_File_sync(file);
    report("sync", synced);
    int closed = MPI_File_close(&file);
    report("close", closed);

    int again = MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    report("open again", again);
    if (again == MPI_SUCCESS) {
        set_view(file, way);
        /* What was still on its way to another node's store, and found no room there, is lost: that was told. */
        if (synced == MPI_SUCCESS && closed == MPI_SUCCESS) compare(file, way, rounds);
        again = MPI_File_close(&file);
    }
    report("close again", again);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) MPI_OK(MPI_File_delete(name, MPI_INFO_NULL));
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc >= 3, "usage: full_store REPORTS NAME [ROUNDS WAY ...]");
    report_to(argv[1]);
    /* For what ends nonblocking accesses: it knows of no file, and asks one of these. */
    MPI_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    if (argc > 3) most = atoi(argv[3]);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        int is_meant = argc <= 4;
        for (int i = 4; i < argc; i++) is_meant |= strcmp(argv[i], ways[w].name) == 0;
        if (is_meant) fill_up(argv[2], &ways[w]);
    }
    MPI_Finalize();
    return 0;
}
