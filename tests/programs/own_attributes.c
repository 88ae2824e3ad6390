/* own_attributes FILE: an attribute of MPI_COMM_SELF, by which programs hear of the end of MPI, goes once, whatever was
 * done before. */
#include "check.h"

static int gone;

static int goes(MPI_Comm comm, int key, void *value, void *extra) {
    (void) comm, (void) key, (void) extra;
    ++*(int *) value;
    return MPI_SUCCESS;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    HOLDS(argc == 2);
    int key, sum = 0;
    MPI_OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, goes, &key, NULL));
    MPI_OK(MPI_Comm_set_attr(MPI_COMM_SELF, key, &gone));
    MPI_OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    EQUAL(sum, ranks * (ranks - 1) / 2);
    /* Of integers with gaps, which are packed. */
    MPI_Datatype pieces;
    MPI_OK(MPI_Type_vector(10, 1, 2, MPI_INT, &pieces));
    MPI_OK(MPI_Type_commit(&pieces));
    int places[20] = {rank};
    MPI_OK(MPI_Bcast(places, 1, pieces, 0, MPI_COMM_WORLD));
    EQUAL(places[0], 0);
    MPI_OK(MPI_Type_free(&pieces));
    MPI_File file;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_write_at_all(file, rank * (MPI_Offset) sizeof rank, &rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_close(&file));
    if (rank == 0) MPI_OK(MPI_File_delete(argv[1], MPI_INFO_NULL));
    EQUAL(gone, 0);
    MPI_Finalize();
    printf("rank %d: the attribute went %d times\n", rank, gone);
    fflush(stdout);
    return gone != 1;
}
