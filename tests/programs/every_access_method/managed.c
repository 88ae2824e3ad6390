/* What is not data access: pointers, sizes, settings, access modes, several files at once. */
#include "parts.h"

/* What the pointer cannot be moved to, and what lies nowhere, is an error, and the pointer stays. */
static void refuse_places(MPI_File file) {
    const MPI_Offset nowhere = (MPI_Offset)1 << 62;
    MPI_Offset before, after, bytes = 7;
    MPI_OK(MPI_File_get_position(file, &before));
    MPI_FAILS(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    MPI_FAILS(MPI_File_seek(file, -before - 1, MPI_SEEK_CUR), MPI_ERR_ARG);
    MPI_FAILS(MPI_File_seek(file, nowhere, MPI_SEEK_SET), MPI_ERR_ARG);
    MPI_FAILS(MPI_File_seek(file, nowhere, MPI_SEEK_CUR), MPI_ERR_ARG);
    MPI_FAILS(MPI_File_seek(file, nowhere, MPI_SEEK_END), MPI_ERR_ARG);
    MPI_FAILS(MPI_File_seek(file, 0, 12345), MPI_ERR_ARG);
    MPI_FAILS(MPI_File_get_byte_offset(file, -5, &bytes), MPI_ERR_ARG);
    MPI_FAILS(MPI_File_get_byte_offset(file, nowhere, &bytes), MPI_ERR_ARG);
    EQUAL(bytes, 7);
    MPI_OK(MPI_File_get_position(file, &after));
    EQUAL(after, before);
}

void test_pointers(const char *name) {
    MPI_File file = open_new(beside(name, ".pointers"), MPI_MODE_RDWR);
    MPI_Offset position, bytes;
    MPI_Datatype pair, spread;
    char zeros[400] = {0};
    if (rank == 0) MPI_OK(MPI_File_write_at(file, 0, zeros, 400, MPI_BYTE, MPI_STATUS_IGNORE));
    exchange(file);
    /* Two integers of every five, behind 20 bytes: integer n of the view is at 20 + n / 2 * 20 + n % 2 * 4. */
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_create_resized(pair, 0, 20, &spread);
    MPI_Type_commit(&spread);
    MPI_OK(MPI_File_set_view(file, 20, MPI_INT, spread, "native", MPI_INFO_NULL));
    MPI_OK(MPI_File_seek(file, 7, MPI_SEEK_SET));
    MPI_OK(MPI_File_seek(file, -2, MPI_SEEK_CUR));
    MPI_OK(MPI_File_get_position(file, &position));
    EQUAL(position, 5);
    MPI_OK(MPI_File_get_byte_offset(file, 5, &bytes));
    EQUAL(bytes, 20 + 2 * 20 + 4);
    MPI_OK(MPI_File_get_byte_offset(file, 0, &bytes));
    EQUAL(bytes, 20);
    /* 380 bytes behind the displacement hold 19 pairs. */
    MPI_OK(MPI_File_seek(file, -3, MPI_SEEK_END));
    MPI_OK(MPI_File_get_position(file, &position));
    EQUAL(position, 35);
    refuse_places(file);
    MPI_OK(MPI_File_seek_shared(file, 6, MPI_SEEK_SET));
    MPI_OK(MPI_File_seek_shared(file, 3, MPI_SEEK_CUR));
    MPI_OK(MPI_File_get_position_shared(file, &position));
    EQUAL(position, 9);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_OK(MPI_File_seek_shared(file, -1, MPI_SEEK_END));
    MPI_OK(MPI_File_get_position_shared(file, &position));
    EQUAL(position, 37);

    MPI_Offset displacement;
    MPI_Datatype etype, filetype;
    MPI_Aint extent, lower;
    char representation[MPI_MAX_DATAREP_STRING];
    MPI_OK(MPI_File_get_view(file, &displacement, &etype, &filetype, representation));
    EQUAL(displacement, 20);
    CHECK(strcmp(representation, "native") == 0, "the representation is %s", representation);
    MPI_OK(MPI_Type_get_extent(filetype, &lower, &extent));
    EQUAL(extent, 20);
    MPI_OK(MPI_File_get_type_extent(file, MPI_DOUBLE, &extent));
    EQUAL(extent, 8);
    if (filetype != MPI_INT) MPI_Type_free(&filetype);
    MPI_Type_free(&pair);
    MPI_Type_free(&spread);
    /* The same where the view has no gaps. */
    MPI_OK(MPI_File_set_view(file, 20, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    MPI_OK(MPI_File_seek(file, -5, MPI_SEEK_END));
    MPI_OK(MPI_File_seek(file, -10, MPI_SEEK_CUR));
    MPI_OK(MPI_File_get_position(file, &position));
    EQUAL(position, 80);
    MPI_OK(MPI_File_get_byte_offset(file, 80, &bytes));
    EQUAL(bytes, 20 + 80 * 4);
    refuse_places(file);
    MPI_OK(MPI_File_close(&file));
}

/* What cannot be a size is an error on all ranks, also where only some of them give it. */
static void refuse_sizes(MPI_File file) {
    MPI_FAILS(MPI_File_set_size(file, -1), MPI_ERR_ARG);
    MPI_FAILS(MPI_File_preallocate(file, -1), MPI_ERR_ARG);
    MPI_FAILS(MPI_File_preallocate(file, (MPI_Offset)1 << 62), MPI_ERR_NO_SPACE);
    if (ranks == 1) return;
    for (int step = -1; step <= 1; step += 2) {
        /* At first only some of the sizes are negative, and ROMIO refuses these before it asks anybody. */
        MPI_Offset own = rank == 0 ? 5 : step * 200000;
        MPI_FAILS(MPI_File_set_size(file, own), MPI_ERR_NOT_SAME);
        MPI_FAILS(MPI_File_preallocate(file, own), MPI_ERR_NOT_SAME);
    }
}

void test_sizes(const char *name) {
    MPI_File file = open_new(beside(name, ".sizes"), MPI_MODE_RDWR);
    const MPI_Offset FAR = ((MPI_Offset)5 << 30) + 12345;
    MPI_Offset size;
    MPI_Status status;
    unsigned char buffer[64];
    int count;
    MPI_OK(MPI_File_get_size(file, &size));
    EQUAL(size, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    /* Far out, beyond what 32 bits count, with nothing before it. */
    memset(buffer, 0xC3, sizeof buffer);
    MPI_OK(MPI_File_write_at(file, FAR + rank * 64, buffer, 64, MPI_BYTE, &status));
    exchange(file);
    MPI_OK(MPI_File_get_size(file, &size));
    EQUAL(size, FAR + ranks * 64);
    MPI_OK(MPI_File_read_at_all(file, FAR - 32, buffer, 64, MPI_BYTE, &status));
    MPI_OK(MPI_Get_count(&status, MPI_BYTE, &count));
    EQUAL(count, 64);
    for (int i = 0; i < 64; i++) EQUAL(buffer[i], i < 32 ? 0 : 0xC3);
    MPI_Barrier(MPI_COMM_WORLD);
    /* Cut within what was written, and grown again: zeros. */
    MPI_OK(MPI_File_set_size(file, FAR + 10));
    MPI_OK(MPI_File_get_size(file, &size));
    EQUAL(size, FAR + 10);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_OK(MPI_File_set_size(file, FAR + 100));
    MPI_OK(MPI_File_read_at(file, FAR, buffer, 64, MPI_BYTE, &status));
    for (int i = 0; i < 64; i++) EQUAL(buffer[i], i < 10 ? 0xC3 : 0);
    MPI_Barrier(MPI_COMM_WORLD);
    /* Preallocation grows, and never shrinks or changes anything. */
    MPI_OK(MPI_File_set_size(file, 0));
    if (rank == 0) MPI_OK(MPI_File_write_at(file, 0, "abcdef", 6, MPI_BYTE, &status));
    exchange(file);
    MPI_OK(MPI_File_preallocate(file, 100000));
    MPI_OK(MPI_File_get_size(file, &size));
    EQUAL(size, 100000);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_OK(MPI_File_preallocate(file, 10));
    MPI_OK(MPI_File_get_size(file, &size));
    EQUAL(size, 100000);
    refuse_sizes(file);
    MPI_OK(MPI_File_get_size(file, &size));
    EQUAL(size, 100000);
    MPI_OK(MPI_File_read_at(file, 0, buffer, 8, MPI_BYTE, &status));
    HOLDS(memcmp(buffer, "abcdef\0", 8) == 0);
    MPI_OK(MPI_File_close(&file));
}

void test_settings(const char *name) {
    MPI_File file;
    MPI_Info info, told;
    MPI_Group group, world;
    char value[MPI_MAX_INFO_VAL + 1];
    int flag, atomic, same, amode;
    MPI_Info_create(&info);
    MPI_Info_set(info, "svm_segment_size", "131072");
    MPI_Info_set(info, "cb_buffer_size", "65536");
    const char *own = beside(name, ".settings");
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, own, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    MPI_OK(MPI_File_get_info(file, &told));
    MPI_Info_get(told, "cb_buffer_size", MPI_MAX_INFO_VAL, value, &flag);
    CHECK(flag && strcmp(value, "65536") == 0, "cb_buffer_size is %s", flag ? value : "not told");
    if (strncmp(name, "svm:", 4) == 0) {
        MPI_Info_get(told, "svm_segment_size", MPI_MAX_INFO_VAL, value, &flag);
        CHECK(flag && strcmp(value, "131072") == 0, "svm_segment_size is %s", flag ? value : "not told");
    }
    MPI_Info_free(&told);
    /* A hint that makes no sense is ignored. */
    MPI_Info_set(info, "svm_segment_size", "many");
    MPI_OK(MPI_File_set_info(file, info));
    MPI_Info_free(&info);

    MPI_OK(MPI_File_get_atomicity(file, &atomic));
    EQUAL(atomic, 0);
    MPI_OK(MPI_File_set_atomicity(file, 1));
    MPI_OK(MPI_File_get_atomicity(file, &atomic));
    EQUAL(atomic, 1);
    int number = rank + 10, next;
    MPI_OK(MPI_File_write_at(file, 4 * rank, &number, 1, MPI_INT, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_OK(MPI_File_read_at(file, 4 * ((rank + 1) % ranks), &next, 1, MPI_INT, MPI_STATUS_IGNORE));
    EQUAL(next, (rank + 1) % ranks + 10);
    MPI_OK(MPI_File_set_atomicity(file, 0));

    MPI_OK(MPI_File_get_group(file, &group));
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_compare(group, world, &same);
    EQUAL(same, MPI_IDENT);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    MPI_OK(MPI_File_get_amode(file, &amode));
    EQUAL(amode, MPI_MODE_CREATE | MPI_MODE_RDWR);
    CHECK(MPI_File_f2c(MPI_File_c2f(file)) == file, "the handle does not survive Fortran");

    MPI_Errhandler handler;
    MPI_OK(MPI_File_get_errhandler(file, &handler));
    CHECK(handler == MPI_ERRORS_RETURN, "errors of files are not returned by default");
    MPI_Errhandler_free(&handler);
    MPI_OK(MPI_File_close(&file));
    HOLDS(file == MPI_FILE_NULL);
}

static int value;
static int write_all(MPI_File file) { return MPI_File_write_all_begin(file, &value, 1, MPI_INT); }
static int write_at_all(MPI_File file) { return MPI_File_write_at_all_begin(file, 0, &value, 1, MPI_INT); }
static int write_ordered(MPI_File file) { return MPI_File_write_ordered_begin(file, &value, 1, MPI_INT); }
static int read_all(MPI_File file) { return MPI_File_read_all_begin(file, &value, 1, MPI_INT); }
static int read_at_all(MPI_File file) { return MPI_File_read_at_all_begin(file, 0, &value, 1, MPI_INT); }
static int read_ordered(MPI_File file) { return MPI_File_read_ordered_begin(file, &value, 1, MPI_INT); }

typedef int beginner(MPI_File);
static beginner *const writes[] = {write_all, write_at_all, write_ordered};
static beginner *const reads[] = {read_all, read_at_all, read_ordered};

/* A split access for which the file is not open is refused where it begins, and is none that others wait for. */
static void begins_are_refused(MPI_File file, beginner *const begins[], int class) {
    for (int again = 0; again < 2; again++)
        for (int i = 0; i < 3; i++) MPI_FAILS(begins[i](file), class);
    MPI_Offset position;
    MPI_OK(MPI_File_get_position_shared(file, &position));
    EQUAL(position, 0);
}

void test_modes(const char *name) {
    const char *own = beside(name, ".modes");
    const MPI_Comm world = MPI_COMM_WORLD;
    MPI_File file;
    MPI_Status status;
    MPI_Offset position, size;
    int buffer = 7;
    MPI_FAILS(MPI_File_open(world, own, MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE);
    MPI_FAILS(MPI_File_delete(own, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
    MPI_FAILS(MPI_File_open(world, own, MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file), MPI_ERR_AMODE);
    MPI_FAILS(MPI_File_open(world, own, MPI_MODE_RDONLY | MPI_MODE_WRONLY, MPI_INFO_NULL, &file), MPI_ERR_AMODE);

    file = open_new(own, MPI_MODE_WRONLY);
    MPI_OK(MPI_File_write_at(file, 4 * rank, &rank, 1, MPI_INT, &status));
    HOLDS(MPI_File_read_at(file, 0, &buffer, 1, MPI_INT, &status) != MPI_SUCCESS);
    begins_are_refused(file, reads, MPI_ERR_ACCESS);
    MPI_OK(MPI_File_write_all_begin(file, NULL, 0, MPI_INT));
    MPI_OK(MPI_File_write_all_end(file, NULL, &status));
    MPI_OK(MPI_File_close(&file));
    MPI_FAILS(MPI_File_open(world, own, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR, MPI_INFO_NULL, &file),
              MPI_ERR_FILE_EXISTS);

    MPI_OK(MPI_File_open(world, own, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_read_at(file, 4 * rank, &buffer, 1, MPI_INT, &status));
    EQUAL(buffer, rank);
    int code = MPI_File_write_at(file, 0, &buffer, 1, MPI_INT, &status);
    CHECK(class_of(code) == MPI_ERR_READ_ONLY || class_of(code) == MPI_ERR_ACCESS, "class %d", class_of(code));
    MPI_FAILS(MPI_File_set_size(file, 10), MPI_ERR_READ_ONLY);
    MPI_FAILS(MPI_File_preallocate(file, 10 * ranks + 10), MPI_ERR_READ_ONLY);
    begins_are_refused(file, writes, MPI_ERR_READ_ONLY);
    MPI_OK(MPI_File_read_at_all_begin(file, 4 * rank, &buffer, 1, MPI_INT));
    MPI_OK(MPI_File_read_at_all_end(file, &buffer, &status));
    EQUAL(buffer, rank);
    MPI_OK(MPI_File_close(&file));

    MPI_OK(MPI_File_open(world, own, MPI_MODE_WRONLY | MPI_MODE_APPEND, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_get_position(file, &position));
    EQUAL(position, 4 * ranks);
    MPI_OK(MPI_File_get_position_shared(file, &position));
    EQUAL(position, 4 * ranks);
    MPI_Barrier(world);
    if (rank == 0) MPI_OK(MPI_File_write(file, &buffer, 1, MPI_INT, &status));
    /* Rank 0 alone has opened the shared file pointer: the collective calls are still about the file. */
    MPI_OK(MPI_File_preallocate(file, 4 * ranks));
    MPI_OK(MPI_File_close(&file));
    MPI_OK(MPI_File_open(world, own, MPI_MODE_RDWR | MPI_MODE_UNIQUE_OPEN, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_get_size(file, &size));
    EQUAL(size, 4 * ranks + 4);
    MPI_OK(MPI_File_close(&file));

    MPI_Barrier(world);
    if (rank == 0) MPI_OK(MPI_File_delete(own, MPI_INFO_NULL));
    MPI_Barrier(world);
    MPI_FAILS(MPI_File_open(world, own, MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE);

    file = open_new(own, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    MPI_OK(MPI_File_write_ordered(file, &rank, 1, MPI_INT, &status));
    MPI_OK(MPI_File_read_at(file, 4 * rank, &buffer, 1, MPI_INT, &status));
    EQUAL(buffer, rank);
    MPI_OK(MPI_File_close(&file));
    MPI_FAILS(MPI_File_open(world, own, MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE);
}

/* Files of single ranks and of parts of the job, and one file open twice, all at the same time. */
void test_several(const char *name) {
    char suffix[32];
    MPI_File common, alone, half, again;
    MPI_Comm part;
    MPI_Status status;
    int number = 40 + rank, found;
    common = open_new(beside(name, ".several"), MPI_MODE_RDWR);
    snprintf(suffix, sizeof suffix, ".alone/%d", rank);
    MPI_OK(MPI_File_open(MPI_COMM_SELF, beside(name, suffix), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &alone));
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &part);
    snprintf(suffix, sizeof suffix, ".half/%d", rank % 2);
    MPI_OK(MPI_File_open(part, beside(name, suffix), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &half));
    MPI_OK(MPI_File_open(MPI_COMM_SELF, beside(name, ".several"), MPI_MODE_RDONLY, MPI_INFO_NULL, &again));

    MPI_OK(MPI_File_write_at(alone, 0, &number, 1, MPI_INT, &status));
    MPI_OK(MPI_File_write_at_all(common, 4 * rank, &number, 1, MPI_INT, &status));
    MPI_OK(MPI_File_write_ordered(half, &number, 1, MPI_INT, &status));
    exchange(common);
    int other = (rank + 1) % ranks;
    MPI_OK(MPI_File_read_at(again, 4 * other, &found, 1, MPI_INT, &status));
    EQUAL(found, 40 + other);
    MPI_OK(MPI_File_read_at(alone, 0, &found, 1, MPI_INT, &status));
    EQUAL(found, number);
    int in_part, parts;
    MPI_Comm_rank(part, &in_part);
    MPI_Comm_size(part, &parts);
    MPI_OK(MPI_File_read_at_all(half, 4 * in_part, &found, 1, MPI_INT, &status));
    EQUAL(found, number);
    MPI_Offset size;
    MPI_OK(MPI_File_get_size(half, &size));
    EQUAL(size, 4 * parts);

    MPI_OK(MPI_File_close(&again));
    MPI_OK(MPI_File_close(&half));
    MPI_OK(MPI_File_close(&alone));
    MPI_OK(MPI_File_close(&common));
    MPI_Comm_free(&part);
}
