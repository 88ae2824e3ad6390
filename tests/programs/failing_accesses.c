/* failing_accesses FILE: each kind of access, and a size, fails beyond the largest file, and says so by class and text, to the caller and
 * to the file's error handler. */
#include "check.h"

enum { BYTES = 64 };
static const MPI_Offset BEYOND = (MPI_Offset)1 << 61;
static char bytes[BYTES];
static MPI_Request request;

static int handled_class, handled_times, handled_names_file;

static void handle(MPI_File *of, int *code, ...) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    (void)of;
    MPI_Error_class(*code, &handled_class);
    MPI_Error_string(*code, text, &length);
    handled_names_file = strstr(text, "/failing") != NULL;
    handled_times++;
}

/* An access that does not block fails at once, of which not every ROMIO tells the file's error handler, or when it is waited
 * for, of which none does. */
static void fails(const char *what, int code, int blocks) {
    char text[MPI_MAX_ERROR_STRING];
    int length, class;
    doing = what;
    if (!blocks && code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    HOLDS(code != MPI_SUCCESS);
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    CHECK(class == MPI_ERR_NO_SPACE && strstr(text, "/failing") && strstr(text, "svm_segment_size"), "class %d: %s",
          class, text);
    CHECK(handled_times == 1 || (!blocks && handled_times == 0), "the handler was called %d times", handled_times);
    if (handled_times > 0) CHECK(handled_class == class && handled_names_file, "the handler heard of class %d", handled_class);
    handled_times = 0;
    doing = "";
}

static void at_pointers(MPI_File file) {
    MPI_OK(MPI_File_seek(file, BEYOND, MPI_SEEK_SET));
    MPI_OK(MPI_File_seek_shared(file, BEYOND, MPI_SEEK_SET));
}

int main(int argc, char **argv) {
    MPI_File file;
    MPI_Errhandler handler;
    MPI_Status *none = MPI_STATUS_IGNORE;
    begin(&argc, &argv);
    CHECK(argc == 2, "usage: failing_accesses FILE");
    MPI_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_create_errhandler(handle, &handler));
    MPI_OK(MPI_File_set_errhandler(file, handler));
    MPI_OK(MPI_Errhandler_free(&handler));
    fails("write_at", MPI_File_write_at(file, BEYOND, bytes, BYTES, MPI_BYTE, none), 1);
    fails("write_at_all", MPI_File_write_at_all(file, BEYOND, bytes, BYTES, MPI_BYTE, none), 1);
    fails("iwrite_at", MPI_File_iwrite_at(file, BEYOND, bytes, BYTES, MPI_BYTE, &request), 0);
    fails("iwrite_at_all", MPI_File_iwrite_at_all(file, BEYOND, bytes, BYTES, MPI_BYTE, &request), 0);
    MPI_OK(MPI_File_write_at_all_begin(file, BEYOND, bytes, BYTES, MPI_BYTE));
    fails("write_at_all_end", MPI_File_write_at_all_end(file, bytes, none), 1);
    at_pointers(file);
    fails("write", MPI_File_write(file, bytes, BYTES, MPI_BYTE, none), 1);
    at_pointers(file);
    fails("write_all", MPI_File_write_all(file, bytes, BYTES, MPI_BYTE, none), 1);
    at_pointers(file);
    fails("iwrite", MPI_File_iwrite(file, bytes, BYTES, MPI_BYTE, &request), 0);
    at_pointers(file);
    fails("write_shared", MPI_File_write_shared(file, bytes, BYTES, MPI_BYTE, none), 1);
    at_pointers(file);
    fails("iwrite_shared", MPI_File_iwrite_shared(file, bytes, BYTES, MPI_BYTE, &request), 0);
    at_pointers(file);
    fails("write_ordered", MPI_File_write_ordered(file, bytes, BYTES, MPI_BYTE, none), 1);
    fails("preallocate", MPI_File_preallocate(file, BEYOND), 1);
    fails("set_size", MPI_File_set_size(file, BEYOND), 1);
#if MPI_VERSION >= 4
    fails("write_at_c", MPI_File_write_at_c(file, BEYOND, bytes, BYTES, MPI_BYTE, none), 1);
    fails("write_at_all_c", MPI_File_write_at_all_c(file, BEYOND, bytes, BYTES, MPI_BYTE, none), 1);
    fails("iwrite_at_c", MPI_File_iwrite_at_c(file, BEYOND, bytes, BYTES, MPI_BYTE, &request), 0);
#endif
    MPI_Barrier(MPI_COMM_WORLD);
    /* What has failed leaves nothing behind that the next one is told. */
    MPI_OK(MPI_File_write_at(file, rank * BYTES, bytes, BYTES, MPI_BYTE, none));
    MPI_OK(MPI_File_sync(file));
    EQUAL(handled_times, 0);
    MPI_OK(MPI_File_close(&file));
    if (rank == 0) printf("all have failed\n");
    MPI_Finalize();
    return 0;
}
