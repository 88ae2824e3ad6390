/* To be preloaded: an MPI that says it takes buffers in a device's memory. */
int MPIX_Query_cuda_support(void);

int MPIX_Query_cuda_support(void) {
    return 1;
}
