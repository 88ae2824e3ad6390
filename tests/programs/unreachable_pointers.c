/* Accesses by a shared file pointer that has no place in the store, which is full: each fails, and none goes where a
 * pointer of 0 would have it go. */
#include <fcntl.h>
#include <unistd.h>

#include "check.h"
#include "report.h"

enum { LENGTH = 16 };

static MPI_File file, in_sequence;
static const char *name;
static int calls;

static void count_call(MPI_File *failed_file, int *code, ...) {
    (void)failed_file, (void)code;
    calls++;
}

static int waited(int code, MPI_Request *request) {
    return code != MPI_SUCCESS ? code : MPI_Wait(request, MPI_STATUS_IGNORE);
}

static char buffer[LENGTH];

static int iwrite_shared(void) {
    MPI_Request request;
    return waited(MPI_File_iwrite_shared(file, buffer, LENGTH, MPI_BYTE, &request), &request);
}
static int iread_shared(void) {
    MPI_Request request;
    return waited(MPI_File_iread_shared(file, buffer, LENGTH, MPI_BYTE, &request), &request);
}
static int write_shared(void) { return MPI_File_write_shared(file, buffer, LENGTH, MPI_BYTE, MPI_STATUS_IGNORE); }
static int read_shared(void) { return MPI_File_read_shared(file, buffer, LENGTH, MPI_BYTE, MPI_STATUS_IGNORE); }
static int write_ordered(void) { return MPI_File_write_ordered(file, buffer, LENGTH, MPI_BYTE, MPI_STATUS_IGNORE); }
static int read_ordered(void) { return MPI_File_read_ordered(file, buffer, LENGTH, MPI_BYTE, MPI_STATUS_IGNORE); }
static int seek_shared(void) { return MPI_File_seek_shared(file, 0, MPI_SEEK_SET); }
static int get_position_shared(void) {
    MPI_Offset position;
    return MPI_File_get_position_shared(file, &position);
}
static int set_view_in_sequence(void) {
    return MPI_File_set_view(in_sequence, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
}

static int append(void) {
    MPI_File appended;
    int code = MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_WRONLY | MPI_MODE_APPEND, MPI_INFO_NULL, &appended);
    HOLDS((code == MPI_SUCCESS) == (appended != MPI_FILE_NULL));
    return code != MPI_SUCCESS ? code : MPI_File_close(&appended);
}
static int append_in_sequence(void) {
    MPI_File appended;
    int amode = MPI_MODE_WRONLY | MPI_MODE_APPEND | MPI_MODE_SEQUENTIAL;
    int code = MPI_File_open(MPI_COMM_WORLD, name, amode, MPI_INFO_NULL, &appended);
    HOLDS((code == MPI_SUCCESS) == (appended != MPI_FILE_NULL));
    return code != MPI_SUCCESS ? code : MPI_File_close(&appended);
}

static const struct {
    const char *name;
    int (*run)(void);
} ways[] = {
    {"iwrite_shared", iwrite_shared},
    {"iread_shared", iread_shared},
    {"write_shared", write_shared},
    {"read_shared", read_shared},
    {"write_ordered", write_ordered},
    {"read_ordered", read_ordered},
    {"seek_shared", seek_shared},
    {"get_position_shared", get_position_shared},
    {"set_view in sequence", set_view_in_sequence},
    {"append", append},
    {"append in sequence", append_in_sequence},
};

/* Takes all that is left in the file system of the path. */
static void fill_up(const char *path) {
    static const char zeros[1 << 12];
    int to = open(path, O_CREAT | O_WRONLY | O_EXCL, 0600);
    CHECK(to >= 0, "%s cannot be made", path);
    while (write(to, zeros, sizeof zeros) > 0) continue;
    close(to);
}

static void each_way(const char *header, int is_atomic) {
    char found[LENGTH];
    MPI_OK(MPI_File_set_atomicity(file, is_atomic));
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
        doing = ways[way].name;
        memset(buffer, '!', LENGTH);
        calls = 0;
        int code = ways[way].run();
        report(doing, code);
        EQUAL(calls, 1);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_OK(MPI_File_read_at(file, 0, found, LENGTH, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK(memcmp(found, header, LENGTH) == 0, "the header is overwritten");
        MPI_Barrier(MPI_COMM_WORLD);
    }
    doing = "";
}

int main(int argc, char **argv) {
    const char header[LENGTH] = "begins with this";
    begin(&argc, &argv);
    CHECK(argc == 4, "usage: unreachable_pointers REPORTS NAME BALLAST");
    report_to(argv[1]);
    name = argv[2];
    MPI_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    int amode = MPI_MODE_CREATE | MPI_MODE_RDWR;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, name, amode, MPI_INFO_NULL, &file));
    int sequential = MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, name, sequential, MPI_INFO_NULL, &in_sequence));
    MPI_Errhandler handler;
    MPI_OK(MPI_File_create_errhandler(count_call, &handler));
    MPI_OK(MPI_File_set_errhandler(file, handler));
    MPI_OK(MPI_File_set_errhandler(in_sequence, handler));
    MPI_OK(MPI_File_set_errhandler(MPI_FILE_NULL, handler));
    MPI_OK(MPI_Errhandler_free(&handler));
    if (rank == 0) MPI_OK(MPI_File_write_at(file, 0, header, LENGTH, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) fill_up(argv[3]);
    MPI_Barrier(MPI_COMM_WORLD);
    each_way(header, 0);
    each_way(header, 1);

    /* The pointer is where it was as soon as it has a place. */
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) unlink(argv[3]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_OK(iread_shared());
    MPI_Offset position;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_OK(MPI_File_get_position_shared(file, &position));
    EQUAL(position, ranks * LENGTH);
    MPI_OK(set_view_in_sequence());
    MPI_OK(append());
    MPI_OK(append_in_sequence());
    MPI_OK(MPI_File_close(&in_sequence));
    MPI_OK(MPI_File_close(&file));
    MPI_Finalize();
    return 0;
}
