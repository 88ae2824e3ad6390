/* ior FILE LAYOUT BLOCK BYTES PASSES: every rank writes and reads so many bytes in blocks, each in an independent call. With
 * LAYOUT "own" it has a region of the file for itself (IOR's easy case), with "interleaved" the blocks of all ranks follow
 * each other in turn (its hard one: 47,008 bytes). A rank reads what the next one wrote. First a new file is written, then
 * it is written again.
 *
 * small FILE BYTES PASSES: the same in blocks of 4 KiB in regions. */
#include "check.h"
#include "files.h"
#include "timing.h"

struct layout {
    int is_interleaved;
    int64_t block, count; /* bytes of one, and how many of each rank */
    MPI_File handle;
    int64_t *buffer; /* for one: the first word tells which one it is, the others are the same in all of a rank's */
};

static int64_t place_of(const struct layout *layout, int of_rank, int64_t i) {
    return layout->is_interleaved ? i * ranks + of_rank : of_rank * layout->count + i;
}

static void write_blocks(const struct layout *layout, int round) {
    for (int64_t i = 0; i < layout->count; i++) {
        int64_t place = place_of(layout, rank, i);
        layout->buffer[0] = word(place, round);
        MPI_OK(MPI_File_write_at(layout->handle, place * layout->block, layout->buffer, (int)layout->block, MPI_BYTE,
                                 MPI_STATUS_IGNORE));
    }
}

static void read_block(const struct layout *layout, int from, int64_t i) {
    MPI_Offset offset = place_of(layout, from, i) * layout->block;
    MPI_OK(MPI_File_read_at(layout->handle, offset, layout->buffer, (int)layout->block, MPI_BYTE, MPI_STATUS_IGNORE));
}

static void fill(const struct layout *layout, int writer) {
    for (int64_t i = 1; i < layout->block / 8; i++) layout->buffer[i] = word(i, writer);
}

/* Reads all blocks of a rank once more, and counts the words that are not those of a round. */
static long wrong_of(const struct layout *layout, int writer, int round) {
    long wrong = 0;
    for (int64_t i = 0; i < layout->count; i++) {
        memset(layout->buffer, 0, (size_t)layout->block);
        read_block(layout, writer, i);
        wrong += layout->buffer[0] != word(place_of(layout, writer, i), round);
        wrong += differing(layout->buffer + 1, 1, layout->block / 8 - 1, writer);
    }
    return wrong;
}

static void copy(const struct layout *layout, char *memory, int is_write) {
    for (int64_t i = 0; i < layout->count; i++) {
        char *block = memory + i * layout->block;
        if (is_write) {
            layout->buffer[0] = word(i, 0);
            memcpy(block, layout->buffer, (size_t)layout->block);
        } else {
            memcpy(layout->buffer, block, (size_t)layout->block);
        }
        /* What is copied counts as used. */
        __asm__ volatile("" : : "r"(layout->buffer), "r"(block) : "memory");
    }
}

/* What it takes to copy the same blocks to and from memory of one's own: no call that moves them can be faster. */
static void tell_floors(const struct layout *layout, int64_t wanted) {
    char *memory = touched((size_t)(layout->count * layout->block));
    for (int is_write = 1; is_write >= 0; is_write--) {
        struct passes passes = repeated(wanted);
        while (is_wanting(&passes)) {
            begin_pass(&passes);
            copy(layout, memory, is_write);
            end_pass(&passes);
        }
        tell_moved(is_write ? "copy-in" : "copy-out", median_of(&passes), layout->count * layout->block * ranks);
    }
    free(memory);
}

static void measure(const char *file, struct layout *layout, int64_t bytes, int64_t wanted) {
    CHECK(layout->block % 8 == 0 && bytes >= layout->block, "not one whole block of whole words of 8 bytes");
    layout->count = bytes / layout->block;
    int64_t moved = layout->count * layout->block * ranks;
    layout->buffer = touched((size_t)layout->block);
    fill(layout, rank);
    layout->handle = opened(file, MPI_MODE_CREATE | MPI_MODE_RDWR);

    struct passes fresh = passes_of(1), writes = repeated(wanted), reads = writes;
    begin_pass(&fresh);
    write_blocks(layout, 0);
    end_pass(&fresh);
    tell_moved("fresh", median_of(&fresh), moved);
    while (is_wanting(&writes)) {
        begin_pass(&writes);
        write_blocks(layout, writes.done + 1);
        end_pass(&writes);
    }
    tell_moved("write", median_of(&writes), moved);

    int next = (rank + 1) % ranks;
    while (is_wanting(&reads)) {
        begin_pass(&reads);
        for (int64_t i = 0; i < layout->count; i++) read_block(layout, next, i);
        end_pass(&reads);
    }
    tell_moved("read", median_of(&reads), moved);
    tell_wrong(wrong_of(layout, next, writes.done));
    closed(&layout->handle);
    free(layout->buffer);
}

void ior(const char *file, char **arguments) {
    struct layout layout = {.is_interleaved = strcmp(arguments[0], "interleaved") == 0, .block = number(arguments[1])};
    CHECK(layout.is_interleaved || strcmp(arguments[0], "own") == 0, "neither own nor interleaved: %s", arguments[0]);
    measure(file, &layout, number(arguments[2]), number(arguments[3]));
}

void small(const char *file, char **arguments) {
    struct layout layout = {.block = 4096};
    measure(file, &layout, number(arguments[0]), number(arguments[1]));
    layout.buffer = touched((size_t)layout.block);
    tell_floors(&layout, number(arguments[1]));
    free(layout.buffer);
}
