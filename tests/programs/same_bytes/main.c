/* Writes files NAME.contiguous, NAME.strided, ... each by one kind of access, and NAME.random-SEED by any, through random
 * datatypes; what MPI is to make of them does not depend on who keeps the files. */
#include "parts.h"

int nonblocking_collectives;

void fill(void *buffer, int of_rank, long position, long bytes) {
    unsigned char *to = buffer;
    for (long i = 0; i < bytes; i++) to[i] = byte_at((uint64_t)of_rank + 1, (uint64_t)(position + i));
}

static MPI_File open_new(const char *name, const char *addition) {
    static char text[1024];
    MPI_File file;
    snprintf(text, sizeof text, "%s.%s", name, addition);
    doing = text;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, text, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    return file;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*write)(MPI_File);
        int is_nonblocking_collective;
    } kinds[] = {
        {"contiguous", write_contiguous, 0},   {"strided", write_strided, 0},
        {"collective", write_collective, 0},   {"shared", write_shared, 0},
        {"nonblocking", write_nonblocking, 0}, {"external32", write_external32, 0},
        {"nonblocking-collective", write_nonblocking_collective, 1},
    };
    begin(&argc, &argv);
    CHECK(argc == 5, "usage: same_bytes NAME all|without-nonblocking-collectives FIRST-SEED SEEDS");
    nonblocking_collectives = strcmp(argv[2], "all") == 0;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        if (kinds[k].is_nonblocking_collective && !nonblocking_collectives) continue;
        MPI_File file = open_new(argv[1], kinds[k].name);
        kinds[k].write(file);
        MPI_OK(MPI_File_close(&file));
    }
    int first = atoi(argv[3]), seeds = atoi(argv[4]);
    for (int seed = first; seed < first + seeds; seed++) {
        char addition[40];
        snprintf(addition, sizeof addition, "random-%d", seed);
        MPI_File file = open_new(argv[1], addition);
        write_random(file, seed);
        MPI_OK(MPI_File_close(&file));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("all files are written\n");
    MPI_Finalize();
    return 0;
}
