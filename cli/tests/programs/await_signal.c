/* Every rank catches the signal argv[1] (TERM or USR1), says that it waits, and when the signal has come
 * makes the file argv[2]/<rank>. It waits outside MPI. The MPI may have threads of its own, and any thread may be the one
 * that the signal interrupts: so the handler writes into a pipe. */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int caught[2];

static void on_signal(int number)
{
    char byte = (char) number;
    if (write(caught[1], &byte, 1) != 1)
        _exit(1);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int number = strcmp(argv[1], "TERM") == 0 ? SIGTERM : SIGUSR1;

    if (pipe(caught) != 0)
        return 1;
    struct sigaction action = { .sa_handler = on_signal };
    sigaction(number, &action, NULL);

    if (write(STDOUT_FILENO, "waiting\n", 8) != 8) /* at once, lest ranks' lines mix */
        return 1;
    char byte;
    while (read(caught[0], &byte, 1) != 1)
        if (errno != EINTR)
            return 1;

    char name[4096];
    snprintf(name, sizeof name, "%s/%d", argv[2], rank);
    close(open(name, O_CREAT | O_WRONLY, 0600));
    MPI_Finalize();
    return 0;
}
