/* ordered-then FILE: what ordered and collective writes have written is what the next collective read finds, of whatever
 * kind, without a sync; one that does not block after ordered writes alone, which all ranks have waited for. */
#include "check.h"

enum { MOST = 16 };
typedef void write_function(MPI_File, int);
typedef void read_function(MPI_File, int *);

static void write_ordered(MPI_File file, int value) {
    MPI_OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    MPI_OK(MPI_File_write_ordered(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
}

static void write_ordered_split(MPI_File file, int value) {
    MPI_Status status;
    MPI_OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    MPI_OK(MPI_File_write_ordered_begin(file, &value, 1, MPI_INT));
    MPI_OK(MPI_File_write_ordered_end(file, &value, &status));
}

static void iwrite_at_all(MPI_File file, int value) {
    MPI_Request request;
    MPI_OK(MPI_File_iwrite_at_all(file, rank, &value, 1, MPI_INT, &request));
    MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void read_at_all(MPI_File file, int *found) {
    MPI_OK(MPI_File_read_at_all(file, 0, found, ranks, MPI_INT, MPI_STATUS_IGNORE));
}

static void iread_at_all(MPI_File file, int *found) {
    MPI_Request request;
    MPI_OK(MPI_File_iread_at_all(file, 0, found, ranks, MPI_INT, &request));
    MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

/* Each what the next rank reads: the shared pointer is moved before, which shows what was written until then. */
static void write_for_next(MPI_File file, int value) {
    int next = (rank + 1) % ranks;
    MPI_OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    MPI_OK(MPI_File_write_at_all(file, next, &(int){value - rank + next}, 1, MPI_INT, MPI_STATUS_IGNORE));
}

static void read_in_order(MPI_File file, int *found) {
    MPI_OK(MPI_File_read_ordered(file, &found[rank], 1, MPI_INT, MPI_STATUS_IGNORE));
    MPI_OK(MPI_Allgather(MPI_IN_PLACE, 1, MPI_INT, found, 1, MPI_INT, MPI_COMM_WORLD));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    HOLDS(argc == 2 && ranks <= MOST);
    struct {
        const char *name;
        write_function *writes;
        read_function *reads;
    } pairs[] = {
        {"ordered, then read_at_all", write_ordered, read_at_all},
        {"ordered, then iread_at_all", write_ordered, iread_at_all},
        {"split ordered, then read_at_all", write_ordered_split, read_at_all},
        {"split ordered, then iread_at_all", write_ordered_split, iread_at_all},
        {"nonblocking, then read_at_all", iwrite_at_all, read_at_all},
        {"collective, then ordered", write_for_next, read_in_order},
    };
    MPI_File file;
    int mode = MPI_MODE_CREATE | MPI_MODE_RDWR, value = 0;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], mode, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    for (int turn = 0; turn < 3; turn++)
        for (size_t pair = 0; pair < sizeof pairs / sizeof *pairs; pair++) {
            doing = pairs[pair].name;
            int found[MOST] = {0};
            value += MOST;
            pairs[pair].writes(file, value + rank);
            pairs[pair].reads(file, found);
            for (int i = 0; i < ranks; i++) EQUAL(found[i], value + i);
            /* Nobody writes what another one reads. */
            MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
        }
    MPI_OK(MPI_File_close(&file));
    if (rank == 0) printf("all was found\n");
    MPI_OK(MPI_Finalize());
    return 0;
}
