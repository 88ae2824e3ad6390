/* Every method with an explicit offset or an individual pointer, in every layout of memory and file. */
#include "methods.h"
#include "parts.h"

/* Integers per rank and write, the integers in a block of a strided layout, and between blocks of memory. */
enum { N = 48, BLOCK = 4, STRIDE = 7 };
/* Bytes of the file that are looked at, and what they are before. */
enum { REGION = 16384 };
static const unsigned char BEFORE = 0x5A;

struct layout {
    const char *name;
    MPI_Offset displacement;
    int strided_memory, strided_file;
    /* Integers of the view that each access skips. */
    int skipped;
    const char *representation;
    /* Where the data begins in memory, integers from where the access is told, and integers between two of them. */
    int displaced_memory, gap;
};

static const struct layout layouts[] = {
    {"contiguous", 0, 0, 0, 0, "native", 0, 0},
    {"contiguous, displaced by an odd number", 1237, 0, 0, 5, "native", 0, 0},
    {"strided memory", 0, 1, 0, 0, "native", 0, 0},
    {"strided file", 40, 0, 1, 0, "native", 0, 0},
    {"strided file, from within a block", 40, 0, 1, 6, "native", 0, 0},
    {"strided memory and file", 8, 1, 1, 4, "native", 0, 0},
    {"internal", 0, 0, 0, 0, "internal", 0, 0},
    {"external32", 12, 0, 0, 3, "external32", 0, 0},
    {"external32, strided memory and file", 4, 1, 1, 0, "external32", 0, 0},
    {"displaced memory", 0, 0, 0, 2, "native", 2, 0},
    {"memory before the buffer, strided file", 0, 0, 1, 0, "native", -2, 0},
    {"external32, displaced memory", 0, 0, 0, 2, "external32", 2, 0},
    {"external32, displaced memory, strided file", 0, 0, 1, 0, "external32", 2, 0},
    {"external32, memory before the buffer", 0, 0, 0, 0, "external32", -2, 0},
    {"external32, memory before the buffer, strided file", 0, 0, 1, 0, "external32", -2, 0},
    {"gaps in memory", 0, 0, 0, 1, "native", 0, 1},
    {"external32, gaps in memory", 0, 0, 0, 1, "external32", 0, 1},
    {"external32, gaps in displaced memory, strided file", 0, 0, 1, 0, "external32", 2, 1},
};

static int value(int seed, int of_rank, int k) { return (seed << 20) ^ (of_rank << 12) ^ (k * 2654435 + 77); }

/* Where in the file the integer `k` of a rank's access is. */
static MPI_Offset place(const struct layout *layout, int of_rank, int k) {
    if (!layout->strided_file) return layout->displacement + 4 * (of_rank * (N + layout->skipped) + layout->skipped + k);
    /* A tile has a block of each rank, and one of nobody's. */
    int in_view = layout->skipped + k, tile = in_view / BLOCK, within = in_view % BLOCK;
    return layout->displacement + 4 * ((tile * (ranks + 1) + of_rank) * BLOCK + within);
}

static void set_view(MPI_File file, const struct layout *layout) {
    MPI_Datatype block, tile, at;
    if (layout->strided_file) {
        MPI_Aint from = (MPI_Aint)rank * BLOCK * 4;
        int length = BLOCK;
        MPI_Type_create_hindexed(1, &length, &from, MPI_INT, &block);
        MPI_Type_create_resized(block, 0, (MPI_Aint)(ranks + 1) * BLOCK * 4, &tile);
        MPI_Type_free(&block);
        at = tile;
        MPI_Type_commit(&at);
    } else {
        at = MPI_INT;
    }
    MPI_Offset from = layout->displacement;
    if (!layout->strided_file) from += (MPI_Offset)4 * rank * (N + layout->skipped);
    MPI_OK(MPI_File_set_view(file, from, MPI_INT, at, layout->representation, MPI_INFO_NULL));
    if (layout->strided_file) MPI_Type_free(&at);
}

static void compare_file(MPI_File file, const struct layout *layout, int is_converted, int seed) {
    static unsigned char expected[REGION], found[REGION];
    memset(expected, BEFORE, REGION);
    for (int r = 0; r < ranks; r++) {
        for (int k = 0; k < N; k++) {
            unsigned v = (unsigned)value(seed, r, k);
            unsigned char *at = expected + place(layout, r, k);
            if (is_converted) {
                for (int byte = 0; byte < 4; byte++) at[byte] = (unsigned char)(v >> (24 - 8 * byte));
            } else {
                memcpy(at, &v, 4);
            }
        }
    }
    MPI_Status status;
    int bytes;
    MPI_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    memset(found, 0, REGION);
    MPI_OK(MPI_File_read_at(file, 0, found, REGION, MPI_BYTE, &status));
    MPI_OK(MPI_Get_count(&status, MPI_BYTE, &bytes));
    EQUAL(bytes, REGION);
    for (int byte = 0; byte < REGION; byte++) {
        CHECK(found[byte] == expected[byte], "byte %d of the file is %#x instead of %#x", byte, found[byte],
              expected[byte]);
    }
}

