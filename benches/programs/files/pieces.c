/* pieces FILE HOW COUNT: the file is written in blocks, one of each rank, so that it lies with all of them; then every
 * rank writes COUNT pieces of 8 bytes, those of all ranks interleaved: with HOW "collective" in one call of all ranks,
 * "view" in one call of its own, "calls" in one call for each piece. What is timed ends when all is in its place.
 *
 * messages FILE COUNT: the same without a file. Each piece is sent to the rank that it belongs to, and the next one
 * when that has told that it is there. As of those in the file, as many belong to the rank itself as to each other one:
 * of these nobody is told. */
#include "check.h"
#include "files.h"
#include "timing.h"

static MPI_File placed(const char *file, int64_t count) {
    int64_t *words = touched((size_t)count * sizeof *words);
    MPI_File handle = opened(file, MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_OK(MPI_File_write_at(handle, rank * count * 8, words, (int)count, MPI_INT64_T, MPI_STATUS_IGNORE));
    free(words);
    closed(&handle);
    return opened(file, MPI_MODE_RDWR);
}

static long differing_block(const char *file, int64_t count) {
    /* Another rank's block: what was written there was not kept at home. */
    int64_t first = (rank + 1) % ranks * count;
    int64_t *words = touched((size_t)count * sizeof *words);
    MPI_File handle = opened(file, MPI_MODE_RDONLY);
    MPI_OK(MPI_File_read_at(handle, first * 8, words, (int)count, MPI_INT64_T, MPI_STATUS_IGNORE));
    closed(&handle);
    long wrong = differing(words, first, count, 2);
    free(words);
    return wrong;
}

void pieces(const char *file, char **arguments) {
    const char *how = arguments[0];
    int64_t count = number(arguments[1]);
    MPI_File handle = placed(file, count);
    int64_t *words = touched((size_t)count * sizeof *words);
    for (int64_t i = 0; i < count; i++) words[i] = word(i * ranks + rank, 2);
    if (strcmp(how, "calls") != 0) {
        MPI_Datatype one;
        MPI_OK(MPI_Type_create_resized(MPI_INT64_T, 0, ranks * 8, &one));
        MPI_OK(MPI_Type_commit(&one));
        MPI_OK(MPI_File_set_view(handle, rank * 8, MPI_INT64_T, one, "native", MPI_INFO_NULL));
    }
    double since = started();
    if (strcmp(how, "collective") == 0) {
        MPI_OK(MPI_File_write_all(handle, words, (int)count, MPI_INT64_T, MPI_STATUS_IGNORE));
    } else if (strcmp(how, "view") == 0) {
        MPI_OK(MPI_File_write(handle, words, (int)count, MPI_INT64_T, MPI_STATUS_IGNORE));
    } else {
        CHECK(strcmp(how, "calls") == 0, "neither collective, view nor calls: %s", how);
        for (int64_t i = 0; i < count; i++) {
            MPI_OK(MPI_File_write_at(handle, (i * ranks + rank) * 8, &words[i], 1, MPI_INT64_T, MPI_STATUS_IGNORE));
        }
    }
    MPI_OK(MPI_File_sync(handle));
    tell_time("write", since);
    closed(&handle);
    tell_wrong(differing_block(file, count));
}

void messages(const char *file, char **arguments) {
    (void)file;
    int64_t count = number(arguments[0]);
    int64_t *own = touched((size_t)count * sizeof *own);
    double since = 0;
    /* The first round makes the connections. */
    for (int is_timed = 0; is_timed < 2; is_timed++) {
        since = started();
        for (int64_t i = 0; i < count; i++) {
            int distance = (int)(i % ranks), to = (rank + distance) % ranks;
            int from = (rank + ranks - distance) % ranks;
            int64_t piece = word(i * ranks + rank, is_timed), arrived;
            char there = 1, is_there;
            if (to == rank) {
                own[i] = piece;
                continue;
            }
            MPI_OK(MPI_Sendrecv(&piece, 1, MPI_INT64_T, to, 0, &arrived, 1, MPI_INT64_T, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            own[i] = arrived;
            MPI_OK(MPI_Sendrecv(&there, 1, MPI_CHAR, from, 1, &is_there, 1, MPI_CHAR, to, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        }
    }
    tell_time("write", since);
    long wrong = 0;
    for (int64_t i = 0; i < count; i++) {
        wrong += own[i] != word(i * ranks + (rank + ranks - (int)(i % ranks)) % ranks, 1);
    }
    tell_wrong(wrong);
    free(own);
}
