/* open-close FILE COUNT: a file that exists is opened by all ranks and closed again, so many times. What is told is the
 * time of one of them; and of what is the least that it can be: each rank opens and closes a file of the system, and all
 * ranks agree twice. */
#include <fcntl.h>
#include <unistd.h>

#include "check.h"
#include "files.h"
#include "timing.h"

enum { WORDS = 512 };

/* Each time all ranks agree on whether it has worked. */
static void agree(int works) {
    int all;
    MPI_OK(MPI_Allreduce(&works, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    CHECK(all, "/dev/null cannot be opened and closed");
}

static void tell_floor(int64_t count) {
    double since = started();
    for (int64_t i = 0; i < count; i++) {
        int file = open("/dev/null", O_RDWR | O_CLOEXEC);
        agree(file >= 0);
        agree(close(file) == 0);
    }
    tell("floor", longest_since(since) / (double)count);
}

void open_close(const char *file, char **arguments) {
    int64_t count = number(arguments[0]), words[WORDS];
    for (int i = 0; i < WORDS; i++) words[i] = word(rank * WORDS + i, 1);
    MPI_Offset own = rank * (MPI_Offset)sizeof words;
    MPI_File handle = opened(file, MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_OK(MPI_File_write_at(handle, own, words, WORDS, MPI_INT64_T, MPI_STATUS_IGNORE));
    closed(&handle);

    double since = started();
    for (int64_t i = 0; i < count; i++) {
        handle = opened(file, MPI_MODE_RDWR);
        closed(&handle);
    }
    tell("pair", longest_since(since) / (double)count);
    tell_floor(count);

    int next = (rank + 1) % ranks;
    memset(words, 0, sizeof words);
    handle = opened(file, MPI_MODE_RDONLY);
    MPI_OK(MPI_File_read_at(handle, next * (MPI_Offset)sizeof words, words, WORDS, MPI_INT64_T, MPI_STATUS_IGNORE));
    closed(&handle);
    tell_wrong(differing(words, next * WORDS, WORDS, 1));
}