static void one_access(MPI_File file, const struct layout *layout, const struct method *writing,
                       const struct method *reading, int seed) {
    static unsigned char before[REGION];
    char text[200];
    snprintf(text, sizeof text, "%s, written by %s, read by %s", layout->name, writing->name, reading->name);
    doing = text;
    MPI_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    memset(before, BEFORE, REGION);
    if (rank == 0) MPI_OK(MPI_File_write_at(file, 0, before, REGION, MPI_BYTE, MPI_STATUS_IGNORE));
    exchange(file);

    enum { ROOM = 2 * N + BLOCK };
    int out[ROOM], in[ROOM];
    /* Of the two, integers before the buffer that is told, and before the data. */
    int buffer = layout->displaced_memory < 0 ? -layout->displaced_memory : 0;
    int first = buffer + layout->displaced_memory, step = 1 + layout->gap;
    MPI_Datatype strided, displaced, spread, memory = MPI_INT;
    int count = N, one = 1;
    MPI_Aint displacement = layout->displaced_memory * (MPI_Aint)sizeof(int);
    MPI_Type_create_hindexed(1, &one, &displacement, MPI_INT, &displaced);
    MPI_Type_commit(&displaced);
    if (layout->displaced_memory != 0) memory = displaced;
    MPI_Type_create_resized(memory, 0, (MPI_Aint)sizeof(int) * step, &spread);
    MPI_Type_commit(&spread);
    if (layout->gap != 0) memory = spread;
    MPI_Type_vector(N / BLOCK, BLOCK, STRIDE, MPI_INT, &strided);
    MPI_Type_commit(&strided);
    if (layout->strided_memory) memory = strided, count = 1;
    memset(out, 0x11, sizeof out);
    memset(in, 0x22, sizeof in);
    for (int k = 0; k < N; k++) {
        out[layout->strided_memory ? k / BLOCK * STRIDE + k % BLOCK : first + k * step] = value(seed, rank, k);
    }

    MPI_Status status;
    MPI_Offset position;
    int elements;
    set_view(file, layout);
    MPI_OK(writing->write(file, layout->skipped, out + buffer, count, memory, &status));
    MPI_OK(MPI_Get_elements(&status, MPI_INT, &elements));
    EQUAL(elements, N);
    MPI_OK(MPI_File_get_position(file, &position));
    EQUAL(position, writing->pointer == INDIVIDUAL ? layout->skipped + N : 0);
    exchange(file);

    MPI_OK(MPI_File_seek(file, 0, MPI_SEEK_SET));
    MPI_OK(reading->read(file, layout->skipped, in + buffer, count, memory, &status));
    MPI_OK(MPI_Get_elements(&status, MPI_INT, &elements));
    EQUAL(elements, N);
    MPI_OK(MPI_File_get_position(file, &position));
    EQUAL(position, reading->pointer == INDIVIDUAL ? layout->skipped + N : 0);
    for (int i = 0; i < ROOM; i++) {
        int within = first <= i && i < first + N * step && (i - first) % step == 0;
        int is_data = layout->strided_memory ? i / STRIDE < N / BLOCK && i % STRIDE < BLOCK : within;
        int expected = is_data ? out[i] : 0x22222222;
        CHECK(in[i] == expected, "integer %d of the buffer is %#x instead of %#x", i, in[i], expected);
    }

    compare_file(file, layout, strcmp(layout->representation, "external32") == 0, seed);
    MPI_Type_free(&strided);
    MPI_Type_free(&displaced);
    MPI_Type_free(&spread);
    MPI_Barrier(MPI_COMM_WORLD);
    doing = "";
}

/* Where the data begins in memory makes no difference between nodes. */
void test_placed(const char *name, int is_over_nodes) {
    MPI_File file = open_new(beside(name, ".placed"), MPI_MODE_RDWR);
    int layout_count = sizeof layouts / sizeof *layouts;
    for (int l = 0; l < layout_count; l++) {
        if (is_over_nodes && layouts[l].displaced_memory != 0) continue;
        for (int w = 0; w < method_count; w++) {
            /* Another reader for each writer in each layout. */
            int r = (w + l + 1) % method_count;
            one_access(file, &layouts[l], &methods[w], &methods[r], l * method_count + w);
        }
    }
    MPI_OK(MPI_File_close(&file));
}

