/* Goes on reading or writing the segments of all nodes until one of them is cut off, each rank by itself or all together, and
 * reports what it was told then; or, in the next job, looks whether all is there that was synced.
 *
 * The file: of each rank of the first job some segments whose bytes never change once they are synced, and then some that
 * all ranks write to, each byte one of two values. */
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "random.h"
#include "report.h"

enum {
    SEGMENT = 512 << 10,
    SYNCED = 4 * SEGMENT,
    BUSY = 4 * SEGMENT,
    OWN = SYNCED + BUSY,
    LONG_READ = 100000,
    SHORT = 5000,
};

static unsigned char found[OWN], expected[OWN];
static const char *directory;

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Tells the test, and the other ranks, that something has come about, and a number. */
static void announce_number(const char *what, int number) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s-%d", directory, what, rank);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fprintf(file, "%d", number) > 0 && fclose(file) == 0, "%s cannot be written", path);
}

static void announce(const char *what) { announce_number(what, 0); }

static void wait_for_all(const char *what) {
    char path[4096];
    for (int r = 0; r < ranks; r++) {
        snprintf(path, sizeof path, "%s/%s-%d", directory, what, r);
        while (access(path, F_OK) != 0) usleep(1000);
    }
}

/* The bytes that rank `owner` of the first job writes. */
static void fill(unsigned char *to, int owner) {
    for (int i = 0; i < OWN; i++) to[i] = byte_at((uint64_t)owner + 1, (uint64_t)i);
}

static MPI_Offset place(int owner) { return (MPI_Offset)OWN * owner; }

/* Where in a part one of the other ranks writes in a round of writes by all. */
static int place_in_round(int round) { return SYNCED + round * 7919 % (BUSY - LONG_READ); }

/* What it writes there differs from what `fill` gives by this. */
static unsigned char flip(int round) { return round % 2 ? 255 : 0; }

/* The synced bytes are as they were; each of the others has one of its two values. Where all wrote, the rounds up to
 * `synced` are there, too, and only the next one may have been under way. */
static void check_part(int owner, int all_wrote, int synced) {
    fill(expected, owner);
    CHECK(memcmp(found, expected, SYNCED) == 0, "what rank %d synced is not there", owner);
    for (int round = 0; all_wrote && round <= synced; round++) {
        int at = place_in_round(round);
        for (int i = at; i < at + SHORT; i++) expected[i] = byte_at((uint64_t)owner + 1, (uint64_t)i) ^ flip(round);
    }
    int under_way = all_wrote ? place_in_round(synced + 1) : SYNCED, end = all_wrote ? under_way + SHORT : OWN;
    for (int i = SYNCED; i < OWN; i++) {
        int is_either = i >= under_way && i < end;
        CHECK(found[i] == expected[i] || (is_either && found[i] == (expected[i] ^ 255)),
              "byte %d of rank %d is %d, not %d%s: %d rounds were synced", i, owner, found[i], expected[i],
              is_either ? " or its opposite" : "", synced + 1);
    }
}

/* An access to what is `owner`'s; which, `round` says. What is to be written is in `found`. */
struct access {
    int is_write, bytes;
    MPI_Offset at;
};

static struct access prepare(int is_write, int is_atomic, int owner, int round) {
    /* Outside of atomic mode writes of less than a segment may stay in the cache, whatever is measured. */
    int bytes = is_atomic || (!is_write && round % 2) ? SHORT : is_write ? SEGMENT : LONG_READ;
    int at = SYNCED + (bytes == SEGMENT ? round % (BUSY / SEGMENT) * SEGMENT : round * 7919 % (BUSY - bytes));
    if (is_write) {
        for (int i = 0; i < bytes; i++) found[i] = byte_at((uint64_t)owner + 1, (uint64_t)(at + i)) ^ flip(round);
    }
    return (struct access){is_write, bytes, place(owner) + at};
}

static int touch(MPI_File file, struct access it) {
    if (it.is_write) return MPI_File_write_at(file, it.at, found, it.bytes, MPI_BYTE, MPI_STATUS_IGNORE);
    return MPI_File_read_at(file, it.at, found, it.bytes, MPI_BYTE, MPI_STATUS_IGNORE);
}

