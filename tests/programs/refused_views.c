/* A view that is refused leaves the one before in force: data go where that says, and the file pointer stays. So it is
 * where the file has an error handler of the program's. */
#include "check.h"
#include <string.h>

enum { INTS = 64, BLOCK = 2 };

static MPI_File file;
static int calls;

static void count_call(MPI_File *failed, int *code, ...) {
    (void)failed, (void)code;
    calls++;
}
static MPI_Datatype filetype;

static void set_view_with_gaps(void) {
    MPI_OK(MPI_File_set_view(file, rank * BLOCK * (int)sizeof(int), MPI_INT, filetype, "native", MPI_INFO_NULL));
}

static void unknown_representation(void) {
    MPI_FAILS(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "no such one", MPI_INFO_NULL),
              MPI_ERR_UNSUPPORTED_DATAREP);
}

static void negative_displacement(void) {
    HOLDS(MPI_File_set_view(file, -4, MPI_INT, filetype, "native", MPI_INFO_NULL) != MPI_SUCCESS);
}

static void part_of_an_etype(void) {
    MPI_Datatype odd;
    MPI_Type_contiguous(3, MPI_BYTE, &odd);
    MPI_Type_commit(&odd);
    HOLDS(MPI_File_set_view(file, 0, MPI_INT, odd, "native", MPI_INFO_NULL) != MPI_SUCCESS);
    MPI_Type_free(&odd);
}

static void no_etype(void) {
    HOLDS(MPI_File_set_view(file, 0, MPI_DATATYPE_NULL, filetype, "native", MPI_INFO_NULL) != MPI_SUCCESS);
}

static void no_filetype(void) {
    HOLDS(MPI_File_set_view(file, 0, MPI_INT, MPI_DATATYPE_NULL, "native", MPI_INFO_NULL) != MPI_SUCCESS);
}

/* Two blocks of an etype or a file type, integers from its beginning. */
static MPI_Datatype blocks(int length, int first, int second) {
    MPI_Datatype type;
    int lengths[] = {length, length}, places[] = {first, second};
    MPI_Type_indexed(2, lengths, places, MPI_INT, &type);
    MPI_Type_commit(&type);
    return type;
}

/* On all ranks with the same types, or on the last one alone. */
static void types_are_refused(MPI_Datatype etype, MPI_Datatype type, const char *representation) {
    int mine = rank == ranks - 1;
    MPI_FAILS(MPI_File_set_view(file, 4, etype, type, representation, MPI_INFO_NULL), MPI_ERR_IO);
    MPI_FAILS(MPI_File_set_view(file, 4, mine ? etype : MPI_INT, mine ? type : MPI_INT, representation, MPI_INFO_NULL),
              MPI_ERR_IO);
}

static void forbidden(MPI_Datatype type) {
    types_are_refused(MPI_INT, type, "native");
    types_are_refused(MPI_INT, type, "external32");
    types_are_refused(type, type, "native");
    MPI_Type_free(&type);
}

static void same_bytes_twice(void) { forbidden(blocks(2, 0, 1)); }

static void going_back(void) { forbidden(blocks(1, 1, 0)); }

static void before_the_beginning(void) { forbidden(blocks(1, -1, 1)); }

static void one_before_the_other(void) {
    MPI_Datatype type;
    MPI_Type_create_resized(MPI_INT, 0, -8, &type);
    MPI_Type_commit(&type);
    forbidden(type);
}

