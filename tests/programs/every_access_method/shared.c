/* Shared file pointers: independent, in the ranks' order, and in files that are read from one end to the other. */
#include "parts.h"

/* A record, and how many a rank writes by each of two methods. */
enum { FIELDS = 5, EACH = 20 };

static void fill(int *record, int of_rank, int number) {
    for (int field = 0; field < FIELDS; field++) record[field] = of_rank * 100000 + number * 10 + field;
}

/* Which record of which rank this is; it must be whole. */
static int known(const int *record, int *number) {
    int of_rank = record[0] / 100000, expected[FIELDS];
    *number = record[0] % 100000 / 10;
    fill(expected, of_rank, *number);
    CHECK(memcmp(record, expected, sizeof expected) == 0, "a record that begins with %d is torn", record[0]);
    CHECK(of_rank >= 0 && of_rank < ranks && *number < 2 * EACH, "there is no record %d", record[0]);
    return of_rank;
}

/* The same view for all: behind a header, with a hole of one integer in seven. */
static void set_view(MPI_File file) {
    MPI_Datatype six, holed;
    MPI_Type_contiguous(6, MPI_INT, &six);
    MPI_Type_create_resized(six, 0, 28, &holed);
    MPI_Type_commit(&holed);
    MPI_OK(MPI_File_set_view(file, 24, MPI_INT, holed, "native", MPI_INFO_NULL));
    MPI_Type_free(&six);
    MPI_Type_free(&holed);
}

static void check_count(MPI_Status *status, int integers) {
    int count;
    MPI_OK(MPI_Get_elements(status, MPI_INT, &count));
    EQUAL(count, integers);
}

void test_shared(const char *name) {
    MPI_File file = open_new(beside(name, ".shared"), MPI_MODE_RDWR);
    MPI_Status status;
    MPI_Offset position;
    int record[FIELDS], number, total = ranks * 2 * EACH;
    set_view(file);
    for (int i = 0; i < EACH; i++) {
        MPI_Request request;
        fill(record, rank, 2 * i);
        MPI_OK(MPI_File_write_shared(file, record, FIELDS, MPI_INT, &status));
        check_count(&status, FIELDS);
        fill(record, rank, 2 * i + 1);
        MPI_OK(MPI_File_iwrite_shared(file, record, FIELDS, MPI_INT, &request));
        MPI_OK(MPI_Wait(&request, &status));
        check_count(&status, FIELDS);
    }
    exchange(file);
    MPI_OK(MPI_File_get_position_shared(file, &position));
    EQUAL(position, total * FIELDS);

    /* Each record is there once, and each rank's are in their order. */
    int *all = malloc((size_t)total * FIELDS * sizeof *all), *next = calloc((size_t)ranks, sizeof *next);
    MPI_OK(MPI_File_read_at(file, 0, all, total * FIELDS, MPI_INT, &status));
    check_count(&status, total * FIELDS);
    for (int i = 0; i < total; i++) {
        int of_rank = known(all + i * FIELDS, &number);
        EQUAL(number, next[of_rank]);
        next[of_rank]++;
    }
    /* The pointer stands where it stood. */
    MPI_OK(MPI_File_get_position_shared(file, &position));
    EQUAL(position, total * FIELDS);

    /* Read by all together, each record comes to one rank. */
    int *got = calloc((size_t)total, sizeof *got);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    for (int i = 0; i < EACH; i++) {
        MPI_Request request;
        MPI_OK(MPI_File_read_shared(file, record, FIELDS, MPI_INT, &status));
        check_count(&status, FIELDS);
        int of_rank = known(record, &number);
        got[of_rank * 2 * EACH + number]++;
        MPI_OK(MPI_File_iread_shared(file, record, FIELDS, MPI_INT, &request));
        MPI_OK(MPI_Wait(&request, &status));
        check_count(&status, FIELDS);
        of_rank = known(record, &number);
        got[of_rank * 2 * EACH + number]++;
    }
    MPI_Allreduce(MPI_IN_PLACE, got, total, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < total; i++) EQUAL(got[i], 1);

    /* At the end there is nothing more. */
    MPI_OK(MPI_File_read_shared(file, record, FIELDS, MPI_INT, &status));
    check_count(&status, 0);
    free(all);
    free(next);
    free(got);
    MPI_OK(MPI_File_close(&file));
}

