/* Writes, syncs, and notes in a log what has been synced, until it is killed; or, in the next job, looks whether all of
 * that is there, and goes on.
 *
 * The file: a header of 1,000 bytes per rank, rewritten in each round, then a block per round and rank. */
#include <fcntl.h>
#include <unistd.h>

#include "check.h"
#include "random.h"

enum { HEADER = 1000, BLOCK = 5003 };
static unsigned char block[BLOCK], found[BLOCK];

static void fill(unsigned char *to, int of_rank, int round, int bytes) {
    memcpy(to, &round, 4);
    for (int i = 4; i < bytes; i++) to[i] = byte_at((uint64_t)(of_rank + 1) << 20 | (uint64_t)round, (uint64_t)i);
}

static MPI_Offset place(int of_rank, int round) {
    return (MPI_Offset)HEADER * ranks + (MPI_Offset)BLOCK * ((MPI_Offset)round * ranks + of_rank);
}

static void write_round(MPI_File file, int round) {
    MPI_Request request;
    fill(block, rank, round, BLOCK);
    switch (round % 3) {
    case 0: MPI_OK(MPI_File_write_at(file, place(rank, round), block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE)); break;
    case 1: MPI_OK(MPI_File_write_at_all(file, place(rank, round), block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE)); break;
    default:
        MPI_OK(MPI_File_iwrite_at(file, place(rank, round), block, BLOCK, MPI_BYTE, &request));
        MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    fill(block, rank, round, HEADER);
    MPI_OK(MPI_File_write_at(file, (MPI_Offset)HEADER * rank, block, HEADER, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_sync(file));
}

/* A line that is in the log once this returns, whatever becomes of the process. */
static void note(int log, int round) {
    char line[64];
    int length = snprintf(line, sizeof line, "%d %d\n", rank, round);
    CHECK(write(log, line, (size_t)length) == length && fsync(log) == 0, "the log cannot be written");
}

/* That each rank's blocks are there up to the last round that it noted. */
static void check_blocks(MPI_File file, int of_rank, int last) {
    int header;
    for (int round = 0; round <= last; round++) {
        MPI_OK(MPI_File_read_at(file, place(of_rank, round), found, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
        fill(block, of_rank, round, BLOCK);
        CHECK(memcmp(found, block, BLOCK) == 0, "rank %d's block of round %d is not there", of_rank, round);
    }
    MPI_OK(MPI_File_read_at(file, (MPI_Offset)HEADER * of_rank, &header, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(header >= last, "rank %d's header is of round %d, %d was synced", of_rank, header, last);
}

static void write_until_killed(const char *name, const char *log_name, const char *directory) {
    char path[4096];
    MPI_File file;
    MPI_Info info;
    int log = open(log_name, O_WRONLY | O_CREAT | O_APPEND, 0600);
    snprintf(path, sizeof path, "%s/%d", directory, rank);
    FILE *own = fopen(path, "w");
    CHECK(log >= 0 && own != NULL, "%s or %s cannot be written", log_name, path);
    fprintf(own, "%d\n", (int)getpid());
    fclose(own);
    MPI_Info_create(&info);
    MPI_Info_set(info, "svm_segment_size", "65536");
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR, info, &file));
    for (int round = 0;; round++) {
        write_round(file, round);
        note(log, round);
    }
}

static void go_on(const char *name, char **last_rounds) {
    enum { MORE = 4 };
    MPI_File file;
    int next = 0;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    for (int r = 0; r < ranks; r++) {
        check_blocks(file, r, atoi(last_rounds[r]));
        if (next <= atoi(last_rounds[r])) next = atoi(last_rounds[r]) + 1;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = next; round < next + MORE; round++) write_round(file, round);
    MPI_OK(MPI_File_close(&file));
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    check_blocks(file, (rank + 1) % ranks, atoi(last_rounds[(rank + 1) % ranks]));
    for (int round = next; round < next + MORE; round++) {
        MPI_OK(MPI_File_read_at_all(file, place(rank, round), found, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
        fill(block, rank, round, BLOCK);
        CHECK(memcmp(found, block, BLOCK) == 0, "the new block of round %d is not there", round);
    }
    MPI_OK(MPI_File_close(&file));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    if (argc == 5 && strcmp(argv[1], "write") == 0) {
        write_until_killed(argv[2], argv[3], argv[4]);
    } else {
        CHECK(argc == 3 + ranks && strcmp(argv[1], "go-on") == 0,
              "usage: killed write NAME LOG DIRECTORY, or killed go-on NAME LAST-ROUND-OF-RANK-0 ...");
        go_on(argv[2], argv + 3);
        if (rank == 0) printf("all is there\n");
    }
    MPI_Finalize();
    return 0;
}
