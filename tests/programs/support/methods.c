#include "methods.h"

#define WRITER(name) static int name(MPI_File f, MPI_Offset o, const void *b, int n, MPI_Datatype t, MPI_Status *s)
#define READER(name) static int name(MPI_File f, MPI_Offset o, void *b, int n, MPI_Datatype t, MPI_Status *s)

/* The explicit methods take the offset, the individual ones have sought it. */
#define SOUGHT                                                                                                \
    do {                                                                                                      \
        int code = MPI_File_seek(f, o, MPI_SEEK_SET);                                                         \
        if (code != MPI_SUCCESS) return code;                                                                 \
    } while (0)

#define BLOCKING(call) return call

#define NONBLOCKING(call)                                                                                     \
    do {                                                                                                      \
        MPI_Request r;                                                                                        \
        int code = call;                                                                                      \
        return code != MPI_SUCCESS ? code : MPI_Wait(&r, s);                                                  \
    } while (0)

#define SPLIT(begin, end)                                                                                     \
    do {                                                                                                      \
        int code = begin;                                                                                     \
        return code != MPI_SUCCESS ? code : end;                                                              \
    } while (0)

WRITER(write_at) { BLOCKING(MPI_File_write_at(f, o, b, n, t, s)); }
READER(read_at) { BLOCKING(MPI_File_read_at(f, o, b, n, t, s)); }
WRITER(iwrite_at) { NONBLOCKING(MPI_File_iwrite_at(f, o, b, n, t, &r)); }
READER(iread_at) { NONBLOCKING(MPI_File_iread_at(f, o, b, n, t, &r)); }
WRITER(write_at_all) { BLOCKING(MPI_File_write_at_all(f, o, b, n, t, s)); }
READER(read_at_all) { BLOCKING(MPI_File_read_at_all(f, o, b, n, t, s)); }
WRITER(iwrite_at_all) { NONBLOCKING(MPI_File_iwrite_at_all(f, o, b, n, t, &r)); }
READER(iread_at_all) { NONBLOCKING(MPI_File_iread_at_all(f, o, b, n, t, &r)); }
WRITER(write_at_all_split) {
    SPLIT(MPI_File_write_at_all_begin(f, o, b, n, t), MPI_File_write_at_all_end(f, b, s));
}
READER(read_at_all_split) { SPLIT(MPI_File_read_at_all_begin(f, o, b, n, t), MPI_File_read_at_all_end(f, b, s)); }

WRITER(write_) { SOUGHT; BLOCKING(MPI_File_write(f, b, n, t, s)); }
READER(read_) { SOUGHT; BLOCKING(MPI_File_read(f, b, n, t, s)); }
WRITER(iwrite_) { SOUGHT; NONBLOCKING(MPI_File_iwrite(f, b, n, t, &r)); }
READER(iread_) { SOUGHT; NONBLOCKING(MPI_File_iread(f, b, n, t, &r)); }
WRITER(write_all) { SOUGHT; BLOCKING(MPI_File_write_all(f, b, n, t, s)); }
READER(read_all) { SOUGHT; BLOCKING(MPI_File_read_all(f, b, n, t, s)); }
WRITER(iwrite_all) { SOUGHT; NONBLOCKING(MPI_File_iwrite_all(f, b, n, t, &r)); }
READER(iread_all) { SOUGHT; NONBLOCKING(MPI_File_iread_all(f, b, n, t, &r)); }
WRITER(write_all_split) {
    SOUGHT;
    SPLIT(MPI_File_write_all_begin(f, b, n, t), MPI_File_write_all_end(f, b, s));
}
READER(read_all_split) {
    SOUGHT;
    SPLIT(MPI_File_read_all_begin(f, b, n, t), MPI_File_read_all_end(f, b, s));
}

const struct method methods[] = {
    {"write_at/read_at", EXPLICIT, 0, write_at, read_at},
    {"iwrite_at/iread_at", EXPLICIT, 0, iwrite_at, iread_at},
    {"write_at_all/read_at_all", EXPLICIT, 1, write_at_all, read_at_all},
    {"iwrite_at_all/iread_at_all", EXPLICIT, 1, iwrite_at_all, iread_at_all},
    {"write_at_all_begin/read_at_all_begin", EXPLICIT, 1, write_at_all_split, read_at_all_split},
    {"write/read", INDIVIDUAL, 0, write_, read_},
    {"iwrite/iread", INDIVIDUAL, 0, iwrite_, iread_},
    {"write_all/read_all", INDIVIDUAL, 1, write_all, read_all},
    {"iwrite_all/iread_all", INDIVIDUAL, 1, iwrite_all, iread_all},
    {"write_all_begin/read_all_begin", INDIVIDUAL, 1, write_all_split, read_all_split},
};

const int method_count = sizeof methods / sizeof *methods;