/* More pairs in one datatype than are told apart. */
static void pairs_converted(MPI_File file) {
    enum { PAIRS = 600000, BYTES = 12 };
    struct pair { double first; int second; } *pairs = calloc(PAIRS, sizeof *pairs);
    unsigned char *stored = malloc((size_t)PAIRS * BYTES);
    HOLDS(pairs != NULL && stored != NULL);
    MPI_Datatype many;
    MPI_Type_contiguous(PAIRS, MPI_DOUBLE_INT, &many);
    MPI_Type_commit(&many);
    MPI_OK(MPI_File_set_view(file, (MPI_Offset)rank * PAIRS * BYTES, MPI_BYTE, MPI_BYTE, "external32", MPI_INFO_NULL));
    for (int i = 0; i < PAIRS; i++) pairs[i].first = i + 0.5, pairs[i].second = i * 3;
    MPI_OK(MPI_File_write_at(file, 0, pairs, 1, many, MPI_STATUS_IGNORE));
    memset(pairs, 0, PAIRS * sizeof *pairs);
    MPI_OK(MPI_File_read_at(file, 0, pairs, 1, many, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_read_at(file, 0, stored, PAIRS * BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    for (int i = 0; i < PAIRS; i++) {
        CHECK(pairs[i].first == i + 0.5 && pairs[i].second == i * 3, "pair %d: %g, %d", i, pairs[i].first,
              pairs[i].second);
        const unsigned char *second = stored + (size_t)i * BYTES + 8;
        EQUAL(second[0] << 24 | second[1] << 16 | second[2] << 8 | second[3], i * 3);
    }
    MPI_Type_free(&many);
    free(pairs);
    free(stored);
    MPI_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL));
}

/* Types that are asked for by what Fortran's have to hold, and have no names; an MPI without Fortran may have none. */
static void ranges_converted(MPI_File file) {
    MPI_Datatype real, integer;
    MPI_Errhandler handler;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int are_there = MPI_Type_create_f90_real(15, 300, &real) == MPI_SUCCESS &&
                    MPI_Type_create_f90_integer(9, &integer) == MPI_SUCCESS;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Errhandler_free(&handler);
    if (!are_there) return;
    double number = rank + 1.5, read_number = 0;
    int whole = 7 + rank, read_whole = 0;
    unsigned char stored[12];
    MPI_OK(MPI_File_set_view(file, 12 * rank, MPI_BYTE, MPI_BYTE, "external32", MPI_INFO_NULL));
    MPI_OK(MPI_File_write_at(file, 0, &number, 1, real, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_write_at_all(file, 8, &whole, 1, integer, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_read_at(file, 0, &read_number, 1, real, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_read_at_all(file, 8, &read_whole, 1, integer, MPI_STATUS_IGNORE));
    HOLDS(read_number == number);
    EQUAL(read_whole, whole);
    MPI_OK(MPI_File_read_at(file, 0, stored, 12, MPI_BYTE, MPI_STATUS_IGNORE));
    HOLDS(stored[0] == 0x3f || stored[0] == 0x40);
    EQUAL(stored[8] << 24 | stored[9] << 16 | stored[10] << 8 | stored[11], whole);
    MPI_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL));
}

/* What is converted is converted by svmio, in as much memory as it takes: nothing is written elsewhere, though the gaps
 * are many times as long as the data. What has another size in external32 is refused by every method, and stays. */
void test_converted(const char *name) {
    enum { COUNT = 1 << 16, STEP = 16 };
    MPI_File file = open_new(beside(name, ".external32"), MPI_MODE_RDWR);
    MPI_Datatype spread, etype, filetype;
    MPI_Offset from;
    char representation[MPI_MAX_DATAREP_STRING];
    int *memory = calloc((size_t)COUNT * STEP, sizeof *memory);
    HOLDS(memory != NULL);
    MPI_Type_create_resized(MPI_INT, 0, (MPI_Aint)sizeof(int) * STEP, &spread);
    MPI_Type_commit(&spread);
    MPI_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL));
    MPI_OK(MPI_File_get_view(file, &from, &etype, &filetype, representation));
    HOLDS(strcmp(representation, "external32") == 0);
    for (int m = 0; m < method_count; m++) {
        MPI_Status status;
        int count;
        doing = methods[m].name;
        for (int i = 0; i < COUNT; i++) memory[i * STEP] = value(m, rank, i % N);
        MPI_OK(methods[m].write(file, (MPI_Offset)rank * COUNT, memory, COUNT, spread, &status));
        MPI_OK(MPI_Get_count(&status, MPI_INT, &count));
        EQUAL(count, COUNT);
        exchange(file);
        memset(memory, 0, (size_t)COUNT * STEP * sizeof *memory);
        MPI_OK(methods[m].read(file, (MPI_Offset)rank * COUNT, memory, COUNT, spread, &status));
        MPI_OK(MPI_Get_count(&status, MPI_INT, &count));
        EQUAL(count, COUNT);
        for (int i = 0; i < COUNT * STEP; i++) EQUAL(memory[i], i % STEP == 0 ? value(m, rank, i / STEP % N) : 0);
    }
    free(memory);
    MPI_Type_free(&spread);
    pairs_converted(file);
    ranges_converted(file);
    for (int m = 0; m < method_count; m++) {
        long number = 17;
        doing = methods[m].name;
        MPI_FAILS(methods[m].write(file, 2 * rank, &number, 1, MPI_LONG, MPI_STATUS_IGNORE),
                  MPI_ERR_UNSUPPORTED_OPERATION);
        /* All ranks hear of it by that. */
        class_of(MPI_File_sync(file));
        MPI_FAILS(methods[m].read(file, 2 * rank, &number, 1, MPI_LONG, MPI_STATUS_IGNORE),
                  MPI_ERR_UNSUPPORTED_OPERATION);
        class_of(MPI_File_sync(file));
        EQUAL(number, 17);
    }
    MPI_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    MPI_OK(MPI_File_get_view(file, &from, &etype, &filetype, representation));
    HOLDS(strcmp(representation, "native") == 0);
    MPI_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "internal", MPI_INFO_NULL));
    MPI_FAILS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "inner", MPI_INFO_NULL), MPI_ERR_UNSUPPORTED_DATAREP);
    MPI_OK(MPI_File_get_view(file, &from, &etype, &filetype, representation));
    CHECK(strcmp(representation, "internal") == 0, "%s", representation);
    doing = "";
    MPI_OK(MPI_File_close(&file));
}

