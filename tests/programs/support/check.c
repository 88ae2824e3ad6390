#include "check.h"

#include <stdarg.h>
#include <unistd.h>

int rank, ranks;
const char *doing = "";

void begin(int *argc, char ***argv) {
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
}

void failed(const char *file, int line, const char *format, ...) {
    char text[4096];
    int length = snprintf(text, sizeof text, "rank %d: %s:%d: %s%s", rank, file, line, doing, *doing ? ": " : "");
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + length, sizeof text - length, format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s\n", text);
    fflush(stderr);
    /* MPICH's launcher loses what is under way to it when a rank aborts at once. */
    usleep(200000);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

int class_of(int code) {
    int class = -1;
    MPI_Error_class(code, &class);
    return class;
}
