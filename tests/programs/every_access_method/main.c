/* Uses every data access routine of MPI-3.1, and those that manage files, on the file that is named: each write is read
 * back by another method, and the file's bytes are compared with what they must be. */
#include "parts.h"

const char *beside(const char *name, const char *addition) {
    char *text = malloc(strlen(name) + strlen(addition) + 1);
    HOLDS(text != NULL);
    return strcat(strcpy(text, name), addition);
}

MPI_File open_new(const char *name, int amode) {
    MPI_File file;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_EXCL | amode, MPI_INFO_NULL, &file));
    return file;
}

void exchange(MPI_File file) {
    MPI_OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_OK(MPI_File_sync(file));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int is_over_nodes = argc == 3 && strcmp(argv[2], "over-nodes") == 0;
    CHECK(argc == 2 || is_over_nodes, "usage: every_access_method NAME [over-nodes]");
    test_placed(argv[1], is_over_nodes);
    test_converted(argv[1]);
    test_pairs(argv[1], is_over_nodes);
    test_ends(argv[1]);
    test_shared(argv[1]);
    test_ordered(argv[1]);
    test_sequential(argv[1]);
    test_pointers(argv[1]);
    test_sizes(argv[1]);
    test_settings(argv[1]);
    test_modes(argv[1]);
    test_several(argv[1]);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("every access method works\n");
    MPI_Finalize();
    return 0;
}
