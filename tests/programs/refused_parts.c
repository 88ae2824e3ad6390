/* refused_parts FILE own|shared [handled]: MPI refuses the last rank's part of collective accesses, as the count is
 * negative, before svmio hears of it. The others are not left waiting, and hear of it as they hear of any failure of
 * the rank's; where the file has an error handler of the program's (handled), that hears of each failure once, and
 * the failure is returned all the same. So it is where ranks ask for different modes. */
#include "check.h"

/* Bytes of a rank's part, each in a segment of its own; how often all is done. */
enum { BYTES = 1 << 16, ROUNDS = 12 };

static unsigned char bytes[BYTES];
static int shares, last, is_handled, calls;

static void count_call(MPI_File *file, int *code, ...) {
    (void)file, (void)code;
    calls++;
}

/* What an access has returned, of which the handler has heard. */
static int told(int code) {
    EQUAL(calls, is_handled && code != MPI_SUCCESS);
    calls = 0;
    return code;
}

typedef int access(MPI_File file, MPI_Offset at, int count, MPI_Datatype datatype);

static int write_at(MPI_File file, MPI_Offset at, int count, MPI_Datatype datatype) {
    return MPI_File_write_at_all(file, at, bytes, count, datatype, MPI_STATUS_IGNORE);
}

static int read_at(MPI_File file, MPI_Offset at, int count, MPI_Datatype datatype) {
    return MPI_File_read_at_all(file, at, bytes, count, datatype, MPI_STATUS_IGNORE);
}

static int write_all(MPI_File file, MPI_Offset at, int count, MPI_Datatype datatype) {
    MPI_OK(MPI_File_seek(file, at < 0 ? 0 : at, MPI_SEEK_SET));
    return MPI_File_write_all(file, bytes, at < 0 ? -1 : count, datatype, MPI_STATUS_IGNORE);
}

static int read_all(MPI_File file, MPI_Offset at, int count, MPI_Datatype datatype) {
    MPI_OK(MPI_File_seek(file, at < 0 ? 0 : at, MPI_SEEK_SET));
    return MPI_File_read_all(file, bytes, at < 0 ? -1 : count, datatype, MPI_STATUS_IGNORE);
}

static int begin_write_at(MPI_File file, MPI_Offset at, int count, MPI_Datatype datatype) {
    int code = MPI_File_write_at_all_begin(file, at, bytes, count, datatype);
    return code != MPI_SUCCESS ? code : MPI_File_write_at_all_end(file, bytes, MPI_STATUS_IGNORE);
}

static int begin_read_at(MPI_File file, MPI_Offset at, int count, MPI_Datatype datatype) {
    int code = MPI_File_read_at_all_begin(file, at, bytes, count, datatype);
    return code != MPI_SUCCESS ? code : MPI_File_read_at_all_end(file, bytes, MPI_STATUS_IGNORE);
}

#if MPI_VERSION >= 4
static int begin_write_large(MPI_File file, MPI_Offset at, int count, MPI_Datatype datatype) {
    int code = MPI_File_write_at_all_begin_c(file, at, bytes, count, datatype);
    return code != MPI_SUCCESS ? code : MPI_File_write_at_all_end(file, bytes, MPI_STATUS_IGNORE);
}

static int begin_read_large(MPI_File file, MPI_Offset at, int count, MPI_Datatype datatype) {
    int code = MPI_File_read_at_all_begin_c(file, at, bytes, count, datatype);
    return code != MPI_SUCCESS ? code : MPI_File_read_at_all_end(file, bytes, MPI_STATUS_IGNORE);
}
#else
#define begin_write_large begin_write_at
#define begin_read_large begin_read_at
#endif

static access *const writes[] = {write_at, write_all, begin_write_at, begin_write_large};
static access *const reads[] = {read_at, read_all, begin_read_at, begin_read_large};
enum { METHODS = 4, KINDS = 3, ORDERED_KINDS = 5 };

