/* unsynced FILE by-default|by-hint|by-environment|left: what others see of what was written where nobody has synced. At once, where that is asked for; where a
 * collective read follows a collective write, in any case. And a file that the program leaves open is closed by a
 * library of its own at the end of MPI, as HDF5 does. */
#include "check.h"

enum { ROUNDS = 20, INTS = 3000, PIECES = 500, MANY = 1 << 16 };

static MPI_File file;
static int numbers[INTS], read_back[INTS];

static MPI_File opened(const char *name, const char *visibility) {
    MPI_File file;
    MPI_Info info;
    MPI_OK(MPI_Info_create(&info));
    if (visibility) MPI_OK(MPI_Info_set(info, "svm_visibility", visibility));
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file));
    MPI_OK(MPI_Info_free(&info));
    return file;
}

static void is_told(const char *key, const char *expected) {
    char value[100] = "";
    int flag;
    MPI_Info info;
    MPI_OK(MPI_File_get_info(file, &info));
    MPI_OK(MPI_Info_get(info, key, sizeof value - 1, value, &flag));
    MPI_OK(MPI_Info_free(&info));
    CHECK(flag && strcmp(value, expected) == 0, "%s is %s and not %s", key, value, expected);
}

static void fill(int round) {
    for (int i = 0; i < INTS; i++) numbers[i] = round * 10000 + i;
}

