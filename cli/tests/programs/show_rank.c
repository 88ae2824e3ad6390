/* Every rank prints one line: its rank, the job's size, whether it leads its process group, its session,
 * and the values of the variables named in the arguments. */
#define _XOPEN_SOURCE 700
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char line[16384];
    const int room = sizeof line - 1;
    int length = snprintf(line, room, "rank=%d size=%d leader=%d session=%d", rank, size,
                          getpgid(0) == getpid(), (int) getsid(0));
    for (int i = 1; i < argc; i++) {
        const char *value = getenv(argv[i]);
        length += snprintf(line + length, room - length, " %s=%s", argv[i], value ? value : "(unset)");
    }
    line[length++] = '\n';
    if (write(STDOUT_FILENO, line, length) != length) /* at once, lest ranks' lines mix */
        return 1;
    MPI_Finalize();
    return 0;
}