/* Where the view asks for it, what is read in order is converted, too; memory before the buffer is reached as in any other
 * view. */
static void converted(const char *name) {
    MPI_File file = open_new(name, MPI_MODE_RDWR);
    int memory[3] = {0}, number = 0x01020304 * (rank + 1), length = 1;
    MPI_Aint place = -2 * (int)sizeof number;
    MPI_Datatype before;
    MPI_Type_create_hindexed(1, &length, &place, MPI_INT, &before);
    MPI_Type_commit(&before);
    MPI_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL));
    MPI_OK(MPI_File_write_ordered(file, &number, 1, MPI_INT, MPI_STATUS_IGNORE));
    exchange(file);
    MPI_OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    MPI_OK(MPI_File_read_ordered(file, memory + 2, 1, before, MPI_STATUS_IGNORE));
    EQUAL(memory[0], number);
    EQUAL(memory[1], 0);
    EQUAL(memory[2], 0);
    MPI_Request request;
    MPI_Status status;
    number = 0;
    MPI_OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    MPI_OK(MPI_File_iread_shared(file, &number, 1, MPI_INT, &request));
    MPI_OK(MPI_Wait(&request, &status));
    check_count(&status, 1);
    HOLDS(number != 0 && number % 0x01020304 == 0);
    /* Nothing, for which there is no buffer. */
    MPI_OK(MPI_File_read_ordered(file, NULL, 0, MPI_INT, &status));
    MPI_Type_free(&before);
    MPI_OK(MPI_File_close(&file));
}

/* So is what one rank writes without waiting, also in atomic mode. */
static void converted_in_atomic_mode(const char *name) {
    MPI_File file = open_new(name, MPI_MODE_RDWR);
    MPI_Request request;
    int number = 0x01020304, found, sum = 0;
    MPI_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL));
    MPI_OK(MPI_File_set_atomicity(file, 1));
    MPI_OK(MPI_File_iwrite_shared(file, &number, 1, MPI_INT, &request));
    MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_iwrite_at(file, ranks + rank, &number, 1, MPI_INT, &request));
    MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_seek(file, 2 * ranks + rank, MPI_SEEK_SET));
    MPI_OK(MPI_File_iwrite(file, &number, 1, MPI_INT, &request));
    MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 3 * ranks; i++) {
        MPI_OK(MPI_File_read_at(file, i, &found, 1, MPI_INT, MPI_STATUS_IGNORE));
        EQUAL(found, number);
    }
    MPI_OK(MPI_File_get_atomicity(file, &found));
    EQUAL(found, 1);
    MPI_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    for (int i = 0; i < 12 * ranks; i++) {
        unsigned char byte;
        MPI_OK(MPI_File_read_at(file, i, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE));
        sum += byte == i % 4 + 1;
    }
    EQUAL(sum, 12 * ranks);
    MPI_OK(MPI_File_close(&file));
}

/* So are elements of different sizes; those that have another size there are refused. */
static void converted_in_turn(const char *name) {
    struct { short first; int second; double third; } of_rank, read;
    MPI_Aint places[] = {0, (char *)&of_rank.second - (char *)&of_rank, (char *)&of_rank.third - (char *)&of_rank};
    int lengths[] = {1, 1, 1};
    MPI_Datatype types[] = {MPI_SHORT, MPI_INT, MPI_DOUBLE}, mixed;
    MPI_Type_create_struct(3, lengths, places, types, &mixed);
    MPI_Type_commit(&mixed);
    unsigned char bytes[14];
    memset(&of_rank, 0, sizeof of_rank);
    of_rank.first = 0x0102 + rank, of_rank.second = 0x03040506, of_rank.third = 1.5 * (rank + 1);
    for (int i = 0; i < 2; i++) bytes[i] = ((unsigned char *)&of_rank.first)[1 - i];
    for (int i = 0; i < 4; i++) bytes[2 + i] = ((unsigned char *)&of_rank.second)[3 - i];
    for (int i = 0; i < 8; i++) bytes[6 + i] = ((unsigned char *)&of_rank.third)[7 - i];
    MPI_File file = open_new(name, MPI_MODE_RDWR);
    MPI_OK(MPI_File_write_ordered(file, bytes, 14, MPI_BYTE, MPI_STATUS_IGNORE));
    exchange(file);
    MPI_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "external32", MPI_INFO_NULL));
    memset(&read, 0, sizeof read);
    MPI_OK(MPI_File_read_ordered(file, &read, 1, mixed, MPI_STATUS_IGNORE));
    CHECK(memcmp(&read, &of_rank, sizeof read) == 0, "%d %#x %f were read", read.first, read.second, read.third);
    long number = rank;
    MPI_FAILS(MPI_File_read_ordered(file, &number, 1, MPI_LONG, MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION);
    EQUAL(number, rank);
    MPI_Type_free(&mixed);
    MPI_OK(MPI_File_close(&file));
}

