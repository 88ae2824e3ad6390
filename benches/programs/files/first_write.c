/* first-write FILE BLOCK BYTES ROUNDS: every rank writes so many bytes of a new file, in blocks in a region of its own; from
 * opening to closing. Then the file is deleted, and the next round writes another one. What is told is the time of the
 * first, where there was none before it, and the median of the others, of which each follows one that was deleted. */
#include "check.h"
#include "files.h"
#include "timing.h"

static void write_own(const char *file, const int64_t *words, int64_t block, int64_t bytes) {
    MPI_File handle = opened(file, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR);
    for (int64_t done = 0; done < bytes; done += block) {
        MPI_OK(MPI_File_write_at(handle, rank * bytes + done, words + done / 8, (int)block, MPI_BYTE, MPI_STATUS_IGNORE));
    }
    closed(&handle);
}

static long wrong_of_next(const char *file, int64_t *words, int64_t block, int64_t bytes, int round) {
    int64_t next = (rank + 1) % ranks;
    long wrong = 0;
    MPI_File handle = opened(file, MPI_MODE_RDONLY);
    for (int64_t done = 0; done < bytes; done += block) {
        MPI_OK(MPI_File_read_at(handle, next * bytes + done, words, (int)block, MPI_BYTE, MPI_STATUS_IGNORE));
        wrong += differing(words, (next * bytes + done) / 8, block / 8, round);
    }
    closed(&handle);
    return wrong;
}

void first_write(const char *file, char **arguments) {
    int64_t block = number(arguments[0]), bytes = number(arguments[1]), rounds = number(arguments[2]);
    CHECK(block % 8 == 0 && bytes % block == 0 && rounds > 1, "whole blocks of whole words, and more than one round");
    int64_t *words = touched((size_t)bytes), *read = touched((size_t)block);
    struct passes first = passes_of(1), others = passes_of(rounds - 1);
    long wrong = 0;
    for (int round = 0; first.count == 0 || is_wanting(&others); round++) {
        struct passes *passes = round == 0 ? &first : &others;
        char name[4096];
        snprintf(name, sizeof name, "%s.%d", file, round);
        for (int64_t i = 0; i < bytes / 8; i++) words[i] = word(rank * (bytes / 8) + i, round);
        begin_pass(passes);
        write_own(name, words, block, bytes);
        end_pass(passes);
        wrong += wrong_of_next(name, read, block, bytes, round);
        calm_barrier();
        if (rank == 0) MPI_OK(MPI_File_delete(name, MPI_INFO_NULL));
    }
    tell_moved("first", median_of(&first), bytes * ranks);
    tell_moved("again", median_of(&others), bytes * ranks);
    tell_wrong(wrong);
    free(words);
    free(read);
}
