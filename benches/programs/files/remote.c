/* remote FILE READERS BYTES: every rank writes so many bytes of the file; then the first READERS ranks read what the
 * next rank wrote, twice, and copy as much in memory.
 *
 * One reader is each rank in turn, while the others wait, and the median is told: with some keepers of files there are
 * ranks that find on their own host what another one wrote. */
#include "check.h"
#include "files.h"
#include "timing.h"

static const int64_t PIECE = 4 << 20;

enum { PASSES = 3, COPY = PASSES - 1 };
static const char *const NAMES[PASSES] = {"first", "second", "copy"};

struct reading {
    MPI_File handle;
    MPI_Offset from;
    int64_t bytes;
    char *words, *copied;
};

static void one_pass(int pass, const struct reading *reading) {
    for (int64_t done = 0; done < reading->bytes; done += PIECE) {
        char *words = reading->words + done;
        if (pass < COPY) {
            MPI_OK(MPI_File_read_at(reading->handle, reading->from + done, words, (int)PIECE, MPI_BYTE, MPI_STATUS_IGNORE));
        } else {
            memcpy(reading->copied + done, words, (size_t)PIECE);
        }
    }
}

/* How many words a pass has not brought that it should have. */
static long wrong_of(int pass, const struct reading *reading) {
    const char *words = pass < COPY ? reading->words : reading->copied;
    return differing((const int64_t *)words, reading->from / 8, reading->bytes / 8, 1);
}

void remote(const char *file, char **arguments) {
    int readers = (int)number(arguments[0]), turns = readers == 1 ? ranks : 1;
    int64_t bytes = number(arguments[1]), count = bytes / 8;
    CHECK(readers <= ranks && bytes % PIECE == 0, "not so many ranks, or bytes that are no multiple of 4 MiB");
    int64_t *words = touched((size_t)bytes), *copied = touched((size_t)bytes);
    for (int64_t i = 0; i < count; i++) words[i] = word(rank * count + i, 1);
    MPI_File handle = opened(file, MPI_MODE_CREATE | MPI_MODE_RDWR);
    for (int64_t done = 0; done < bytes; done += PIECE) {
        MPI_OK(MPI_File_write_at(handle, rank * bytes + done, (char *)words + done, (int)PIECE, MPI_BYTE, MPI_STATUS_IGNORE));
    }
    closed(&handle);

    int from = (rank + 1) % ranks;
    handle = opened(file, MPI_MODE_RDONLY);
    struct reading reading = {handle, from * bytes, bytes, (char *)words, (char *)copied};
    struct passes passes[PASSES] = {passes_of(turns), passes_of(turns), passes_of(turns)};
    long wrong = 0;
    for (int turn = 0; turn < turns; turn++) {
        int reads = readers == 1 ? rank == turn : rank < readers;
        for (int pass = 0; pass < PASSES; pass++) {
            /* What an earlier pass has brought says nothing of this one. */
            if (reads) memset(pass < COPY ? words : copied, 0xa5, (size_t)bytes);
            begin_pass(&passes[pass]);
            if (reads) one_pass(pass, &reading);
            end_pass(&passes[pass]);
            if (reads) wrong += wrong_of(pass, &reading);
        }
    }
    closed(&handle);
    for (int pass = 0; pass < PASSES; pass++) tell(NAMES[pass], median_of(&passes[pass]));
    tell_wrong(wrong);
}
