/* come_and_go FILES ROUNDS SEED: each rank, by itself, makes, opens, fills, reads, shortens and removes files of three names, as all
 * others do at the same time. A name that is not there, or is there already, is what may happen; nothing else. */
#include "check.h"

enum { NAMES = 3, BYTES = 5000 };

static char bytes[BYTES];

static void use(MPI_File file, int may_write) {
    if (may_write) {
        memset(bytes, rank + 1, BYTES);
        MPI_OK(MPI_File_write_at(file, (MPI_Offset)rank * BYTES, bytes, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
        if (rand() % 2) MPI_OK(MPI_File_sync(file));
        if (rand() % 8 == 0) MPI_OK(MPI_File_set_size(file, rand() % (4 * BYTES)));
    }
    MPI_OK(MPI_File_read_at(file, 0, bytes, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_close(&file));
}

static void round_of(const char *name) {
    const int modes[] = {MPI_MODE_RDONLY, MPI_MODE_RDWR | MPI_MODE_CREATE,
                         MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL};
    const int may_be[] = {MPI_ERR_NO_SUCH_FILE, MPI_SUCCESS, MPI_ERR_FILE_EXISTS};
    int what = rand() % 4;
    if (what == 3) {
        doing = "removing a file";
        int code = MPI_File_delete(name, MPI_INFO_NULL);
        if (class_of(code) != MPI_ERR_NO_SUCH_FILE) MPI_OK(code);
        return;
    }
    MPI_File file;
    doing = "opening a file";
    int code = MPI_File_open(MPI_COMM_SELF, name, modes[what], MPI_INFO_NULL, &file);
    if (code != MPI_SUCCESS && class_of(code) == may_be[what]) return;
    MPI_OK(code);
    doing = "using a file";
    use(file, what > 0);
}

int main(int argc, char **argv) {
    char name[256];
    begin(&argc, &argv);
    CHECK(argc == 4, "usage: come_and_go FILES ROUNDS SEED");
    srand((unsigned)(atoi(argv[3]) * 1000 + rank));
    for (int round = 0; round < atoi(argv[2]); round++) {
        snprintf(name, sizeof name, "%s.%d", argv[1], rand() % NAMES);
        round_of(name);
    }
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_Finalize());
    if (rank == 0) printf("they came and went\n");
    return 0;
}