/* Each rank writes rank + 1 records, by write_ordered and by its split form, in turn. */
void test_ordered(const char *name) {
    enum { ROUNDS = 6 };
    MPI_File file = open_new(beside(name, ".ordered"), MPI_MODE_RDWR);
    MPI_Status status;
    MPI_Offset position;
    int mine = rank + 1, per_round = ranks * (ranks + 1) / 2;
    int (*records)[FIELDS + 2] = malloc((size_t)mine * sizeof *records);
    MPI_Datatype memory;
    MPI_Type_vector(mine, FIELDS, FIELDS + 2, MPI_INT, &memory);
    MPI_Type_commit(&memory);
    set_view(file);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < mine; i++) fill(records[i], rank, round);
        if (round % 2 == 0) {
            MPI_OK(MPI_File_write_ordered(file, records, 1, memory, &status));
        } else {
            MPI_OK(MPI_File_write_ordered_begin(file, records, 1, memory));
            MPI_OK(MPI_File_write_ordered_end(file, records, &status));
        }
        check_count(&status, mine * FIELDS);
    }
    exchange(file);
    MPI_OK(MPI_File_get_position_shared(file, &position));
    EQUAL(position, ROUNDS * per_round * FIELDS);

    MPI_Barrier(MPI_COMM_WORLD);
    MPI_OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    for (int round = 0; round < ROUNDS; round++) {
        memset(records, 0, (size_t)mine * sizeof *records);
        if (round % 2 == 1) {
            MPI_OK(MPI_File_read_ordered(file, records, 1, memory, &status));
        } else {
            MPI_OK(MPI_File_read_ordered_begin(file, records, 1, memory));
            MPI_OK(MPI_File_read_ordered_end(file, records, &status));
        }
        check_count(&status, mine * FIELDS);
        for (int i = 0; i < mine; i++) {
            int number;
            EQUAL(known(records[i], &number), rank);
            EQUAL(number, round);
        }
    }

    /* The file has them in the order of ranks. */
    int *all = malloc((size_t)(ROUNDS * per_round * FIELDS) * sizeof *all), *at = all;
    MPI_OK(MPI_File_read_at_all(file, 0, all, ROUNDS * per_round * FIELDS, MPI_INT, &status));
    for (int round = 0; round < ROUNDS; round++) {
        for (int r = 0; r < ranks; r++) {
            for (int i = 0; i <= r; i++, at += FIELDS) {
                int number;
                EQUAL(known(at, &number), r);
                EQUAL(number, round);
            }
        }
    }
    free(all);
    free(records);
    MPI_Type_free(&memory);
    MPI_OK(MPI_File_close(&file));
    converted(beside(name, ".before"));
    converted_in_turn(beside(name, ".mixed"));
    converted_in_atomic_mode(beside(name, ".converted"));
}