/* Goes round the other ranks until a call fails. */
static void touch_until_cut(MPI_File file, int is_write, int is_atomic) {
    int code;
    for (int round = 0;; round++) {
        for (int step = 1; step < ranks; step++) {
            int owner = (rank + step) % ranks;
            struct access it = prepare(is_write, is_atomic, owner, round);
            double start = seconds();
            if ((code = touch(file, it)) == MPI_SUCCESS) continue;
            report("first error", code);
            report_number("of rank", owner);
            report_number("after ms", (long)((seconds() - start) * 1e3));
            start = seconds();
            /* As often as would use up a small cache if each attempt cost a page of it. */
            for (int again = 0; again < 50; again++) code = touch(file, it);
            report("the same again", code);
            report_number("after ms", (long)((seconds() - start) * 1e3));
            return;
        }
        if (round == 1) announce("busy");
    }
}

/* A new file, which has the bytes of all ranks. */
static MPI_File filled(const char *name) {
    MPI_File file;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "svm_segment_size", "524288");
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR, info, &file));
    MPI_Info_free(&info);
    fill(expected, rank);
    MPI_OK(MPI_File_write_at_all(file, place(rank), expected, OWN, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    return file;
}

static void read_another(MPI_File file, int owner) {
    int code = MPI_File_read_at(file, place(owner), found, SYNCED, MPI_BYTE, MPI_STATUS_IGNORE);
    report("reading of another", code);
    fill(expected, owner);
    report_number("of rank", owner);
    report_number("bytes are right", code == MPI_SUCCESS && memcmp(found, expected, SYNCED) == 0);
}

static void end(void) __attribute__((noreturn));
static void end(void) {
    announce("through");
    wait_for_all("through");
    _exit(0);
}

/* What MPI knows of a job that is cut in two is nothing to rely on: from the cut on no call but for the file. */
static void until_cut(const char *name, int is_write, int is_atomic, int lost) {
    MPI_File file = filled(name);
    if (is_atomic) MPI_OK(MPI_File_set_atomicity(file, 1));
    touch_until_cut(file, is_write, is_atomic);
    for (int step = 1; step < ranks && rank != lost; step++) read_another(file, (lost + step) % ranks);
    end();
}

static void report_call(const char *what, int code, double start) {
    report(what, code);
    report_number("after ms", (long)((seconds() - start) * 1e3));
}

static void report_close(const char *what, MPI_File *file) {
    double start = seconds();
    report_call(what, MPI_File_close(file), start);
}

/* A write that stays in the cache, to what is `owner`'s. */
static void write_short(MPI_File file, int owner) {
    for (int i = 0; i < SHORT; i++) found[i] = byte_at((uint64_t)owner + 1, (uint64_t)(SYNCED + i));
    MPI_OK(MPI_File_write_at(file, place(owner) + SYNCED, found, SHORT, MPI_BYTE, MPI_STATUS_IGNORE));
}

static void await_cut(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s/cut", directory);
    while (access(path, F_OK) != 0) usleep(1000);
}

/* All ranks read, or write and sync, until that fails; `start` becomes when the failing call began, `synced` the last round
 * that was synced. */
static int all_until_cut(MPI_File file, int is_write, double *start, int *synced) {
    int code;
    *synced = -1;
    for (int round = 0;; round++) {
        int owner = (rank + round) % ranks, at = place_in_round(round);
        *start = seconds();
        if (!is_write) {
            code = MPI_File_read_at_all(file, place(owner) + at, found, LONG_READ, MPI_BYTE, MPI_STATUS_IGNORE);
            if (code != MPI_SUCCESS) return code;
        } else {
            for (int i = 0; i < SHORT; i++) found[i] = byte_at((uint64_t)owner + 1, (uint64_t)(at + i)) ^ flip(round);
            code = MPI_File_write_at_all(file, place(owner) + at, found, SHORT, MPI_BYTE, MPI_STATUS_IGNORE);
            if (code != MPI_SUCCESS) return code;
            *start = seconds();
            code = MPI_File_sync(file);
            if (code != MPI_SUCCESS) return code;
            *synced = round;
        }
        if (round == 1) announce("busy");
    }
}

/* Calls of all ranks, which need a rank that is `lost`, and others of its host of `hosts`. */
static void together_until_cut(const char *what, const char *name, int hosts, int lost) {
    MPI_File file = filled(name);
    double start;
    if (strcmp(what, "close") == 0) {
        /* All others are in it, or on their way to it, when the host is cut off. */
        write_short(file, lost);
        announce("busy");
        if (rank % hosts == lost) await_cut();
        report_close("first error", &file);
        end();
    }
    if (strcmp(what, "short") == 0) {
        char second_name[256];
        snprintf(second_name, sizeof second_name, "%s-second", name);
        MPI_File second = filled(second_name);
        announce("busy");
        await_cut();
        /* To ranks of the other side of the cut, and nobody here knows of that yet. */
        int other = rank % hosts == lost ? (lost + 1) % hosts : lost;
        write_short(file, other);
        write_short(second, other);
        start = seconds();
        report_call("first error", MPI_File_sync(file), start);
        report_close("close", &file);
        report_close("close", &second);
        end();
    }
    int synced, code = all_until_cut(file, strcmp(what, "write_all") == 0, &start, &synced);
    announce_number("synced", synced);
    report_call("first error", code, start);
    for (int again = 0; again < 50; again++) {
        if (again == 0) start = seconds();
        code = MPI_File_sync(file);
    }
    report_call("sync", code, start);
    start = seconds();
    report_call("size", MPI_File_set_size(file, 0), start);
    start = seconds();
    report_call("view", MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), start);
    for (int step = 1; step < hosts && rank % hosts != lost; step++) read_another(file, (lost + step) % hosts);
    report_close("close", &file);
    end();
}

