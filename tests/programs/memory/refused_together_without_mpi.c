/* The same, where svmio starts the processes. */
#define WITHOUT_MPI
#include "refused_together.c"
