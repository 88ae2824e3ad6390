/* Opens one file again and again. Whatever was done to it before it was closed, it is as new when it is opened, and a
 * file that is opened often is no other than one that is opened once. */
#include "check.h"

static const char *name;
static int handled;

static void count_errors(MPI_File *file, int *code, ...) {
    (void)file;
    (void)code;
    handled++;
}

static void delete(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) MPI_OK(MPI_File_delete(name, MPI_INFO_NULL));
    MPI_Barrier(MPI_COMM_WORLD);
}

static MPI_File opened_by(MPI_Comm comm, int amode) {
    MPI_File file;
    MPI_OK(MPI_File_open(comm, name, amode, MPI_INFO_NULL, &file));
    return file;
}

/* The file, which has `size` bytes, each of which is what `fill` wrote; opened, and found to be as new. */
static MPI_File fresh(MPI_Comm comm, int amode, MPI_Offset size, int fill) {
    MPI_File file = opened_by(comm, amode);
    MPI_Offset found, displacement, position;
    MPI_Datatype etype, filetype;
    MPI_Errhandler handler;
    char representation[MPI_MAX_DATAREP_STRING];
    int flag, given;
    MPI_OK(MPI_File_get_size(file, &found));
    EQUAL(found, size);
    MPI_OK(MPI_File_get_view(file, &displacement, &etype, &filetype, representation));
    EQUAL(displacement, 0);
    HOLDS(etype == MPI_BYTE && filetype == MPI_BYTE && strcmp(representation, "native") == 0);
    MPI_OK(MPI_File_get_atomicity(file, &flag));
    EQUAL(flag, 0);
    MPI_OK(MPI_File_get_amode(file, &given));
    EQUAL(given, amode);
    MPI_OK(MPI_File_get_position(file, &position));
    EQUAL(position, 0);
    MPI_OK(MPI_File_get_errhandler(file, &handler));
    HOLDS(handler == MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&handler);
    unsigned char byte = 0;
    MPI_Status status;
    int bytes;
    MPI_OK(MPI_File_read_at(file, size - 1, &byte, 1, MPI_BYTE, &status));
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    EQUAL(bytes, 1);
    EQUAL(byte, fill);
    return file;
}

static void set_view(MPI_File file) {
    MPI_Datatype filetype;
    MPI_Type_vector(4, 1, 2, MPI_INT, &filetype);
    MPI_Type_commit(&filetype);
    MPI_OK(MPI_File_set_view(file, rank * 4, MPI_INT, filetype, "native", MPI_INFO_NULL));
    MPI_Type_free(&filetype);
}

/* Only one rank's view is no longer the first one. */
static void set_view_on_last(MPI_File file) {
    MPI_OK(MPI_File_set_view(file, rank == ranks - 1 ? 8 : 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
}

static void set_representation(MPI_File file) {
    MPI_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "external32", MPI_INFO_NULL));
}

static void set_atomicity(MPI_File file) { MPI_OK(MPI_File_set_atomicity(file, 1)); }

static void set_handler(MPI_File file) {
    MPI_Errhandler handler;
    MPI_File_create_errhandler(count_errors, &handler);
    MPI_OK(MPI_File_set_errhandler(file, handler));
    MPI_Errhandler_free(&handler);
}

static void move_pointer(MPI_File file) { MPI_OK(MPI_File_seek(file, 77 + rank, MPI_SEEK_SET)); }

static void use_shared_pointer(MPI_File file) {
    char byte;
    MPI_Offset position;
    MPI_OK(MPI_File_get_position_shared(file, &position));
    EQUAL(position, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_OK(MPI_File_read_shared(file, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE));
}

static void give_hints(MPI_File file) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_buffer_size", "65536");
    MPI_OK(MPI_File_set_info(file, info));
    MPI_Info_free(&info);
}

static void read_in_two_parts(MPI_File file) {
    static char buffer[64];
    MPI_OK(MPI_File_read_at_all_begin(file, 0, buffer, 64, MPI_BYTE));
    MPI_OK(MPI_File_read_at_all_end(file, buffer, MPI_STATUS_IGNORE));
}