/* What of the type `pair`, which MPI defines, is data: of `extent` bytes all but what MPI_Pack leaves out. */
static void find_data(MPI_Datatype pair, int extent, unsigned char *is_data) {
    unsigned char from[64], packed[64];
    int size, position = 0;
    HOLDS(extent <= (int)sizeof from);
    for (int i = 0; i < extent; i++) from[i] = (unsigned char)(i + 1);
    MPI_OK(MPI_Pack(from, 1, pair, packed, sizeof packed, &position, MPI_COMM_SELF));
    MPI_Type_size(pair, &size);
    EQUAL(position, size);
    memset(is_data, 0, (size_t)extent);
    for (int i = 0; i < size; i++) is_data[packed[i] - 1] = 1;
}

/* Through a view of pairs, those with gaps among them, the pairs lie in the file as in memory, and the gaps stay. The
 * view tells of the types that it was given. By every `step`th method from `first` on. */
static void pairs_seen(MPI_File file, MPI_Datatype pair, int first, int step) {
    enum { PAIRS = 6 };
    MPI_Aint lower, extent;
    MPI_Offset from, position;
    MPI_Datatype etype, filetype;
    char representation[MPI_MAX_DATAREP_STRING];
    unsigned char is_data[64], out[PAIRS * 64], in[PAIRS * 64];
    MPI_Type_get_extent(pair, &lower, &extent);
    find_data(pair, (int)extent, is_data);
    int bytes = PAIRS * (int)extent;
    for (int m = first; m < method_count; m += step) {
        MPI_Status status;
        int count;
        doing = methods[m].name;
        for (int i = 0; i < bytes; i++) out[i] = (unsigned char)(1 + m + rank + i);
        memset(in, BEFORE, sizeof in);
        MPI_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
        MPI_OK(MPI_File_write_at_all(file, (MPI_Offset)rank * bytes, in, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
        for (int again = 0; again < 2; again++) {
            MPI_OK(MPI_File_set_view(file, 0, pair, pair, "native", MPI_INFO_NULL));
            MPI_OK(MPI_File_get_view(file, &from, &etype, &filetype, representation));
            HOLDS(etype == pair && filetype == pair);
        }
        MPI_OK(methods[m].write(file, (MPI_Offset)rank * PAIRS, out, PAIRS, pair, &status));
        MPI_OK(MPI_Get_count(&status, pair, &count));
        EQUAL(count, PAIRS);
        if (methods[m].pointer == INDIVIDUAL) {
            MPI_OK(MPI_File_get_position(file, &position));
            EQUAL(position, (rank + 1) * PAIRS);
        }
        exchange(file);
        MPI_OK(methods[m].read(file, (MPI_Offset)rank * PAIRS, in, PAIRS, pair, &status));
        MPI_OK(MPI_Get_count(&status, pair, &count));
        EQUAL(count, PAIRS);
        for (int i = 0; i < bytes; i++) EQUAL(in[i], is_data[i % extent] ? out[i] : BEFORE);
        MPI_OK(MPI_File_set_view(file, 0, MPI_BYTE, pair, "native", MPI_INFO_NULL));
        MPI_OK(MPI_File_get_byte_offset(file, 0, &position));
        EQUAL(position, 0);
        MPI_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
        memset(in, 0, sizeof in);
        MPI_OK(MPI_File_read_at_all(file, (MPI_Offset)rank * bytes, in, bytes, MPI_BYTE, &status));
        MPI_OK(MPI_Get_count(&status, MPI_BYTE, &count));
        EQUAL(count, bytes);
        for (int i = 0; i < bytes; i++) EQUAL(in[i], is_data[i % extent] ? out[i] : BEFORE);
    }
}

void test_pairs(const char *name, int is_over_nodes) {
    MPI_Datatype pairs[] = {MPI_SHORT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_LONG_DOUBLE_INT, MPI_FLOAT_INT, MPI_2INT};
    MPI_File file = open_new(beside(name, ".pairs"), MPI_MODE_RDWR);
    int count = sizeof pairs / sizeof *pairs;
    /* Over a network each type by all methods would take a minute. */
    for (int i = 0; i < count; i++) pairs_seen(file, pairs[i], is_over_nodes ? i : 0, is_over_nodes ? count : 1);
    /* The view goes with the file. */
    MPI_OK(MPI_File_set_view(file, 0, MPI_SHORT_INT, MPI_SHORT_INT, "native", MPI_INFO_NULL));
    doing = "";
    MPI_OK(MPI_File_close(&file));
}

/* Reading at the end of the file, and nothing at all, by every method. */
void test_ends(const char *name) {
    MPI_File file = open_new(beside(name, ".ends"), MPI_MODE_RDWR);
    enum { STORED = 10, ASKED = 16 };
    int buffer[ASKED];
    for (int k = 0; k < STORED; k++) buffer[k] = 1000 + k;
    if (rank == 0) MPI_OK(MPI_File_write_at(file, 0, buffer, STORED, MPI_INT, MPI_STATUS_IGNORE));
    exchange(file);
    MPI_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    for (int m = 0; m < method_count; m++) {
        MPI_Status status;
        MPI_Offset position, size;
        int count;
        doing = methods[m].name;
        MPI_OK(MPI_File_seek(file, 0, MPI_SEEK_SET));
        memset(buffer, 0, sizeof buffer);
        MPI_OK(methods[m].read(file, 4, buffer, ASKED, MPI_INT, &status));
        MPI_OK(MPI_Get_count(&status, MPI_INT, &count));
        EQUAL(count, STORED - 4);
        for (int k = 0; k < STORED - 4; k++) EQUAL(buffer[k], 1004 + k);
        MPI_OK(MPI_File_get_position(file, &position));
        EQUAL(position, methods[m].pointer == INDIVIDUAL ? STORED : 0);

        MPI_OK(methods[m].read(file, STORED + 3, buffer, 2, MPI_INT, &status));
        MPI_OK(MPI_Get_count(&status, MPI_INT, &count));
        EQUAL(count, 0);
        MPI_OK(methods[m].read(file, 2, NULL, 0, MPI_INT, &status));
        MPI_OK(MPI_Get_count(&status, MPI_INT, &count));
        EQUAL(count, 0);
        MPI_OK(methods[m].write(file, STORED + 100, NULL, 0, MPI_INT, &status));
        MPI_OK(MPI_Get_count(&status, MPI_INT, &count));
        EQUAL(count, 0);
        MPI_OK(MPI_File_get_size(file, &size));
        EQUAL(size, 4 * STORED);

        /* In a collective call one rank alone may have something to do. */
        if (methods[m].is_collective) {
            int mine = rank == ranks - 1;
            MPI_OK(methods[m].read(file, 1, buffer, mine, MPI_INT, &status));
            MPI_OK(MPI_Get_count(&status, MPI_INT, &count));
            EQUAL(count, mine);
            if (mine) EQUAL(buffer[0], 1001);
        }
    }
    doing = "";
    MPI_OK(MPI_File_close(&file));
}
