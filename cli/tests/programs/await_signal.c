/* Every rank catches the signal argv[1] (TERM or USR1), says that it waits, and when the signal has come
 * makes the file argv[2]/<rank>. It waits outside MPI. */
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t caught;

static void on_signal(int number)
{
    (void) number;
    caught = 1;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int number = strcmp(argv[1], "TERM") == 0 ? SIGTERM : SIGUSR1;

    sigset_t blocked, before;
    sigemptyset(&blocked);
    sigaddset(&blocked, number);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    sigdelset(&before, number);
    struct sigaction action = { .sa_handler = on_signal };
    sigaction(number, &action, NULL);

    if (write(STDOUT_FILENO, "waiting\n", 8) != 8) /* at once, lest ranks' lines mix */
        return 1;
    while (!caught)
        sigsuspend(&before);

    char name[4096];
    snprintf(name, sizeof name, "%s/%d", argv[2], rank);
    close(open(name, O_CREAT | O_WRONLY, 0600));
    MPI_Finalize();
    return 0;
}