static void duplicate_in_fortran(MPI_File file) { HOLDS(MPI_File_f2c(MPI_File_c2f(file)) == file); }

static void nothing(MPI_File file) { (void)file; }

static void open_beside(MPI_File file) {
    MPI_File other = opened_by(MPI_COMM_WORLD, MPI_MODE_RDWR);
    HOLDS(other != file);
    MPI_OK(MPI_File_close(&other));
}

static void open_by_another(MPI_File file) {
    (void)file;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int turn = 0; turn < 4; turn++) {
        MPI_File other = opened_by(comm, MPI_MODE_RDWR);
        MPI_OK(MPI_File_close(&other));
    }
    /* What was kept for it goes; one is open still. */
    MPI_File last = opened_by(comm, MPI_MODE_RDWR);
    MPI_Comm_free(&comm);
    MPI_OK(MPI_File_close(&last));
}

static void open_alone(MPI_File file) {
    (void)file;
    for (int turn = 0; turn < 2 + rank; turn++) {
        MPI_File other = opened_by(MPI_COMM_SELF, MPI_MODE_RDONLY);
        MPI_OK(MPI_File_close(&other));
    }
}

static void (*const deeds[])(MPI_File) = {
    nothing,    set_view,    set_view_on_last,   set_representation, set_atomicity,   set_handler,
    move_pointer, use_shared_pointer, give_hints, read_in_two_parts, duplicate_in_fortran, open_beside,
    open_by_another, open_alone,
};
static const char *const names[] = {
    "nothing",    "set_view",    "set_view_on_last",   "set_representation", "set_atomicity",   "set_handler",
    "move_pointer", "use_shared_pointer", "give_hints", "read_in_two_parts", "duplicate_in_fortran", "open_beside",
    "open_by_another", "open_alone",
};

/* Whatever was done, the next open finds a new file. */
static void deeds_are_forgotten(MPI_Offset size) {
    for (size_t deed = 0; deed < sizeof deeds / sizeof *deeds; deed++) {
        doing = names[deed];
        for (int turn = 0; turn < 4; turn++) {
            MPI_File file = fresh(MPI_COMM_WORLD, MPI_MODE_RDWR, size, 3);
            if (turn % 2 == 0) deeds[deed](file);
            MPI_OK(MPI_File_close(&file));
            HOLDS(file == MPI_FILE_NULL);
        }
    }
    doing = "";
    EQUAL(handled, 0);
}

/* A file that was opened often is not made anew by ROMIO: it has its handle still, which another one would have
 * otherwise that was opened meanwhile. */
static void it_is_kept(MPI_Offset size) {
    MPI_File file = fresh(MPI_COMM_WORLD, MPI_MODE_RDWR, size, 3), kept = file;
    MPI_OK(MPI_File_close(&file));
    MPI_File other = opened_by(MPI_COMM_WORLD, MPI_MODE_RDWR | MPI_MODE_UNIQUE_OPEN);
    file = fresh(MPI_COMM_WORLD, MPI_MODE_RDWR, size, 3);
    HOLDS(file == kept && other != kept);
    MPI_OK(MPI_File_close(&file));
    MPI_OK(MPI_File_close(&other));
}

/* Writes, and finds what was written, with the file closed in between. */
static MPI_Offset it_grows(MPI_Offset size) {
    for (int turn = 0; turn < 20; turn++) {
        MPI_File file = fresh(MPI_COMM_WORLD, MPI_MODE_RDWR, size, turn == 0 ? 3 : 100 + turn - 1);
        MPI_Barrier(MPI_COMM_WORLD);
        unsigned char byte = 100 + turn;
        size += 10000;
        if (rank == turn % ranks) MPI_OK(MPI_File_write_at(file, size - 1, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE));
        MPI_OK(MPI_File_close(&file));
    }
    return size;
}

