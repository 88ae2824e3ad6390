/* A view that is refused leaves the one before in force: data go where that says, and the file pointer stays. */
#include "check.h"
#include <string.h>

enum { INTS = 64, BLOCK = 2 };

static MPI_File file;
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

static void (*const refused[])(void) = {unknown_representation, negative_displacement, part_of_an_etype, no_etype,
                                        no_filetype};
static const char *const names[] = {"unknown representation", "negative displacement", "part of an etype", "no etype",
                                    "no file type"};

/* Writes half, has a view refused, writes the other half, and finds each number in its place. */
static void view_stays(int which) {
    int numbers[INTS];
    MPI_Offset position;
    for (int i = 0; i < INTS; i++) numbers[i] = (which + 1) * 100000 + rank * 1000 + i;
    set_view_with_gaps();
    MPI_OK(MPI_File_write_all(file, numbers, INTS / 2, MPI_INT, MPI_STATUS_IGNORE));
    for (int times = 0; times < 2; times++) refused[which]();
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

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Datatype block;
    MPI_Type_contiguous(BLOCK, MPI_INT, &block);
    MPI_Type_create_resized(block, 0, ranks * BLOCK * (int)sizeof(int), &filetype);
    MPI_Type_commit(&filetype);
    MPI_Type_free(&block);
    int amode = MPI_MODE_RDWR | MPI_MODE_CREATE;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], amode, MPI_INFO_NULL, &file));
    for (int which = 0; which < (int)(sizeof refused / sizeof *refused); which++) {
        doing = names[which];
        view_stays(which);
    }
    doing = "too many levels";
    too_many_levels();
    doing = "";
    MPI_OK(MPI_File_close(&file));
    MPI_Type_free(&filetype);
    if (rank == 0) printf("a refused view changes nothing\n");
    MPI_Finalize();
    return 0;
}
