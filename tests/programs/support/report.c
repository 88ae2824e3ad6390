#include "report.h"

#include "check.h"

static FILE *to;

void report_to(const char *directory) {
    char path[4096];
    snprintf(path, sizeof path, "%s/rank-%d", directory, rank);
    to = fopen(path, "w");
    CHECK(to != NULL, "cannot write %s", path);
    setvbuf(to, NULL, _IOLBF, 0);
}

static const char *name_of(int class) {
#define CLASS(name) {name, #name}
    static const struct {
        int class;
        const char *name;
    } classes[] = {
        CLASS(MPI_SUCCESS),          CLASS(MPI_ERR_ACCESS),    CLASS(MPI_ERR_AMODE),    CLASS(MPI_ERR_ARG),
        CLASS(MPI_ERR_BAD_FILE),     CLASS(MPI_ERR_FILE),      CLASS(MPI_ERR_FILE_EXISTS), CLASS(MPI_ERR_IO),
        CLASS(MPI_ERR_NO_SPACE),     CLASS(MPI_ERR_NO_SUCH_FILE), CLASS(MPI_ERR_OTHER), CLASS(MPI_ERR_QUOTA),
        CLASS(MPI_ERR_READ_ONLY),    CLASS(MPI_ERR_UNSUPPORTED_OPERATION), CLASS(MPI_ERR_UNKNOWN),
    };
#undef CLASS
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (classes[i].class == class) return classes[i].name;
    }
    return "another class";
}

void report(const char *what, int code) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (code != MPI_SUCCESS) MPI_Error_string(code, text, &length);
    for (char *c = text; *c; c++) {
        if (*c == '\n') *c = ' ';
    }
    fprintf(to, "%s\t%s\t%s\n", what, name_of(code == MPI_SUCCESS ? MPI_SUCCESS : class_of(code)), text);
}

void report_number(const char *what, long number) { fprintf(to, "%s\t%ld\t\n", what, number); }