/* What a mode forbids stays forbidden. */
static void modes_count(MPI_Offset size) {
    for (int turn = 0; turn < 4; turn++) {
        char byte = 1;
        MPI_File file = fresh(MPI_COMM_WORLD, MPI_MODE_RDONLY, size, 119);
        MPI_FAILS(MPI_File_write_at(file, 0, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY);
        MPI_OK(MPI_File_close(&file));
        if (ranks > 1) {
            int amode = rank == 0 ? MPI_MODE_RDONLY : MPI_MODE_RDWR;
            MPI_FAILS(MPI_File_open(MPI_COMM_WORLD, name, amode, MPI_INFO_NULL, &file), MPI_ERR_NOT_SAME);
        }
        int exclusive = MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL;
        MPI_FAILS(MPI_File_open(MPI_COMM_WORLD, name, exclusive, MPI_INFO_NULL, &file), MPI_ERR_FILE_EXISTS);
    }
}

/* A new file of an old name is the new one, and none is none. */
static void removal_counts(void) {
    for (int turn = 0; turn < 6; turn++) {
        MPI_File file;
        delete();
        MPI_FAILS(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE);
        file = opened_by(MPI_COMM_WORLD, MPI_MODE_RDWR | MPI_MODE_CREATE);
        MPI_Offset size;
        MPI_OK(MPI_File_get_size(file, &size));
        EQUAL(size, 0);
        unsigned char byte = turn;
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) MPI_OK(MPI_File_write_at(file, turn, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE));
        MPI_OK(MPI_File_close(&file));
        for (int again = 0; again < 3; again++) {
            file = fresh(MPI_COMM_WORLD, MPI_MODE_RDWR, turn + 1, turn);
            MPI_OK(MPI_File_close(&file));
        }
        if (turn % 2 == 1) continue;
        /* Removed while it is open. */
        file = fresh(MPI_COMM_WORLD, MPI_MODE_RDWR, turn + 1, turn);
        delete();
        MPI_OK(MPI_File_read_at(file, turn, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE));
        EQUAL(byte, turn);
        MPI_OK(MPI_File_close(&file));
        file = opened_by(MPI_COMM_WORLD, MPI_MODE_RDWR | MPI_MODE_CREATE);
        MPI_OK(MPI_File_get_size(file, &size));
        EQUAL(size, 0);
        MPI_OK(MPI_File_close(&file));
    }
}

/* More files than are kept. */
static void many_files(void) {
    char text[4096];
    for (int turn = 0; turn < 3; turn++) {
        for (int number = 0; number < 24; number++) {
            snprintf(text, sizeof text, "%s-%d", name, number);
            MPI_File file;
            MPI_OK(MPI_File_open(MPI_COMM_WORLD, text, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
            for (int again = 0; again < 2; again++) {
                MPI_OK(MPI_File_close(&file));
                MPI_OK(MPI_File_open(MPI_COMM_WORLD, text, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
            }
            MPI_OK(MPI_File_write_at(file, turn * ranks + rank, &number, 1, MPI_BYTE, MPI_STATUS_IGNORE));
            MPI_OK(MPI_File_close(&file));
        }
    }
    if (rank == 0) {
        for (int number = 0; number < 24; number++) {
            snprintf(text, sizeof text, "%s-%d", name, number);
            MPI_File file;
            unsigned char bytes[64] = {0};
            MPI_OK(MPI_File_open(MPI_COMM_SELF, text, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
            MPI_OK(MPI_File_read_at(file, 0, bytes, 3 * ranks, MPI_BYTE, MPI_STATUS_IGNORE));
            for (int i = 0; i < 3 * ranks; i++) EQUAL(bytes[i], number);
            MPI_OK(MPI_File_close(&file));
        }
    }
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    name = argv[1];
    MPI_Offset size = 5000;
    unsigned char bytes[5000];
    memset(bytes, 3, sizeof bytes);
    MPI_File file = opened_by(MPI_COMM_WORLD, MPI_MODE_RDWR | MPI_MODE_CREATE);
    MPI_OK(MPI_File_write_at_all(file, 0, bytes, rank == 0 ? size : 0, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_close(&file));
    deeds_are_forgotten(size);
    it_is_kept(size);
    size = it_grows(size);
    modes_count(size);
    removal_counts();
    many_files();
    if (rank == 0) printf("every open finds a new file\n");
    MPI_Finalize();
    return 0;
}
