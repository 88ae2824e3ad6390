/* remote FILE READERS BYTES: every rank writes so many bytes of the file; then the first READERS ranks read what the
 * next rank wrote, twice, and copy as much in memory.
 *
 * remote-view FILE READERS BYTES PIECE: the same of every second piece of so many bytes, through a view.
 *
 * One reader is each rank in turn, while the others wait, and the median is told: with some keepers of files there are
 * ranks that find on their own host what another one wrote. */
#include "check.h"
#include "files.h"
#include "timing.h"

/* Bytes of a call. */
static const int64_t CALL = 4 << 20;

enum { PASSES = 3, COPY = PASSES - 1 };
static const char *const NAMES[PASSES] = {"first", "second", "copy"};

struct reading {
    MPI_File handle;
    /* Where it begins in the file, and in what the file's view shows. */
    MPI_Offset from, shown;
    /* As many pieces are read, each `apart` bytes behind the one before: all, where a piece has as many. */
    int64_t piece, apart, pieces;
    /* What is read, one piece behind the other; what is copied, likewise, and from where. */
    char *words, *copied, *between;
};

/* Has the view show only what is to be read. */
static void show(struct reading *reading) {
    MPI_Datatype pieces;
    MPI_OK(MPI_Type_vector((int)reading->pieces, (int)reading->piece, (int)reading->apart, MPI_BYTE, &pieces));
    MPI_OK(MPI_Type_commit(&pieces));
    MPI_OK(MPI_File_set_view(reading->handle, reading->from, MPI_BYTE, pieces, "native", MPI_INFO_NULL));
    MPI_OK(MPI_Type_free(&pieces));
    reading->shown = 0;
}

static void copy(const struct reading *reading) {
    int64_t at_once = reading->apart == reading->piece ? CALL : reading->piece;
    int64_t times = reading->pieces * reading->piece / at_once, apart = at_once * reading->apart / reading->piece;
    for (int64_t i = 0; i < times; i++) {
        memcpy(reading->copied + i * at_once, reading->between + i * apart, (size_t)at_once);
    }
}

static void one_pass(int pass, const struct reading *reading) {
    if (pass == COPY) {
        copy(reading);
        return;
    }
    for (int64_t done = 0; done < reading->pieces * reading->piece; done += CALL) {
        MPI_Offset at = reading->shown + done;
        MPI_OK(MPI_File_read_at(reading->handle, at, reading->words + done, (int)CALL, MPI_BYTE, MPI_STATUS_IGNORE));
    }
}

/* How many words a pass has not brought that it should have. */
static long wrong_of(int pass, const struct reading *reading) {
    const char *words = pass < COPY ? reading->words : reading->copied;
    MPI_Offset from = pass < COPY ? reading->from : 0;
    long wrong = 0;
    for (int64_t i = 0; i < reading->pieces; i++) {
        const int64_t *piece = (const int64_t *)(words + i * reading->piece);
        wrong += differing(piece, (from + i * reading->apart) / 8, reading->piece / 8, 1);
    }
    return wrong;
}

/* `piece` is 0 where all is read. */
static void measure(const char *file, int readers, int64_t bytes, int64_t piece) {
    int turns = readers == 1 ? ranks : 1;
    int64_t count = bytes / 8;
    int64_t read = piece == 0 ? bytes : bytes / 2;
    CHECK(readers <= ranks && read % CALL == 0, "not so many ranks, or bytes that are no whole number of calls");
    CHECK(piece == 0 || (piece % 8 == 0 && CALL % piece == 0), "pieces are words, and a call has whole ones");
    int64_t *words = touched((size_t)bytes), *copied = touched((size_t)bytes), *between = touched((size_t)bytes);
    for (int64_t i = 0; i < count; i++) {
        words[i] = word(rank * count + i, 1);
        between[i] = word(i, 1);
    }
    MPI_File handle = opened(file, MPI_MODE_CREATE | MPI_MODE_RDWR);
    for (int64_t done = 0; done < bytes; done += CALL) {
        MPI_OK(MPI_File_write_at(handle, rank * bytes + done, (char *)words + done, (int)CALL, MPI_BYTE, MPI_STATUS_IGNORE));
    }
    closed(&handle);

    int from = (rank + 1) % ranks;
    handle = opened(file, MPI_MODE_RDONLY);
    struct reading reading = {
        .handle = handle, .from = from * bytes, .shown = from * bytes,
        .piece = piece == 0 ? CALL : piece, .apart = piece == 0 ? CALL : 2 * piece,
        .words = (char *)words, .copied = (char *)copied, .between = (char *)between,
    };
    reading.pieces = read / reading.piece;
    if (piece != 0) show(&reading);
    struct passes passes[PASSES] = {passes_of(turns), passes_of(turns), passes_of(turns)};
    long wrong = 0;
    for (int turn = 0; turn < turns; turn++) {
        int reads = readers == 1 ? rank == turn : rank < readers;
        for (int pass = 0; pass < PASSES; pass++) {
            /* What an earlier pass has brought says nothing of this one. */
            if (reads) memset(pass < COPY ? words : copied, 0xa5, (size_t)read);
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

void remote(const char *file, char **arguments) {
    measure(file, (int)number(arguments[0]), number(arguments[1]), 0);
}

void remote_view(const char *file, char **arguments) {
    measure(file, (int)number(arguments[0]), number(arguments[1]), number(arguments[2]));
}
