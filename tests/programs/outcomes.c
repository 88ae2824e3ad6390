/* outcomes FILE HOW: who hears when of a rank's failure in a collective access, and who waits for whom. HOW is what
 * the file is opened by: "hint", "variable", which somebody else has set, "some" where the first rank's hint is not the
 * others', "shared" for a hint of the first rank's alone, or "none". Over several nodes, what others have written
 * is read after a sync only. */
#include "check.h"

/* Bytes of a rank's part, and of one that goes on in the background over nodes; how often all is done, and each part of it; writes to
 * what is there, after which nodes have ceased to ask each other for new segments. Where new ones are written in turn, and
 * where no file reaches. */
enum { BYTES = 4096, LONG = 1 << 18, ROUNDS = 3, TURNS = 60, CALLS = 5, IN_VAIN = 8 };
static const MPI_Offset BETWEEN = 8 * LONG, BEYOND = (MPI_Offset)1 << 61;
static const char *name, *how;
static int shares;

/* The hint of this rank, if it has one. */
static const char *hint(void) {
    if (!strcmp(how, "hint")) return "own";
    if (!strcmp(how, "some")) return rank == 0 ? "own" : "shared";
    return !strcmp(how, "shared") && rank == 0 ? "shared" : NULL;
}

static MPI_File opened(void) {
    MPI_File file;
    MPI_Info info, told;
    char value[64];
    int flag;
    MPI_Info_create(&info);
    MPI_Info_set(info, "svm_segment_size", "64K");
    if (hint()) MPI_Info_set(info, "svm_outcome", hint());
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    MPI_Info_free(&info);
    MPI_OK(MPI_File_get_info(file, &told));
    MPI_Info_get(told, "svm_outcome", sizeof value - 1, value, &flag);
    CHECK(flag && !strcmp(value, shares ? "shared" : "own"), "%s", flag ? value : "nothing is told");
    MPI_Info_free(&told);
    return file;
}

static int write_at(MPI_File file, MPI_Offset at, int fill) {
    unsigned char bytes[BYTES];
    memset(bytes, fill, BYTES);
    return MPI_File_write_at_all(file, at, bytes, BYTES, MPI_BYTE, MPI_STATUS_IGNORE);
}

static int split_write_at(MPI_File file, MPI_Offset at, int fill) {
    unsigned char bytes[BYTES];
    memset(bytes, fill, BYTES);
    int code = MPI_File_write_at_all_begin(file, at, bytes, BYTES, MPI_BYTE);
    return code != MPI_SUCCESS ? code : MPI_File_write_at_all_end(file, bytes, MPI_STATUS_IGNORE);
}

static int read_at(MPI_File file, MPI_Offset at, int fill) {
    unsigned char bytes[BYTES];
    int code = MPI_File_read_at_all(file, at, bytes, BYTES, MPI_BYTE, MPI_STATUS_IGNORE);
    for (int i = 0; code == MPI_SUCCESS && i < BYTES; i++) EQUAL(bytes[i], fill);
    return code;
}

/* For a while, in which the others run ahead if they do. */
static void compute(void) {
    for (double end = MPI_Wtime() + 0.0005; MPI_Wtime() < end;) continue;
}

/* A call of all ranks, each of which begins when the one before it has returned: ranks that wait for each other in it
 * never come out. */
