/* apart FILE BLOCK CALLS: each rank writes blocks into a region of its own, which has been written before, by so many
 * calls: independent ones, collective ones, and collective ones at whose end each is to hear of all. What is told is the
 * time of a call. */
#include "check.h"
#include "files.h"
#include "timing.h"

/* Bytes of a rank's region; a collective call in a row before anything is timed. */
enum { REGION = 16 << 20, BEFORE = 300 };

typedef int writing(MPI_File, MPI_Offset, const void *, int, MPI_Datatype, MPI_Status *);

static struct kind {
    const char *name;
    writing *write;
    MPI_File handle;
    struct passes passes;
} kinds[] = {
    {.name = "independent", .write = MPI_File_write_at},
    {.name = "collective", .write = MPI_File_write_at_all},
    {.name = "shared", .write = MPI_File_write_at_all},
};
enum { KINDS = sizeof kinds / sizeof *kinds, SHARED = KINDS - 1 };

/* The first word of each block tells who wrote it. */
static void write_blocks(const struct kind *kind, int64_t *buffer, int64_t block, int64_t calls) {
    buffer[0] = word(kind - kinds, rank);
    for (int64_t i = 0; i < calls; i++) {
        MPI_Offset at = rank * (MPI_Offset)REGION + i % (REGION / block) * block;
        MPI_OK(kind->write(kind->handle, at, buffer, (int)block, MPI_BYTE, MPI_STATUS_IGNORE));
    }
}

/* How many words are not what so many of this kind's calls have written last. */
static long wrong_of(const struct kind *kind, int64_t *buffer, int64_t block, int64_t calls) {
    int64_t blocks = REGION / block;
    long wrong = 0;
    for (int64_t i = 0; i < (calls < blocks ? calls : blocks); i++) {
        /* The block before it is nearly the same. */
        memset(buffer, 0xa5, (size_t)block);
        MPI_Offset at = rank * (MPI_Offset)REGION + i * block;
        MPI_OK(MPI_File_read_at(kind->handle, at, buffer, (int)block, MPI_BYTE, MPI_STATUS_IGNORE));
        wrong += (buffer[0] != word(kind - kinds, rank)) + differing(buffer + 1, 1, block / 8 - 1, rank);
    }
    return wrong;
}

void apart(const char *file, char **arguments) {
    int64_t block = number(arguments[0]), calls = number(arguments[1]);
    CHECK(block <= REGION, "blocks of more than a rank's region");
    int64_t *buffer = touched(2 * REGION);
    for (int64_t i = 0; i < REGION / 8; i++) buffer[i] = word(i, rank);
    MPI_Info info;
    MPI_OK(MPI_Info_create(&info));
    MPI_OK(MPI_Info_set(info, "svm_outcome", "shared"));
    for (int i = 0; i < KINDS; i++) {
        kinds[i].passes = passes_of(5);
        MPI_Info hints = i == SHARED ? info : MPI_INFO_NULL;
        MPI_OK(MPI_File_open(MPI_COMM_WORLD, file, MPI_MODE_CREATE | MPI_MODE_RDWR, hints, &kinds[i].handle));
        write_blocks(&kinds[i], buffer, REGION, 1);
        write_blocks(&kinds[i], buffer, 8, BEFORE);
    }
    MPI_Info_free(&info);
    long wrong = 0;
    while (is_wanting(&kinds[SHARED].passes)) {
        for (int i = 0; i < KINDS; i++) {
            begin_pass(&kinds[i].passes);
            write_blocks(&kinds[i], buffer, block, calls);
            end_pass(&kinds[i].passes);
            wrong += wrong_of(&kinds[i], buffer + REGION / 8, block, calls);
        }
    }
    for (int i = 0; i < KINDS; i++) {
        tell(kinds[i].name, median_of(&kinds[i].passes) / (double)calls);
        closed(&kinds[i].handle);
    }
    tell_wrong(wrong);
    free(buffer);
}
