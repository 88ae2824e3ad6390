/* alone_first FILE: the first files that the program opens are those of single ranks. Where the ranks' nodes have met before,
 * each rank finds what another one has made, and all have one file where they open the same name. */
#include "check.h"

enum { INTS = 20000 };

static int numbers[INTS];

static MPI_File opened(const char *name, int mode) {
    MPI_File file;
    MPI_OK(MPI_File_open(MPI_COMM_SELF, name, mode, MPI_INFO_NULL, &file));
    return file;
}

/* Each rank writes a file of its own, and reads that of the next one. */
static void of_each(const char *beginning) {
    char name[256];
    MPI_File file;
    MPI_Status status;
    int count;
    doing = "a file of its own";
    for (int i = 0; i < INTS; i++) numbers[i] = rank * INTS + i;
    snprintf(name, sizeof name, "%s.%d", beginning, rank);
    file = opened(name, MPI_MODE_CREATE | MPI_MODE_WRONLY);
    MPI_OK(MPI_File_write(file, numbers, INTS, MPI_INT, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_close(&file));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    int next = (rank + 1) % ranks;
    doing = "the next one's file";
    snprintf(name, sizeof name, "%s.%d", beginning, next);
    file = opened(name, MPI_MODE_RDONLY);
    MPI_OK(MPI_File_read(file, numbers, INTS, MPI_INT, &status));
    MPI_OK(MPI_Get_count(&status, MPI_INT, &count));
    EQUAL(count, INTS);
    for (int i = 0; i < INTS; i++) EQUAL(numbers[i], next * INTS + i);
    MPI_OK(MPI_File_close(&file));
}

/* The first rank makes a file by itself, each of the others adds a part by itself, and then the first one reads. */
static void of_all(const char *name) {
    MPI_File file;
    doing = "a file of all, each alone";
    if (rank == 0) {
        file = opened(name, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR);
        MPI_OK(MPI_File_close(&file));
    }
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    file = opened(name, MPI_MODE_RDWR);
    for (int i = 0; i < INTS; i++) numbers[i] = rank * INTS + i;
    MPI_OK(MPI_File_write_at(file, (MPI_Offset)rank * sizeof numbers, numbers, INTS, MPI_INT, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_close(&file));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank != 0) return;
    file = opened(name, MPI_MODE_RDONLY);
    for (int from = 0; from < ranks; from++) {
        MPI_OK(MPI_File_read(file, numbers, INTS, MPI_INT, MPI_STATUS_IGNORE));
        for (int i = 0; i < INTS; i++) EQUAL(numbers[i], from * INTS + i);
    }
    MPI_OK(MPI_File_close(&file));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc == 2, "usage: alone_first FILE");
    of_each(argv[1]);
    of_all(argv[1]);
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_Finalize());
    if (rank == 0) printf("all was found\n");
    return 0;
}