/* One rank after the other writes by itself, and then each reads, again and again, so that all have old pages. */
static void independently(void) {
    MPI_Offset size;
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Offset end = (MPI_Offset)sizeof numbers + 4 * round;
        int writer = round % ranks;
        fill(round);
        doing = "a row of bytes";
        if (rank == writer) {
            MPI_OK(MPI_File_write_at(file, 4 * round, numbers, INTS, MPI_INT, MPI_STATUS_IGNORE));
        }
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_OK(MPI_File_get_size(file, &size));
        EQUAL(size, end);
        MPI_OK(MPI_File_read_at(file, 4 * round, read_back, INTS, MPI_INT, MPI_STATUS_IGNORE));
        CHECK(memcmp(numbers, read_back, sizeof numbers) == 0, "rank %d's round %d is not seen", writer, round);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* The same of pieces, by a view of every other integer. */
static void in_pieces(void) {
    MPI_Datatype other;
    MPI_OK(MPI_Type_create_resized(MPI_INT, 0, 8, &other));
    MPI_OK(MPI_Type_commit(&other));
    MPI_OK(MPI_File_set_view(file, 0, MPI_INT, other, "native", MPI_INFO_NULL));
    doing = "pieces";
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request request;
        int writer = round % ranks;
        fill(-round);
        if (rank == writer) {
            MPI_OK(MPI_File_iwrite_at(file, 0, numbers, PIECES, MPI_INT, &request));
            MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_OK(MPI_File_read_at(file, 0, read_back, PIECES, MPI_INT, MPI_STATUS_IGNORE));
        CHECK(memcmp(numbers, read_back, PIECES * sizeof(int)) == 0, "round %d is not seen", round);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_OK(MPI_Type_free(&other));
    MPI_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
}

/* The file grows behind the others' backs: what goes by its end, or is read in the background, finds the new one. */
static void growing(void) {
    static int many[MANY], more[MANY];
    MPI_Datatype other;
    MPI_Status status;
    MPI_Request request;
    MPI_Offset size, position;
    int count;
    MPI_OK(MPI_Type_create_resized(MPI_INT, 0, 8, &other));
    MPI_OK(MPI_Type_commit(&other));
    for (int round = 0; round < 4; round++) {
        int writer = round % ranks;
        MPI_OK(MPI_File_get_size(file, &size));
        MPI_Offset begin = (size + 7) / 8 * 8;
        for (int i = 0; i < MANY; i++) many[i] = round + i;
        /* Setting the view, all learn the size of before. */
        switch (round) {
        case 2: MPI_OK(MPI_File_set_view(file, begin, MPI_INT, other, "native", MPI_INFO_NULL)); break;
        default: MPI_OK(MPI_File_set_view(file, begin, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
        }
        if (rank == writer) MPI_OK(MPI_File_write_at(file, 0, many, MANY, MPI_INT, MPI_STATUS_IGNORE));
        MPI_Barrier(MPI_COMM_WORLD);
        switch (round) {
        case 0:
            doing = "a long iread";
            MPI_OK(MPI_File_iread(file, more, MANY, MPI_INT, &request));
            MPI_OK(MPI_Wait(&request, &status));
            break;
        case 1:
            doing = "a split read";
            MPI_OK(MPI_File_read_all_begin(file, more, MANY, MPI_INT));
            MPI_OK(MPI_File_read_all_end(file, more, &status));
            break;
        default:
            doing = "going to the end";
            MPI_OK(MPI_File_seek(file, 0, MPI_SEEK_END));
            MPI_OK(MPI_File_get_position(file, &position));
            EQUAL(position, MANY);
            MPI_OK(MPI_File_read_at(file, 0, more, MANY, MPI_INT, &status));
        }
        MPI_OK(MPI_Get_count(&status, MPI_INT, &count));
        EQUAL(count, MANY);
        CHECK(memcmp(many, more, sizeof many) == 0, "round %d is not seen", round);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_OK(MPI_Type_free(&other));
    MPI_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
}

/* All write together, each its own part, and then all read together what another one has written. */
static void together(void) {
    doing = "a collective read after a collective write";
    for (int round = 0; round < ROUNDS; round++) {
        int own = (rank + round) % ranks, others = (rank + round + 1) % ranks;
        for (int i = 0; i < PIECES; i++) numbers[i] = round * 1000 + own;
        MPI_OK(MPI_File_write_at_all(file, (MPI_Offset)own * PIECES * 4, numbers, PIECES, MPI_INT, MPI_STATUS_IGNORE));
        MPI_OK(MPI_File_read_at_all(file, (MPI_Offset)others * PIECES * 4, read_back, PIECES, MPI_INT, MPI_STATUS_IGNORE));
        for (int i = 0; i < PIECES; i++) EQUAL(read_back[i], round * 1000 + others);
    }
    doing = "a collective read after an ordered write";
    for (int round = 0; round < ROUNDS; round++) {
        int others = (rank + 1) % ranks;
        for (int i = 0; i < PIECES; i++) numbers[i] = round * 1000 + rank + 500;
        MPI_OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
        MPI_OK(MPI_File_write_ordered(file, numbers, PIECES, MPI_INT, MPI_STATUS_IGNORE));
        MPI_OK(MPI_File_read_at_all(file, (MPI_Offset)others * PIECES * 4, read_back, PIECES, MPI_INT, MPI_STATUS_IGNORE));
        for (int i = 0; i < PIECES; i++) EQUAL(read_back[i], round * 1000 + others + 500);
    }
}

static int close_at_the_end(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)value, (void)extra;
    doing = "the end of MPI";
    MPI_OK(MPI_File_write_at_all(file, rank * 4, &rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_File_close(&file));
    return MPI_SUCCESS;
}

static void is_as_left(const char *name) {
    doing = "what was closed at the end of MPI";
    file = opened(name, NULL);
    MPI_OK(MPI_File_read_at(file, 0, read_back, ranks, MPI_INT, MPI_STATUS_IGNORE));
    for (int i = 0; i < ranks; i++) EQUAL(read_back[i], i);
    MPI_OK(MPI_File_close(&file));
}

static void end(const char *words) {
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_Finalize());
    if (rank == 0) printf("%s\n", words);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc == 3, "usage: unsynced FILE what");
    if (strcmp(argv[2], "left") == 0) {
        is_as_left(argv[1]);
        end("it is all there");
        return 0;
    }
    if (strcmp(argv[2], "by-default") == 0) {
        file = opened(argv[1], NULL);
        is_told("svm_visibility", "sync");
        is_told("romio_visibility_immediate", "false");
        together();
    } else {
        /* One that asks is enough; where the environment asks, nobody has to. */
        file = opened(argv[1], strcmp(argv[2], "by-hint") == 0 && rank == ranks - 1 ? "immediate" : NULL);
        is_told("svm_visibility", "immediate");
        is_told("romio_visibility_immediate", "true");
        independently();
        in_pieces();
        growing();
        together();
    }
    int key;
    MPI_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, close_at_the_end, &key, NULL));
    MPI_OK(MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL));
    end("all was seen");
    return 0;
}