/* The last rank's part is refused: for its count, its datatype or its place. */
static void refused(access *do_access, MPI_File file, MPI_Offset at, int kind) {
    int code;
    if (rank < last) {
        code = told(do_access(file, at, BYTES, MPI_BYTE));
        if (shares) HOLDS(code != MPI_SUCCESS);
        else MPI_OK(code);
        return;
    }
    if (kind == 0) code = do_access(file, at, -1, MPI_BYTE);
    else if (kind == 1) code = do_access(file, at, 1, MPI_DATATYPE_NULL);
    else code = do_access(file, -1, BYTES, MPI_BYTE);
    HOLDS(told(code) != MPI_SUCCESS);
}

/* What all hear next of it, unless they have heard of it at once. (By what blocks: where a split access fails as it begins,
 * ROMIO takes it for begun.) */
static void heard(int code) {
    char text[MPI_MAX_ERROR_STRING], meant[32];
    int length;
    told(code);
    if (shares) {
        MPI_OK(code);
        return;
    }
    HOLDS(code != MPI_SUCCESS);
    MPI_Error_string(code, text, &length);
    snprintf(meant, sizeof meant, "rank %d", last);
    CHECK(strstr(text, meant) && strstr(text, "/refused"), "%s", text);
}

static void written(MPI_File file, access *do_write, MPI_Offset at, int fill) {
    memset(bytes, fill + rank, BYTES);
    MPI_OK(do_write(file, at, BYTES, MPI_BYTE));
}

static void found(MPI_File file, access *do_read, MPI_Offset at, int fill) {
    memset(bytes, 0, BYTES);
    MPI_OK(do_read(file, at, BYTES, MPI_BYTE));
    for (int i = 0; i < BYTES; i++) EQUAL(bytes[i], fill + rank);
}

static void parts(MPI_File file, int round) {
    access *do_write = writes[round % METHODS], *do_read = reads[round / KINDS % METHODS];
    int kind = round % KINDS;
    MPI_Offset at = (MPI_Offset)(2 * round * ranks + rank) * BYTES, further = at + (MPI_Offset)ranks * BYTES;
    doing = "writes";
    written(file, do_write, at, round + 1);
    refused(do_write, file, further, kind);
    heard(read_at(file, at, BYTES, MPI_BYTE));
    found(file, do_read, at, round + 1);
    doing = "reads";
    refused(do_read, file, at, kind);
    heard(write_at(file, further, BYTES, MPI_BYTE));
    written(file, do_write, further, round + 2);
    doing = "a sync";
    MPI_OK(MPI_File_sync(file));
    found(file, do_read, further, round + 2);
    MPI_OK(MPI_File_sync(file));
    refused(do_write, file, further, kind);
    heard(MPI_File_sync(file));
    found(file, do_read, at, round + 1);
}

static int ordered(MPI_File file, int how, int count, MPI_Datatype datatype) {
    int code;
    switch (how) {
    case 0: return MPI_File_write_ordered(file, bytes, count, datatype, MPI_STATUS_IGNORE);
    case 1: return MPI_File_read_ordered(file, bytes, count, datatype, MPI_STATUS_IGNORE);
    case 2:
        code = MPI_File_write_ordered_begin(file, bytes, count, datatype);
        return code != MPI_SUCCESS ? code : MPI_File_write_ordered_end(file, bytes, MPI_STATUS_IGNORE);
    default:
        code = MPI_File_read_ordered_begin(file, bytes, count, datatype);
        return code != MPI_SUCCESS ? code : MPI_File_read_ordered_end(file, bytes, MPI_STATUS_IGNORE);
    }
}

