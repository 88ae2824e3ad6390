/* remote FILE READERS BYTES: every rank writes so many bytes of the file; then the first READERS ranks read what the
 * next rank wrote, twice, and copy as much in memory. */
#include "check.h"
#include "files.h"
#include "timing.h"

static const int64_t PIECE = 4 << 20;

void remote(const char *file, char **arguments) {
    int readers = (int)number(arguments[0]);
    int64_t bytes = number(arguments[1]), count = bytes / 8;
    CHECK(readers <= ranks && bytes % PIECE == 0, "not so many ranks, or bytes that are no multiple of 4 MiB");
    int64_t *words = touched((size_t)bytes);
    for (int64_t i = 0; i < count; i++) words[i] = word(rank * count + i, 1);
    MPI_File handle = opened(file, MPI_MODE_CREATE | MPI_MODE_RDWR);
    for (int64_t done = 0; done < bytes; done += PIECE) {
        MPI_OK(MPI_File_write_at(handle, rank * bytes + done, (char *)words + done, (int)PIECE, MPI_BYTE, MPI_STATUS_IGNORE));
    }
    closed(&handle);

    int from = (rank + 1) % ranks;
    int64_t *copied = touched((size_t)bytes);
    handle = opened(file, MPI_MODE_RDONLY);
    for (int pass = 0; pass < 3; pass++) {
        double since = started();
        for (int64_t done = 0; rank < readers && done < bytes; done += PIECE) {
            if (pass < 2) {
                MPI_OK(MPI_File_read_at(handle, from * bytes + done, (char *)words + done, (int)PIECE, MPI_BYTE, MPI_STATUS_IGNORE));
            } else {
                memcpy((char *)copied + done, (char *)words + done, (size_t)PIECE);
            }
        }
        tell_time(pass == 0 ? "first" : pass == 1 ? "second" : "copy", rank < readers ? since : MPI_Wtime());
    }
    closed(&handle);
    tell_wrong(rank < readers ? differing(copied, from * count, count, 1) : 0);
}
