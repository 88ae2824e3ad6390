/* A rank ends without a word; the others hear of it from a collective, or, with the argument "begun", from one that does not
 * block, which some wait for and others test. */
#include <unistd.h>

#include "check.h"

static double own, sum;

static int reduce_begun(void) {
    MPI_Request request;
    int is_done = 0, code = MPI_Iallreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
    if (code == MPI_SUCCESS && rank % 4 == 0) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    while (code == MPI_SUCCESS && rank % 4 != 0 && !is_done) code = MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
    return code;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int is_begun = argc == 2 && strcmp(argv[1], "begun") == 0;
    HOLDS(argc == 1 || is_begun);
    MPI_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    char unfinished[64], finished[64];
    if (rank == 1) {
        /* Not before all others have left the barrier. */
        for (int other = 0; other < ranks; other++) {
            snprintf(unfinished, sizeof unfinished, "unfinished-%d", other);
            while (other != rank && access(unfinished, R_OK) != 0) usleep(1000);
        }
        /* To the others as if it was killed; but of a signal MPICH's launcher would have them die, too. */
        _exit(0);
    }
    /* A launcher may lose what ranks write when one of them ends: so they write files. */
    snprintf(unfinished, sizeof unfinished, "unfinished-%d", rank);
    snprintf(finished, sizeof finished, "told-%d", rank);
    FILE *file = fopen(unfinished, "w");
    HOLDS(file != NULL);
    for (int again = 0; again < 2; again++) {
        int length, code = is_begun ? reduce_begun()
                                    : MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        HOLDS(code != MPI_SUCCESS);
        EQUAL(class_of(code), MPI_ERR_OTHER);
        char text[MPI_MAX_ERROR_STRING];
        MPI_Error_string(code, text, &length);
        fprintf(file, "%s\n", text);
    }
    HOLDS(fclose(file) == 0 && rename(unfinished, finished) == 0);
    /* The loss of this rank is not what the others are to be told. */
    for (int other = 0; other < ranks; other++) {
        char others[64];
        snprintf(others, sizeof others, "told-%d", other);
        while (other != 1 && access(others, R_OK) != 0) usleep(1000);
    }
    _exit(0);
}
