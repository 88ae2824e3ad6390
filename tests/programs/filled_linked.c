/* `filled`, with what tells programs that have PnetCDF linked into it, as a static library is. */
#include "filled.c"
#include "pnetcdf.c"
