/* appended FILE: a file is opened to append, when one rank's node may know of more bytes than the others', as nobody has
 * synced. All ranks find the pointers at the same place, go on from there in turn, and each open has pointers of its
 * own; so it is in sequential mode. */
#include "check.h"

enum { BYTES = 100 };

static const char *name;

/* A file opened to append, whose pointers are at its end: at `end`. */
static MPI_File opened(int amode, MPI_Offset end) {
    MPI_File file;
    MPI_Offset place;
    int told;
    amode |= MPI_MODE_APPEND;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, name, amode, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_get_amode(file, &told));
    EQUAL(told, amode);
    if (!(amode & MPI_MODE_SEQUENTIAL)) {
        MPI_OK(MPI_File_get_position(file, &place));
        EQUAL(place, end);
        MPI_OK(MPI_File_get_position_shared(file, &place));
        EQUAL(place, end);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return file;
}

static void written_alone(MPI_File file) {
    char bytes[BYTES];
    memset(bytes, 'a', BYTES);
    if (rank == 1) MPI_OK(MPI_File_write_at(file, 0, bytes, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
}

static void write_in_turn(MPI_File file) {
    char own = 'A' + rank;
    MPI_OK(MPI_File_write_ordered(file, &own, 1, MPI_BYTE, MPI_STATUS_IGNORE));
}

static void found(MPI_Offset size) {
    MPI_File file;
    char bytes[2 * BYTES];
    MPI_Offset told;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_get_size(file, &told));
    EQUAL(told, size);
    MPI_OK(MPI_File_read_at_all(file, 0, bytes, size, MPI_BYTE, MPI_STATUS_IGNORE));
    for (int at = 0; at < size; at++) EQUAL(bytes[at], at < BYTES ? 'a' : 'A' + (at - BYTES) % ranks);
    MPI_OK(MPI_File_close(&file));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc == 2, "usage: appended FILE");
    name = argv[1];
    MPI_File alone = MPI_FILE_NULL, first, second;
    int amode = MPI_MODE_CREATE | MPI_MODE_RDWR;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, name, amode, MPI_INFO_NULL, &first));
    MPI_OK(MPI_File_close(&first));
    if (rank == 1) MPI_OK(MPI_File_open(MPI_COMM_SELF, name, amode, MPI_INFO_NULL, &alone));
    written_alone(alone);

    doing = "the first open";
    first = opened(MPI_MODE_WRONLY, BYTES);
    write_in_turn(first);
    MPI_OK(MPI_File_sync(first));
    doing = "the second open";
    second = opened(MPI_MODE_RDWR, BYTES + ranks);
    write_in_turn(second);
    MPI_OK(MPI_File_close(&second));
    MPI_OK(MPI_File_close(&first));
    doing = "sequential mode";
    first = opened(MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL, BYTES + 2 * ranks);
    write_in_turn(first);
    MPI_OK(MPI_File_close(&first));
    doing = "what was written";
    if (rank == 1) MPI_OK(MPI_File_close(&alone));
    MPI_Barrier(MPI_COMM_WORLD);
    found(BYTES + 3 * ranks);
    doing = "";
    if (rank == 0) printf("all have appended\n");
    MPI_Finalize();
    return 0;
}
