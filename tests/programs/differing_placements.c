/* differing_placements FILE: ranks ask for different placements of new segments, and some for none. They write together
 * all the same, to new segments and to those that are there, are told the same placement, and what each has written is
 * there. Rank 0 tells which placements were in force. */
#include "check.h"

enum { BYTES = 1 << 16, WISHES = 4, WRITES = 30, NEW = 5 };

/* What a rank asks for in a round; nothing where that is null. */
static const char *wish_of(int who, int round) {
    static const char *const wishes[WISHES] = {"round_robin", "block", NULL, "first_touch"};
    return wishes[(who + round) % WISHES];
}

static void fill(unsigned char *bytes, int number, int who) {
    memset(bytes, number * 7 + who + 1, BYTES);
}

/* The number of the segment-sized part of the file that a rank writes by its `number`-th write: for the most part the
 * same ones again. */
static MPI_Offset part_of(int number, int who) {
    return (MPI_Offset)(number % WRITES < WRITES - NEW ? 0 : number % WRITES - (WRITES - NEW) + 1) * ranks + who;
}

static void write_together(const char *name, int round) {
    static unsigned char bytes[BYTES], found[BYTES];
    const char *wish = wish_of(rank, round);
    MPI_File file;
    MPI_Info info;
    char told[64] = "", first[64];
    int flag, next = (rank + 1) % ranks;
    MPI_Info_create(&info);
    MPI_Info_set(info, "svm_segment_size", "64K");
    if (wish) MPI_Info_set(info, "svm_placement", wish);
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    MPI_Info_free(&info);
    MPI_OK(MPI_File_get_info(file, &info));
    MPI_Info_get(info, "svm_placement", sizeof told - 1, told, &flag);
    MPI_Info_free(&info);
    memcpy(first, told, sizeof first);
    MPI_Bcast(first, sizeof first, MPI_CHAR, 0, MPI_COMM_WORLD);
    CHECK(flag && strcmp(told, first) == 0, "%s is in force, and on rank 0 %s", told, first);
    if (wish_of(0, round)) CHECK(strcmp(first, wish_of(0, round)) == 0, "%s is in force", first);
    if (rank == 0) printf("round %d: %s is in force\n", round, first);

    for (int i = 0; i < WRITES; i++) {
        fill(bytes, i, rank);
        MPI_OK(MPI_File_write_at_all(file, part_of(i, rank) * BYTES, bytes, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    }
    MPI_OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_OK(MPI_File_sync(file));
    for (int i = WRITES - NEW - 1; i < WRITES; i++) {
        fill(bytes, i, next);
        MPI_OK(MPI_File_read_at_all(file, part_of(i, next) * BYTES, found, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK(memcmp(bytes, found, BYTES) == 0, "what rank %d wrote at last but %d is not there", next, WRITES - 1 - i);
    }
    MPI_OK(MPI_File_close(&file));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc == 2, "usage: differing_placements FILE");
    /* First each in a file of its own; then in one that is there already, and keeps the placement of before where rank 0
       asks for none. */
    for (int round = 0; round < 2 * WISHES; round++) {
        char name[256];
        snprintf(name, sizeof name, "%s/%d", argv[1], round < WISHES ? round : WISHES);
        doing = wish_of(0, round) ? wish_of(0, round) : "none";
        write_together(name, round);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("placed together\n");
    MPI_Finalize();
    return 0;
}
