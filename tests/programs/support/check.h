/* What the programs check with: a failed check says where and why, and ends the whole job. */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int rank, ranks;
/* What the program is busy with, told when a check fails. */
extern const char *doing;

/* MPI_Init, and `rank` and `ranks`. */
void begin(int *argc, char ***argv);

/* Says "rank R: FILE:LINE: ..." and ends the job. */
void failed(const char *file, int line, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));

/* The class of an error code. */
int class_of(int code);

#define HOLDS(condition)                                                                                      \
    do {                                                                                                      \
        if (!(condition)) failed(__FILE__, __LINE__, "%s does not hold", #condition);                         \
    } while (0)

#define CHECK(condition, ...)                                                                                 \
    do {                                                                                                      \
        if (!(condition)) failed(__FILE__, __LINE__, __VA_ARGS__);                                            \
    } while (0)

#define EQUAL(found, expected)                                                                                \
    do {                                                                                                      \
        long long found_ = (found), expected_ = (expected);                                                   \
        if (found_ != expected_)                                                                              \
            failed(__FILE__, __LINE__, "%s is %lld instead of %lld", #found, found_, expected_);              \
    } while (0)

#define MPI_OK(call)                                                                                          \
    do {                                                                                                      \
        int code_ = (call);                                                                                   \
        if (code_ != MPI_SUCCESS) {                                                                           \
            char text_[MPI_MAX_ERROR_STRING];                                                                 \
            int length_;                                                                                      \
            MPI_Error_string(code_, text_, &length_);                                                         \
            failed(__FILE__, __LINE__, "%s: class %d: %s", #call, class_of(code_), text_);                    \
        }                                                                                                     \
    } while (0)

#define MPI_FAILS(call, class) EQUAL(class_of(call), class)

#endif