/* An ordered access in which one rank's part is refused fails on all, and nobody's place in the next one changes. */
static void orders(MPI_File file) {
    doing = "ordered accesses";
    MPI_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    MPI_Datatype uncommitted;
    MPI_Type_contiguous(1, MPI_INT, &uncommitted);
    for (int bad = 0; bad < ranks; bad++)
        for (int how = 0; how < 4; how++) {
            MPI_OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
            for (int kind = 0; kind < ORDERED_KINDS; kind++) {
                int count[] = {-1, 1, 3, 1, 0}, is_mine = rank == bad;
                MPI_Datatype datatype[] = {MPI_INT, MPI_DATATYPE_NULL, MPI_BYTE, uncommitted, uncommitted};
                int code = ordered(file, how, is_mine ? count[kind] : 1, is_mine ? datatype[kind] : MPI_INT);
                HOLDS(told(code) != MPI_SUCCESS);
            }
            MPI_Offset place;
            MPI_OK(MPI_File_get_position_shared(file, &place));
            EQUAL(place, 0);
            int value = 100 * bad + 10 * how + rank;
            memcpy(bytes, &value, sizeof value);
            MPI_OK(ordered(file, how / 2 * 2, 1, MPI_INT));
            memset(bytes, 0, sizeof value);
            MPI_OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
            MPI_OK(ordered(file, how / 2 * 2 + 1, 1, MPI_INT));
            EQUAL(memcmp(bytes, &value, sizeof value), 0);
        }
    MPI_Type_free(&uncommitted);
    MPI_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
}

/* Nobody has anything to access, which is no refusal. */
static void nothing(MPI_File file) {
    doing = "nothing";
    for (int method = 0; method < METHODS; method++) {
        MPI_OK(told(writes[method](file, 0, 0, MPI_BYTE)));
        MPI_OK(told(reads[method](file, 0, 0, MPI_BYTE)));
    }
    for (int how = 0; how < 4; how++) MPI_OK(told(ordered(file, how, 0, MPI_BYTE)));
    MPI_OK(told(MPI_File_sync(file)));
}

static void modes(MPI_File file) {
    int is_atomic;
    doing = "modes";
    for (int mode = 0; mode < 2; mode++) {
        MPI_OK(MPI_File_set_atomicity(file, mode));
        for (int other = 0; other < ranks; other++)
            MPI_FAILS(told(MPI_File_set_atomicity(file, rank == other ? !mode : mode)), MPI_ERR_NOT_SAME);
        MPI_OK(MPI_File_get_atomicity(file, &is_atomic));
        EQUAL(is_atomic, mode);
    }
    MPI_OK(MPI_File_set_atomicity(file, rank + 1));
    MPI_OK(MPI_File_set_atomicity(file, 0));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc == 3 || argc == 4, "usage: refused_parts FILE own|shared [handled]");
    shares = !strcmp(argv[2], "shared"), last = ranks - 1, is_handled = argc == 4;
    MPI_File file;
    MPI_Errhandler handler;
    MPI_OK(MPI_File_create_errhandler(count_call, &handler));
    MPI_Info info;
    int amode = MPI_MODE_CREATE | MPI_MODE_RDWR;
    MPI_Info_create(&info);
    MPI_Info_set(info, "svm_segment_size", "64K");
    MPI_Info_set(info, "svm_outcome", argv[2]);
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], amode, info, &file));
    if (is_handled) MPI_OK(MPI_File_set_errhandler(file, handler));
    for (int round = 0; round < ROUNDS; round++) {
        parts(file, round);
        if (round % KINDS == 1) modes(file);
    }
    nothing(file);
    orders(file);
    doing = "closing";
    refused(write_at, file, (MPI_Offset)rank * BYTES, 0);
    heard(MPI_File_close(&file));
    doing = "a file that is only read";
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDONLY, info, &file));
    if (is_handled) MPI_OK(MPI_File_set_errhandler(file, handler));
    HOLDS(told(write_at(file, (MPI_Offset)rank * BYTES, BYTES, MPI_BYTE)) != MPI_SUCCESS);
    MPI_OK(read_at(file, (MPI_Offset)rank * BYTES, BYTES, MPI_BYTE));
    MPI_OK(MPI_File_close(&file));
    MPI_Info_free(&info);
    MPI_OK(MPI_Errhandler_free(&handler));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("nobody waits\n");
    MPI_Finalize();
    return 0;
}
