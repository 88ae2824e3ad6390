/* A rank cannot do its part of a collective over MPI's messages, of a datatype that was not committed: all hear of it,
 * and who it is, in that collective or in one that follows. */
#include "check.h"

enum { MEMBER = 1, CALLS = 40 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_Datatype pieces;
    MPI_OK(MPI_Type_vector(10, 1, 2, MPI_INT, &pieces));
    if (rank != MEMBER) MPI_OK(MPI_Type_commit(&pieces));
    int own[20] = {rank}, all[1000], told = 0;
    HOLDS(ranks * 10 <= 1000);
    int code = MPI_Allgather(own, 1, pieces, all, 10, MPI_INT, MPI_COMM_WORLD);
    for (int call = 0; call <= CALLS; call++) {
        if (code != MPI_SUCCESS) {
            char text[MPI_MAX_ERROR_STRING], others[64];
            int length;
            MPI_Error_string(code, text, &length);
            snprintf(others, sizeof others, "member %d does no more operations", MEMBER);
            const char *name = rank == MEMBER ? "MPI_Pack failed" : others;
            CHECK(strstr(text, name) != NULL, "rank %d is told: %s", rank, text);
            told++;
        } else {
            /* Who was told once is told for ever. */
            EQUAL(told, 0);
        }
        code = MPI_Barrier(MPI_COMM_WORLD);
    }
    HOLDS(told > 1);
    MPI_OK(MPI_Type_free(&pieces));
    printf("rank %d was told\n", rank);
    MPI_Finalize();
    return 0;
}