static void one_rank_alone(void) {
    MPI_FAILS(MPI_File_set_view(file, rank == 0 ? -4 : 4, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
}

static void representation_of_one_rank(void) {
    MPI_FAILS(MPI_File_set_view(file, 4, MPI_INT, MPI_INT, rank == 1 ? "nativ" : "native", MPI_INFO_NULL),
              MPI_ERR_UNSUPPORTED_DATAREP);
    MPI_FAILS(MPI_File_set_view(file, 4, MPI_INT, MPI_INT, rank == 0 ? NULL : "native", MPI_INFO_NULL),
              MPI_ERR_UNSUPPORTED_DATAREP);
}

static MPI_Datatype without_data(void) {
    MPI_Datatype empty;
    MPI_Type_contiguous(0, MPI_INT, &empty);
    MPI_Type_commit(&empty);
    return empty;
}

static void data_of_an_empty_etype(void) {
    MPI_Datatype empty = without_data();
    MPI_FAILS(MPI_File_set_view(file, 0, empty, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    MPI_FAILS(MPI_File_set_view(file, 0, empty, filetype, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    MPI_Type_free(&empty);
}

/* Of all ranks, or of one alone. */
static void not_committed(void) {
    MPI_Datatype type;
    MPI_Type_contiguous(4, MPI_INT, &type);
    for (int all = 0; all < 2; all++) {
        MPI_Datatype own = all || rank == 1 ? type : MPI_INT;
        MPI_FAILS(MPI_File_set_view(file, 0, MPI_INT, own, "native", MPI_INFO_NULL), MPI_ERR_ARG);
        MPI_FAILS(MPI_File_set_view(file, 0, own, own, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    }
    MPI_Type_free(&type);
}

static void (*const refused[])(void) = {unknown_representation, negative_displacement, part_of_an_etype, no_etype,
                                        no_filetype, same_bytes_twice, going_back, before_the_beginning,
                                        one_before_the_other, one_rank_alone, representation_of_one_rank,
                                        data_of_an_empty_etype, not_committed};
static const char *const names[] = {"unknown representation", "negative displacement", "part of an etype", "no etype",
                                    "no file type", "the same bytes twice", "going back", "before the beginning",
                                    "one before the other", "one rank alone", "representation of one rank",
                                    "data of an empty etype", "types that are not committed"};

/* Writes half, has a view refused, writes the other half, and finds each number in its place. */
static void view_stays(int which, int is_handled) {
    int numbers[INTS];
    MPI_Offset position;
    for (int i = 0; i < INTS; i++) numbers[i] = (which + 1) * 100000 + rank * 1000 + i;
    set_view_with_gaps();
    MPI_OK(MPI_File_write_all(file, numbers, INTS / 2, MPI_INT, MPI_STATUS_IGNORE));
    for (int times = 0; times < 2; times++) {
        calls = 0;
        refused[which]();
        EQUAL(calls > 0, is_handled);
    }
    MPI_OK(MPI_File_get_position(file, &position));
    EQUAL(position, INTS / 2);
    MPI_OK(MPI_File_write_all(file, numbers + INTS / 2, INTS / 2, MPI_INT, MPI_STATUS_IGNORE));

    MPI_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    MPI_OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_OK(MPI_File_sync(file));
    for (int i = 0; i < INTS; i++) {
        int found = -1, block = i / BLOCK * ranks + rank;
        MPI_OK(MPI_File_read_at(file, block * BLOCK + i % BLOCK, &found, 1, MPI_INT, MPI_STATUS_IGNORE));
        EQUAL(found, numbers[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The deepest datatypes that svmio takes have 100 levels; which limit it was, the access tells that meets it. */
static void too_many_levels(void) {
    MPI_Datatype within = MPI_INT;
    for (int level = 0; level < 120; level++) {
        MPI_Datatype of;
        MPI_Type_contiguous(1, within, &of);
        if (level > 0) MPI_Type_free(&within);
        within = of;
    }
    MPI_Type_commit(&within);
    MPI_OK(MPI_File_set_view(file, 0, MPI_INT, within, "native", MPI_INFO_NULL));
    int number = rank, length, code = MPI_File_write_all(file, &number, 1, MPI_INT, MPI_STATUS_IGNORE), class;
    HOLDS(code != MPI_SUCCESS);
    MPI_Error_class(code, &class);
    EQUAL(class, MPI_ERR_UNSUPPORTED_OPERATION);
    char text[MPI_MAX_ERROR_STRING];
    MPI_Error_string(code, text, &length);
    HOLDS(strstr(text, "more than 100 levels") != NULL);
    MPI_Type_free(&within);
}

/* Through a view without data nothing is read or written: nothing at all is an access, something is an error. */
static void nothing_is_seen(MPI_Datatype etype, MPI_Datatype empty) {
    int numbers[4] = {-1, -1, -1, -1}, found[4], size;
    MPI_Datatype told_etype, told_type;
    MPI_Offset begin, position;
    MPI_Request request;
    char representation[MPI_MAX_DATAREP_STRING];
    MPI_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    MPI_OK(MPI_File_read_at(file, 0, found, 4, MPI_INT, MPI_STATUS_IGNORE));
    for (int displacement = 0; displacement <= 4; displacement += 4) {
        MPI_OK(MPI_File_set_view(file, displacement, etype, empty, "native", MPI_INFO_NULL));
        MPI_OK(MPI_File_get_view(file, &begin, &told_etype, &told_type, representation));
        EQUAL(begin, displacement);
        MPI_Type_size(told_type, &size);
        EQUAL(size, 0);
        if (told_etype != MPI_INT) MPI_Type_free(&told_etype);
        MPI_Type_free(&told_type);
        MPI_OK(MPI_File_get_position(file, &position));
        EQUAL(position, 0);
        MPI_OK(MPI_File_seek(file, 0, MPI_SEEK_SET));
        MPI_OK(MPI_File_write_all(file, NULL, 0, MPI_INT, MPI_STATUS_IGNORE));
        MPI_OK(MPI_File_write_at(file, 0, NULL, 0, MPI_INT, MPI_STATUS_IGNORE));
        MPI_OK(MPI_File_iwrite_at(file, 0, NULL, 0, MPI_INT, &request));
        MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        MPI_OK(MPI_File_iread(file, NULL, 0, MPI_INT, &request));
        MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        MPI_OK(MPI_File_write_shared(file, NULL, 0, MPI_INT, MPI_STATUS_IGNORE));
        MPI_OK(MPI_File_read_ordered(file, NULL, 0, MPI_INT, MPI_STATUS_IGNORE));
        MPI_FAILS(MPI_File_write(file, numbers, 4, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ARG);
        MPI_FAILS(MPI_File_write_at(file, 0, numbers, 4, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ARG);
        MPI_FAILS(MPI_File_write_at_all(file, 0, numbers, 4, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ARG);
        MPI_FAILS(MPI_File_iwrite_at(file, 0, numbers, 4, MPI_INT, &request), MPI_ERR_ARG);
        MPI_FAILS(MPI_File_read_at(file, 0, numbers, 4, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ARG);
    }
    MPI_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    MPI_OK(MPI_File_read_at(file, 0, numbers, 4, MPI_INT, MPI_STATUS_IGNORE));
    for (int i = 0; i < 4; i++) EQUAL(numbers[i], found[i]);
}

static void views_without_data(void) {
    MPI_Datatype empty = without_data();
    nothing_is_seen(MPI_INT, empty);
    nothing_is_seen(empty, empty);
    MPI_Type_free(&empty);
}

/* What is only read may be seen twice. */
static void read_twice(const char *name) {
    MPI_Datatype type = blocks(2, 0, 1), goes_back = blocks(1, 1, 0);
    int numbers[] = {10, 11, 12, 13, 14, 15}, found[4];
    if (rank == 0) MPI_OK(MPI_File_write_at(file, 0, numbers, 6, MPI_INT, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_close(&file));
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_set_view(file, 4, MPI_INT, type, "native", MPI_INFO_NULL));
    MPI_FAILS(MPI_File_set_view(file, 0, MPI_INT, goes_back, "native", MPI_INFO_NULL), MPI_ERR_IO);
    MPI_OK(MPI_File_read_all(file, found, 4, MPI_INT, MPI_STATUS_IGNORE));
    for (int i = 0; i < 4; i++) EQUAL(found[i], numbers[1 + i / 2 + i % 2]);
    MPI_Type_free(&type);
    MPI_Type_free(&goes_back);
}

/* ROMIO up to 4.0 takes the etype for one whose data overlap, because of the first block. */
static void empty_block_first(void) {
    MPI_Datatype with_gap, type, told_etype, told_type;
    int lengths[] = {0, 1}, numbers[] = {rank * 2, rank * 2 + 1}, found[2], size;
    MPI_Aint places[] = {0, 8}, low, extent;
    char representation[MPI_MAX_DATAREP_STRING];
    MPI_Offset begin;
    MPI_Type_vector(2, 1, 2, MPI_INT, &with_gap);
    MPI_Type_create_hindexed(2, lengths, places, with_gap, &type);
    MPI_Type_commit(&type);
    for (int times = 0; times < 2; times++) {
        MPI_OK(MPI_File_set_view(file, 20 * rank, type, type, "native", MPI_INFO_NULL));
        MPI_OK(MPI_File_get_view(file, &begin, &told_etype, &told_type, representation));
        MPI_Type_size(told_etype, &size);
        EQUAL(size, 8);
        MPI_Type_get_extent(told_etype, &low, &extent);
        EQUAL(low, 8);
        EQUAL(extent, 12);
        MPI_Type_free(&told_etype);
        MPI_Type_free(&told_type);
        MPI_OK(MPI_File_write_at_all(file, 0, numbers, 2, MPI_INT, MPI_STATUS_IGNORE));
        MPI_FAILS(MPI_File_set_view(file, 0, type, type, "no such one", MPI_INFO_NULL), MPI_ERR_UNSUPPORTED_DATAREP);
    }
    MPI_OK(MPI_File_read_at_all(file, 0, found, 2, MPI_INT, MPI_STATUS_IGNORE));
    for (int i = 0; i < 2; i++) EQUAL(found[i], numbers[i]);
    MPI_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    for (int i = 0; i < 2; i++) {
        MPI_OK(MPI_File_read_at(file, 5 * rank + 2 + 2 * i, found, 1, MPI_INT, MPI_STATUS_IGNORE));
        EQUAL(found[0], numbers[i]);
    }
    MPI_Type_free(&with_gap);
    MPI_Type_free(&type);
}

/* In sequential mode a view begins where the shared pointer is, and nowhere else; ROMIO is given its file type. */
static void refused_in_sequential_mode(const char *name) {
    MPI_OK(MPI_File_close(&file));
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL, &file));
    MPI_Offset elsewhere[] = {0, 4, -4};
    for (int i = 0; i < 3; i++) {
        MPI_Offset place = rank == 1 ? elsewhere[i] : MPI_DISPLACEMENT_CURRENT;
        MPI_FAILS(MPI_File_set_view(file, place, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    }
    MPI_Datatype type;
    MPI_Type_contiguous(4, MPI_INT, &type);
    for (int one = 0; one < ranks; one++) {
        MPI_Datatype own = rank == one ? type : MPI_INT;
        MPI_Offset here = MPI_DISPLACEMENT_CURRENT;
        MPI_FAILS(MPI_File_set_view(file, here, MPI_INT, own, "native", MPI_INFO_NULL), MPI_ERR_ARG);
        MPI_FAILS(MPI_File_set_view(file, here, own, own, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    }
    MPI_Type_free(&type);
    MPI_FAILS(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_BYTE, MPI_DOUBLE_INT, "native", MPI_INFO_NULL),
              MPI_ERR_UNSUPPORTED_OPERATION);
    MPI_OK(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Datatype block;
    MPI_Type_contiguous(BLOCK, MPI_INT, &block);
    MPI_Type_create_resized(block, 0, ranks * BLOCK * (int)sizeof(int), &filetype);
    MPI_Type_commit(&filetype);
    MPI_Type_free(&block);
    int amode = MPI_MODE_RDWR | MPI_MODE_CREATE;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], amode, MPI_INFO_NULL, &file));
    MPI_Errhandler handler;
    MPI_OK(MPI_File_create_errhandler(count_call, &handler));
    for (int is_handled = 0; is_handled < 2; is_handled++) {
        if (is_handled) MPI_OK(MPI_File_set_errhandler(file, handler));
        for (int which = 0; which < (int)(sizeof refused / sizeof *refused); which++) {
            doing = names[which];
            view_stays(which, is_handled);
        }
    }
    MPI_OK(MPI_Errhandler_free(&handler));
    doing = "too many levels";
    too_many_levels();
    doing = "an empty block first";
    empty_block_first();
    doing = "views without data";
    views_without_data();
    doing = "reading the same bytes twice";
    MPI_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    read_twice(argv[1]);
    doing = "sequential mode";
    refused_in_sequential_mode(argv[1]);
    doing = "";
    MPI_OK(MPI_File_close(&file));
    MPI_Type_free(&filetype);
    if (rank == 0) printf("a refused view changes nothing\n");
    MPI_Finalize();
    return 0;
}