/* What is appended in sequential mode comes behind the `ints` integers that are there. */
static void append(const char *name, int ints) {
    MPI_File file;
    MPI_Status status;
    int number, sum = 0, amode = MPI_MODE_WRONLY | MPI_MODE_APPEND | MPI_MODE_SEQUENTIAL, told;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, name, amode, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_get_amode(file, &told));
    EQUAL(told, amode);
    HOLDS(MPI_File_seek_shared(file, 0, MPI_SEEK_SET) != MPI_SUCCESS);
    for (int i = 0; i < 2; i++) {
        number = 100 + i * ranks + rank;
        MPI_OK(MPI_File_write_ordered(file, &number, 1, MPI_INT, &status));
    }
    MPI_OK(MPI_File_close(&file));
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    MPI_Offset size;
    MPI_OK(MPI_File_get_size(file, &size));
    EQUAL(size, (ints + 2 * ranks) * 4);
    for (int i = 0; i < ints; i++) {
        MPI_OK(MPI_File_read_at(file, i * 4, &number, 1, MPI_INT, &status));
        sum += number;
    }
    EQUAL(sum, ranks * (ranks - 1));
    for (int i = 0; i < 2 * ranks; i++) {
        MPI_OK(MPI_File_read_at(file, (ints + i) * 4, &number, 1, MPI_INT, &status));
        EQUAL(number, 100 + i);
    }
    MPI_OK(MPI_File_close(&file));
}

/* In sequential mode a view begins where the shared pointer is in the one before, gaps included. */
static void views_in_a_row(const char *name) {
    enum { VIEWS = 3, GAPS = 4 };
    MPI_Datatype with_gaps;
    int number, numbers = VIEWS * ranks * GAPS;
    MPI_File file = open_new(name, MPI_MODE_WRONLY);
    for (int i = rank; i < numbers; i += ranks) {
        MPI_OK(MPI_File_write_at(file, i * (int)sizeof i, &i, 1, MPI_INT, MPI_STATUS_IGNORE));
    }
    MPI_OK(MPI_File_close(&file));
    MPI_Type_create_resized(MPI_INT, 0, GAPS * (int)sizeof number, &with_gaps);
    MPI_Type_commit(&with_gaps);
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL, &file));
    MPI_Datatype views[VIEWS] = {with_gaps, with_gaps, MPI_INT};
    for (int i = 0; i < VIEWS; i++) {
        MPI_OK(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, views[i], "native", MPI_INFO_NULL));
        MPI_OK(MPI_File_read_ordered(file, &number, 1, MPI_INT, MPI_STATUS_IGNORE));
        EQUAL(number, i * ranks * GAPS + rank * (views[i] == with_gaps ? GAPS : 1));
    }
    MPI_Type_free(&with_gaps);
    MPI_OK(MPI_File_close(&file));
}

/* MPI_MODE_SEQUENTIAL allows shared pointers only. */
void test_sequential(const char *name) {
    const char *own = beside(name, ".sequential");
    MPI_File file = open_new(own, MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL);
    MPI_Status status;
    int buffer = rank;
    HOLDS(MPI_File_write_at(file, 0, &buffer, 1, MPI_INT, &status) != MPI_SUCCESS);
    MPI_Offset told = 7;
    MPI_FAILS(MPI_File_seek(file, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION);
    MPI_FAILS(MPI_File_get_position(file, &told), MPI_ERR_UNSUPPORTED_OPERATION);
    MPI_FAILS(MPI_File_get_byte_offset(file, 0, &told), MPI_ERR_UNSUPPORTED_OPERATION);
    EQUAL(told, 7);
    MPI_OK(MPI_File_write_ordered(file, &buffer, 1, MPI_INT, &status));
    MPI_OK(MPI_File_write_shared(file, &buffer, 1, MPI_INT, &status));
    MPI_OK(MPI_File_close(&file));
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, own, MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_read_ordered(file, &buffer, 1, MPI_INT, &status));
    EQUAL(buffer, rank);
    MPI_OK(MPI_File_read_shared(file, &buffer, 1, MPI_INT, &status));
    int seen = 0, mine = 1 << buffer;
    MPI_Allreduce(&mine, &seen, 1, MPI_INT, MPI_BOR, MPI_COMM_WORLD);
    EQUAL(seen, (1 << ranks) - 1);
    MPI_OK(MPI_File_close(&file));
    append(own, 2 * ranks);
    views_in_a_row(beside(name, ".views"));
}
