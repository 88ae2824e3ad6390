/* sessions FILE: a program that has started MPI by a session alone is told why it cannot open a file; with MPI_Init beside
 * the session it can. */
#include "check.h"

int main(int argc, char **argv) {
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    MPI_File file;
    char text[MPI_MAX_ERROR_STRING];
    int length, mode = MPI_MODE_CREATE | MPI_MODE_RDWR;
    CHECK(argc == 2, "usage: sessions FILE");
    MPI_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    MPI_OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    MPI_OK(MPI_Comm_create_from_group(group, "sessions", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    MPI_Group_free(&group);
    int code = MPI_File_open(comm, argv[1], mode, MPI_INFO_NULL, &file);
    HOLDS(code != MPI_SUCCESS && file == MPI_FILE_NULL);
    MPI_Error_string(code, text, &length);
    CHECK(class_of(code) == MPI_ERR_UNSUPPORTED_OPERATION && strstr(text, "/sessions") && strstr(text, "MPI_Init"),
          "class %d: %s", class_of(code), text);
    begin(&argc, &argv);
    MPI_OK(MPI_File_open(comm, argv[1], mode, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_write_at_all(file, rank, "x", 1, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_close(&file));
    MPI_Comm_free(&comm);
    if (rank == 0) printf("both are told\n");
    MPI_Finalize();
    MPI_OK(MPI_Session_finalize(&session));
    return 0;
}
