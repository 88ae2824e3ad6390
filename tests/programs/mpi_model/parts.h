/* What the parts of mpi_model have of each other. */
#ifndef PARTS_H
#define PARTS_H

#include <stdint.h>

#include "check.h"

extern MPI_File file;

/* Adds to the log: the number of a line, the file's size, and so many bytes. */
void tell(uint64_t line, uint64_t size, const unsigned char *bytes, uint64_t length);

/* `FROM KIND BLOCK STRIDE` */
void set_view(const char *text);
/* The view of a file that has just been opened. */
void forget_view(void);
/* Where in the file a byte of the view is. */
MPI_Offset place_of(MPI_Offset at);

/* `METHOD AT LENGTH SPACING SLOT`, and of a write `TAG`. */
void begin_access(int writes, const char *text, uint64_t line);
/* Ends what is under way in a slot. */
void end_access(int slot);

#endif
