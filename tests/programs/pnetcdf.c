/* By this, svmio knows programs with PnetCDF, which Debian has for one of its MPIs alone. */
int ncmpi_enddef(int file);

int ncmpi_enddef(int file) { return file; }
