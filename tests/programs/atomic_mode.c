/* Ranks write overlapping ranges of a file in atomic mode while they and others read all of it: no read may see a mix.
 *
 * The file is a row of regions. Writer r writes regions r and r + 1, as one range and with one stamp, again and again; a
 * reader reads all regions at once. What it sees must be the outcome of whole writes, one after the other.
 *
 * With `one-communicator` all open each file together and once; without, there are handles of single ranks, too, and of
 * some ranks. */
#include <stdint.h>

#include "check.h"
#include "random.h"

enum { STAMPS = 10000, REGION = 4 * STAMPS, MOST_WRITERS = 8, MOST_REGIONS = MOST_WRITERS + 1 };
static uint32_t out[2 * STAMPS], in[MOST_REGIONS * STAMPS];

enum kind { CONTIGUOUS, STRIDED, NONBLOCKING, TWO_HANDLES, COLLECTIVE, KINDS };
static int one_communicator;
static const char *const names[KINDS] = {"contiguous", "strided", "nonblocking", "two-handles", "collective"};

/* A stamp tells the writer and the number of its write; 0 is what a new file has. */
static uint32_t stamp(int writer, int number) { return (uint32_t)(writer + 1) << 24 | (uint32_t)(number + 1); }
static int writer_of(uint32_t value) { return (int)(value >> 24) - 1; }

/* What a reader knows of the past: the latest stamp that it has seen of each writer in each region. */
struct past {
    uint32_t seen[MOST_REGIONS];
};

static void check(int writers, struct past *past) {
    uint32_t seen[MOST_REGIONS];
    for (int region = 0; region <= writers; region++) {
        const uint32_t *stamps = in + (size_t)region * STAMPS;
        seen[region] = stamps[0];
        for (int i = 1; i < STAMPS; i++) {
            CHECK(stamps[i] == stamps[0], "region %d is a mix: %#x, and %#x from byte %d on", region, stamps[0], stamps[i],
                  4 * i);
        }
        int writer = writer_of(stamps[0]);
        CHECK(writer == region || writer == region - 1 || stamps[0] == 0, "region %d has the stamp %#x", region, stamps[0]);
        CHECK(writer < writers, "region %d has the stamp %#x", region, stamps[0]);
        /* Time does not go backwards. */
        uint32_t before = past->seen[region];
        CHECK(writer_of(before) != writer || before <= stamps[0], "region %d went from %#x to %#x", region, before,
              stamps[0]);
        CHECK(before == 0 || stamps[0] != 0, "region %d was %#x and is empty", region, before);
        past->seen[region] = stamps[0];
    }
    for (int writer = 0; writer < writers; writer++) {
        uint32_t left = seen[writer], right = seen[writer + 1];
        int in_left = writer_of(left) == writer, in_right = writer_of(right) == writer;
        CHECK(!(in_left && in_right) || left == right, "writer %d has %#x and %#x", writer, left, right);
        /* Where it has written one, it has written both. */
        CHECK(!(in_left && right == 0) && !(in_right && left == 0), "writer %d has %#x and %#x", writer, left, right);
    }
}

/* Every other thousand bytes or so, over several segments; the same view for all. */
static void set_strided_view(MPI_File file) {
    MPI_Datatype block, spaced;
    MPI_Type_contiguous(1000, MPI_BYTE, &block);
    MPI_Type_create_resized(block, 0, 1723, &spaced);
    MPI_Type_commit(&spaced);
    MPI_OK(MPI_File_set_view(file, 77, MPI_BYTE, spaced, "native", MPI_INFO_NULL));
    MPI_Type_free(&block);
    MPI_Type_free(&spaced);
}

static MPI_File open_atomic(MPI_Comm comm, const char *name, enum kind kind) {
    MPI_File file;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "svm_segment_size", "65536");
    MPI_OK(MPI_File_open(comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    MPI_Info_free(&info);
    MPI_OK(MPI_File_set_atomicity(file, 1));
    if (kind == STRIDED || kind == COLLECTIVE) set_strided_view(file);
    return file;
}

static void write_own(MPI_File file, enum kind kind, int number) {
    MPI_Offset at = (MPI_Offset)rank * REGION;
    for (int i = 0; i < 2 * STAMPS; i++) out[i] = stamp(rank, number);
    if (kind == NONBLOCKING) {
        MPI_Request request;
        MPI_OK(MPI_File_iwrite_at(file, at, out, 2 * REGION, MPI_BYTE, &request));
        MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else if (kind == COLLECTIVE) {
        MPI_OK(MPI_File_write_at_all(file, at, out, 2 * REGION, MPI_BYTE, MPI_STATUS_IGNORE));
    } else {
        MPI_OK(MPI_File_write_at(file, at, out, 2 * REGION, MPI_BYTE, MPI_STATUS_IGNORE));
    }
}

static void read_all(MPI_File file, enum kind kind, int writers, struct past *past) {
    int bytes = (writers + 1) * REGION;
    memset(in, 0, (size_t)bytes);
    if (kind == COLLECTIVE && rank < writers) {
        MPI_OK(MPI_File_read_at_all(file, 0, in, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
    } else {
        MPI_OK(MPI_File_read_at(file, 0, in, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
    }
    check(writers, past);
}

static void run(const char *name, enum kind kind, int rounds, int seed) {
    char text[1024];
    struct random random = {(uint64_t)seed * 100 + (uint64_t)rank * KINDS + kind};
    struct past past = {{0}};
    /* Where the writes are collective one rank stands aside and reads. */
    int writers = kind == COLLECTIVE && !one_communicator ? ranks - 1 : ranks;
    snprintf(text, sizeof text, "%s.%s", name, names[kind]);
    doing = names[kind];
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, rank < writers, rank, &comm);
    MPI_File file = open_atomic(comm, text, kind), own = MPI_FILE_NULL;
    if (kind == TWO_HANDLES) own = open_atomic(MPI_COMM_SELF, text, kind);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < rounds; round++) {
        MPI_File one = kind == TWO_HANDLES && between(&random, 0, 1) ? own : file;
        MPI_File other = kind == TWO_HANDLES && between(&random, 0, 1) ? own : file;
        if (rank >= writers) {
            read_all(one, kind, writers, &past);
            continue;
        }
        write_own(one, kind, round);
        if (kind == COLLECTIVE ? round % 3 == 0 : between(&random, 0, 2) == 0) read_all(other, kind, writers, &past);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_OK(MPI_File_close(&file));
    if (own != MPI_FILE_NULL) MPI_OK(MPI_File_close(&own));
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    one_communicator = argc == 5 && strcmp(argv[4], "one-communicator") == 0;
    CHECK((argc == 4 || one_communicator) && ranks <= MOST_WRITERS,
          "usage: atomic_mode NAME ROUNDS SEED [one-communicator], on up to %d ranks", MOST_WRITERS);
    for (int kind = 0; kind < KINDS; kind++) {
        if (kind == TWO_HANDLES && one_communicator) continue;
        run(argv[1], kind, atoi(argv[2]), atoi(argv[3]));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("no read has seen a mix\n");
    MPI_Finalize();
    return 0;
}
