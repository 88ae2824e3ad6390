/* Telling the test what came of a call, rank by rank. */
#ifndef REPORT_H
#define REPORT_H

/* Where this rank's report goes: DIRECTORY/rank-N. */
void report_to(const char *directory);

/* Adds a line: what was done, the name of the class of its error code (MPI_SUCCESS where there is none), its message. */
void report(const char *what, int code);

/* Adds a line with a number. */
void report_number(const char *what, long number);

#endif
