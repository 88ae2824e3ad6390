/* noncontig FILE PIECE BYTES WHERE HOW PASSES: every rank has so many bytes, in pieces of PIECE bytes. With WHERE "file"
 * the pieces of all ranks follow each other in the file in turn, with "memory" there is a gap as long as a piece behind
 * each in memory, with "both" both. They are written and read in one call, with HOW "collective" of all ranks, with
 * "independent" of each: first into a new file, then again. */
#include "check.h"
#include "files.h"
#include "timing.h"

static const int64_t GAP = 0x5a5a5a5a5a5a5a5a;

struct shape {
    int64_t words, pieces; /* of a piece, of a rank */
    int is_spread_in_file, is_spread_in_memory, is_collective;
    MPI_Datatype memory; /* all of it */
};

/* So many pieces, each as many pieces behind the one before. */
static MPI_Datatype spread(const struct shape *shape, int distance) {
    MPI_Datatype type;
    int words = (int)shape->words;
    MPI_OK(MPI_Type_vector((int)shape->pieces, words, words * distance, MPI_INT64_T, &type));
    MPI_OK(MPI_Type_commit(&type));
    return type;
}

static struct shape shape_of(char **arguments) {
    int64_t piece = number(arguments[0]), bytes = number(arguments[1]);
    const char *where = arguments[2], *how = arguments[3];
    struct shape shape = {.words = piece / 8, .pieces = bytes / piece};
    CHECK(piece % 8 == 0 && bytes % piece == 0, "bytes are whole pieces, and pieces whole words of 8 bytes");
    shape.is_spread_in_file = strcmp(where, "memory") != 0;
    shape.is_spread_in_memory = strcmp(where, "file") != 0;
    CHECK(strcmp(where, "both") == 0 || shape.is_spread_in_file != shape.is_spread_in_memory,
          "neither memory, file nor both: %s", where);
    shape.is_collective = strcmp(how, "collective") == 0;
    CHECK(shape.is_collective || strcmp(how, "independent") == 0, "neither collective nor independent: %s", how);
    shape.memory = spread(&shape, shape.is_spread_in_memory ? 2 : 1);
    return shape;
}

static size_t held(const struct shape *shape) {
    return (size_t)(shape->words * shape->pieces * (shape->is_spread_in_memory ? 2 : 1)) * sizeof(int64_t);
}

/* Sets the pieces to what they are in a round, and what is between them; or counts the words that are not so. */
static long pieces_of(const struct shape *shape, int64_t *words, int round, int is_check) {
    long wrong = 0;
    for (int64_t piece = 0; piece < shape->pieces; piece++) {
        int64_t in_file = shape->is_spread_in_file ? piece * ranks + rank : rank * shape->pieces + piece;
        if (is_check) wrong += differing(words, in_file * shape->words, shape->words, round);
        for (int64_t i = 0; i < shape->words; i++, words++) {
            if (!is_check) *words = word(in_file * shape->words + i, round);
        }
        for (int64_t i = 0; shape->is_spread_in_memory && i < shape->words; i++, words++) {
            if (is_check) {
                wrong += *words != GAP;
            } else {
                *words = GAP;
            }
        }
    }
    return wrong;
}

static void write_pieces(MPI_File handle, const struct shape *shape, const int64_t *words) {
    int count = shape->is_spread_in_memory ? 1 : (int)(shape->pieces * shape->words);
    MPI_Datatype type = shape->is_spread_in_memory ? shape->memory : MPI_INT64_T;
    if (shape->is_collective) {
        MPI_OK(MPI_File_write_at_all(handle, 0, words, count, type, MPI_STATUS_IGNORE));
    } else {
        MPI_OK(MPI_File_write_at(handle, 0, words, count, type, MPI_STATUS_IGNORE));
    }
}

static void read_pieces(MPI_File handle, const struct shape *shape, int64_t *words) {
    int count = shape->is_spread_in_memory ? 1 : (int)(shape->pieces * shape->words);
    MPI_Datatype type = shape->is_spread_in_memory ? shape->memory : MPI_INT64_T;
    if (shape->is_collective) {
        MPI_OK(MPI_File_read_at_all(handle, 0, words, count, type, MPI_STATUS_IGNORE));
    } else {
        MPI_OK(MPI_File_read_at(handle, 0, words, count, type, MPI_STATUS_IGNORE));
    }
}

void noncontig(const char *file, char **arguments) {
    struct shape shape = shape_of(arguments);
    int64_t own = shape.words * 8 * shape.pieces, bytes = own * ranks;
    int64_t *words = touched(held(&shape));
    MPI_File handle = opened(file, MPI_MODE_CREATE | MPI_MODE_RDWR);
    if (shape.is_spread_in_file) {
        MPI_Datatype in_file = spread(&shape, ranks);
        MPI_OK(MPI_File_set_view(handle, rank * shape.words * 8, MPI_INT64_T, in_file, "native", MPI_INFO_NULL));
        MPI_OK(MPI_Type_free(&in_file));
    } else {
        MPI_OK(MPI_File_set_view(handle, rank * own, MPI_INT64_T, MPI_INT64_T, "native", MPI_INFO_NULL));
    }

    struct passes fresh = passes_of(1), writes = repeated(number(arguments[4])), reads = writes;
    pieces_of(&shape, words, 0, 0);
    begin_pass(&fresh);
    write_pieces(handle, &shape, words);
    end_pass(&fresh);
    tell_moved("fresh", median_of(&fresh), bytes);
    while (is_wanting(&writes)) {
        pieces_of(&shape, words, writes.done + 1, 0);
        begin_pass(&writes);
        write_pieces(handle, &shape, words);
        end_pass(&writes);
    }
    tell_moved("write", median_of(&writes), bytes);

    long wrong = 0;
    while (is_wanting(&reads)) {
        /* What is between the pieces is to stay. */
        pieces_of(&shape, words, -1, 0);
        begin_pass(&reads);
        read_pieces(handle, &shape, words);
        end_pass(&reads);
        wrong += pieces_of(&shape, words, writes.done, 1);
    }
    tell_moved("read", median_of(&reads), bytes);
    tell_wrong(wrong);
    closed(&handle);
    free(words);
    MPI_OK(MPI_Type_free(&shape.memory));
}