static void in_turn(int (*access)(MPI_File, MPI_Offset, int), MPI_File file) {
    if (rank > 0) MPI_Recv(NULL, 0, MPI_BYTE, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_OK(access(file, (MPI_Offset)rank * BYTES, rank + 1));
    if (rank + 1 < ranks) MPI_Send(NULL, 0, MPI_BYTE, rank + 1, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Ranks that have ceased to ask each other write to new segments in turn, several of them to each, and at the same time, in
 * the background as well. */
static int write_between(MPI_File file, MPI_Offset at, int fill) {
    return write_at(file, at + BETWEEN, fill);
}

static void new_segments(MPI_File file) {
    static unsigned char bytes[LONG];
    MPI_Offset start = (MPI_Offset)16 * LONG;
    for (int i = 0; i < IN_VAIN; i++) MPI_OK(write_at(file, (MPI_Offset)rank * BYTES, rank + 1));
    in_turn(write_between, file);
    for (int i = 0; i < 64; i++) MPI_OK(write_at(file, start + (MPI_Offset)(i * ranks + rank) * BYTES, i + rank));
    start += (MPI_Offset)64 * ranks * BYTES;
    memset(bytes, rank + 3, LONG);
    MPI_OK(MPI_File_write_at_all_begin(file, start + (MPI_Offset)rank * LONG, bytes, LONG, MPI_BYTE));
    MPI_OK(MPI_File_write_at_all_end(file, bytes, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_OK(MPI_File_sync(file));
    int other = (rank + 1) % ranks;
    MPI_OK(read_at(file, BETWEEN + (MPI_Offset)other * BYTES, other + 1));
    MPI_OK(MPI_File_read_at_all(file, start + (MPI_Offset)other * LONG, bytes, LONG, MPI_BYTE, MPI_STATUS_IGNORE));
    for (int i = 0; i < LONG; i++) EQUAL(bytes[i], other + 3);
    start -= (MPI_Offset)64 * ranks * BYTES;
    for (int i = 0; i < 64; i++) MPI_OK(read_at(file, start + (MPI_Offset)(i * ranks + other) * BYTES, i + other));
}

/* One rank makes the file shorter by a handle of its own: it does not become longer again by what others have not heard. */
static void cut_by_one(MPI_File file) {
    MPI_Offset size;
    MPI_OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == ranks - 1) {
        MPI_File own;
        MPI_OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDWR, MPI_INFO_NULL, &own));
        MPI_OK(MPI_File_set_size(own, BYTES));
        MPI_OK(MPI_File_close(&own));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    MPI_OK(write_at(file, 0, 1));
    MPI_OK(MPI_File_read_at_all(file, 0, NULL, 0, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_get_size(file, &size));
    if (rank == ranks - 1) EQUAL(size, BYTES);
    MPI_OK(MPI_File_sync(file));
    MPI_OK(MPI_File_get_size(file, &size));
    EQUAL(size, BYTES);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_OK(write_at(file, (MPI_Offset)rank * BYTES, rank + 1));
}

/* Without a sync: what one rank has written, the next one reads, and writes itself when that one has read it. */
static void read_by_others(MPI_File file) {
    for (int turn = 0; turn < TURNS; turn++) {
        int other = (rank + 1) % ranks;
        if (rank == turn % ranks) compute();
        MPI_OK(write_at(file, (MPI_Offset)rank * BYTES, turn + rank));
        if (rank == turn / ranks % ranks) compute();
        MPI_OK(read_at(file, (MPI_Offset)other * BYTES, turn + other));
    }
    MPI_OK(write_at(file, (MPI_Offset)rank * BYTES, rank + 1));
}

/* By the functions with large counts, too, where there are some. */
static void ordered(MPI_File file, unsigned char *bytes, int turn, int writes) {
#if MPI_VERSION >= 4
    if (turn % 2 && writes) MPI_OK(MPI_File_write_ordered_c(file, bytes, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    if (turn % 2 && !writes) MPI_OK(MPI_File_read_ordered_c(file, bytes, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    if (turn % 2) return;
#endif
    (void)turn;
    if (writes) MPI_OK(MPI_File_write_ordered(file, bytes, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    else MPI_OK(MPI_File_read_ordered(file, bytes, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
}

/* A view that is set takes the shared pointer to the beginning when all have taken their places. */
static void set_view(MPI_File file) {
    for (int turn = 0; turn < TURNS; turn++) {
        unsigned char bytes[CALLS][BYTES];
        for (int i = 0; i < CALLS; i++) memset(bytes[i], turn + rank + i, BYTES);
        MPI_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
        for (int i = 0; i < CALLS; i++) ordered(file, bytes[i], turn, 1);
        MPI_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
        memset(bytes, 0, sizeof bytes);
        for (int i = 0; i < CALLS; i++) ordered(file, bytes[i], turn, 0);
        for (int i = 0; i < CALLS; i++)
            for (int at = 0; at < BYTES; at++) EQUAL(bytes[i][at], turn + rank + i);
    }
    MPI_OK(write_at(file, (MPI_Offset)rank * BYTES, rank + 1));
}

/* Who reads after a write of all, or sets a view, knows how long the file has become. */
static void size_is_known(MPI_File file) {
    MPI_OK(MPI_File_set_size(file, (MPI_Offset)ranks * BYTES));
    for (int turn = 0; turn < TURNS; turn++) {
        MPI_Offset size, end = (MPI_Offset)(turn + 2) * ranks * BYTES;
        if (rank == turn % ranks) compute();
        MPI_OK(write_at(file, end - (MPI_Offset)((rank + turn) % ranks + 1) * BYTES, 1));
        if (turn % 2) MPI_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
        else MPI_OK(read_at(file, (MPI_Offset)rank * BYTES, rank + 1));
        MPI_OK(MPI_File_get_size(file, &size));
        EQUAL(size, end);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* Nobody still writes what is cut off. */
static void set_size(MPI_File file) {
    for (int turn = 0; turn < TURNS; turn++) {
        MPI_Offset size;
        if (rank == turn % ranks) compute();
        MPI_OK(write_at(file, (MPI_Offset)(ranks + rank) * BYTES, turn));
        MPI_OK(MPI_File_set_size(file, (MPI_Offset)ranks * BYTES));
        MPI_OK(MPI_File_get_size(file, &size));
        EQUAL(size, (MPI_Offset)ranks * BYTES);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* That the code is an error on all ranks, which tells whose it was. */
static void is_heard(int code, int whose) {
    char text[MPI_MAX_ERROR_STRING], meant[32];
    int length;
    HOLDS(code != MPI_SUCCESS);
    MPI_Error_string(code, text, &length);
    snprintf(meant, sizeof meant, "rank %d", whose);
    CHECK(strstr(text, meant) && strstr(text, "/outcomes"), "%s", text);
}

/* The last rank's part fails. */
static void fail(int (*access)(MPI_File, MPI_Offset, int), MPI_File file) {
    int fails = rank == ranks - 1;
    int code = access(file, fails ? BEYOND : (MPI_Offset)rank * BYTES, rank + 1);
    if (shares || fails) is_heard(code, ranks - 1);
    else MPI_OK(code);
}

/* What the error handler of a file was called with, and how often. */
static int handled_code, handled_times;

static void handle(MPI_File *of, int *code, ...) {
    (void)of;
    handled_code = *code;
    handled_times++;
}

/* Closes a file of which the others have not heard that the last rank's part failed: its own error handler is told. */
static void close_failed(MPI_File file) {
    MPI_Errhandler handler;
    MPI_OK(MPI_File_create_errhandler(handle, &handler));
    MPI_OK(MPI_File_set_errhandler(file, handler));
    MPI_OK(MPI_Errhandler_free(&handler));
    int code = MPI_File_close(&file);
    is_heard(code, ranks - 1);
    EQUAL(handled_code, code);
    HOLDS(file == MPI_FILE_NULL);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc == 3, "usage: outcomes FILE hint|variable|some|shared|none");
    name = argv[1], how = argv[2];
    shares = !strcmp(how, "some") || !strcmp(how, "shared");
    for (int round = 0; round < ROUNDS; round++) {
        MPI_File file = opened();
        MPI_OK(write_at(file, (MPI_Offset)rank * BYTES, rank + 1));
        MPI_OK(MPI_File_sync(file));
        if (!shares) {
            doing = "accesses in turn";
            in_turn(read_at, file);
            doing = "a turn, and accesses in turn";
            for (int i = 0; i < IN_VAIN; i++) MPI_OK(write_at(file, (MPI_Offset)rank * BYTES, rank + 1));
            in_turn(write_at, file);
            in_turn(split_write_at, file);
            doing = "new segments, of which nobody tells the others";
            new_segments(file);
        }
        doing = "a change of the size by another handle";
        cut_by_one(file);
        doing = "reading what others have written";
        if (getenv("OUTCOMES_ONE_NODE")) read_by_others(file);
        doing = "a change of the view";
        if (getenv("OUTCOMES_ONE_NODE")) set_view(file);
        doing = "a larger size";
        size_is_known(file);
        doing = "a change of the size";
        set_size(file);
        doing = "a failure before a turn";
        fail(write_at, file);
        if (!shares) is_heard(read_at(file, (MPI_Offset)rank * BYTES, rank + 1), ranks - 1);
        MPI_OK(MPI_File_sync(file));
        doing = "a failure before a sync";
        fail(write_at, file);
        if (shares) MPI_OK(MPI_File_sync(file));
        else is_heard(MPI_File_sync(file), ranks - 1);
        MPI_OK(MPI_File_sync(file));
        MPI_OK(read_at(file, (MPI_Offset)rank * BYTES, rank + 1));
        doing = "a failure before closing";
        fail(split_write_at, file);
        if (shares) MPI_OK(MPI_File_close(&file));
        else close_failed(file);
        doing = "closing after everything is told";
        file = opened();
        MPI_OK(MPI_File_close(&file));
    }
    doing = "";
    EQUAL(handled_times, shares ? 0 : ROUNDS);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("heard\n");
    MPI_Finalize();
    return 0;
}