/* What all wrote together until round `synced` was synced, or each by himself. */
static void look(const char *name, int writers, int all_wrote, int synced) {
    MPI_File file;
    MPI_Offset size;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_get_size(file, &size));
    EQUAL(size, (MPI_Offset)OWN * writers);
    for (int step = 0; step < writers; step++) {
        int owner = (rank + step) % writers;
        MPI_OK(MPI_File_read_at(file, place(owner), found, OWN, MPI_BYTE, MPI_STATUS_IGNORE));
        check_part(owner, all_wrote, synced);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    /* And goes on. */
    if (rank < writers) {
        fill(expected, rank);
        MPI_OK(MPI_File_write_at(file, place((rank + 1) % writers), expected, OWN, MPI_BYTE, MPI_STATUS_IGNORE));
    }
    MPI_OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_OK(MPI_File_sync(file));
    MPI_OK(MPI_File_read_at_all(file, place(rank % writers), found, OWN, MPI_BYTE, MPI_STATUS_IGNORE));
    fill(expected, (rank + writers - 1) % writers);
    CHECK(memcmp(found, expected, OWN) == 0, "what was written in this job is not there");
    MPI_OK(MPI_File_close(&file));
    if (rank == 0) printf("all is there\n");
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    if ((argc == 4 || argc == 5) && strcmp(argv[1], "look") == 0) {
        look(argv[2], atoi(argv[3]), argc == 5, argc == 5 ? atoi(argv[4]) : -1);
    } else if (argc == 7 && strcmp(argv[1], "together") == 0) {
        directory = argv[4];
        report_to(directory);
        together_until_cut(argv[2], argv[3], atoi(argv[5]), atoi(argv[6]));
    } else {
        CHECK(argc == 6, "usage: nodes_cut read|write NAME atomic|nonatomic DIRECTORY RANK-TO-BE-CUT-OFF, "
                         "or nodes_cut together write_all|read_all|short|close NAME DIRECTORY HOSTS HOST-TO-BE-CUT-OFF, "
                         "or nodes_cut look NAME WRITERS [LAST-ROUND-THAT-ALL-SYNCED]");
        directory = argv[4];
        report_to(directory);
        until_cut(argv[2], strcmp(argv[1], "write") == 0, strcmp(argv[3], "atomic") == 0, atoi(argv[5]));
    }
    MPI_Finalize();
    return 0;
}
