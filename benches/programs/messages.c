/* Two ranks send messages to and fro, or in a stream, by the MPI's own send and receive, with the windows and buffers of
 * `svmio bench pingpong` and `svmio bench bandwidth`, and with as many rounds, except that those make fewer where so
 * many would take over half a second. For each size it prints the seconds of half a round trip, or of one message of
 * the stream. */
#include "check.h"

enum { CONTENT = 0x5a, WINDOW_LEAST = 2, WINDOW_MOST = 64 };

static long clamped(long value, long least, long most) {
    return value < least ? least : value > most ? most : value;
}

static void bounce(char *buffer, int size, long rounds) {
    int peer = 1 - rank;
    for (long i = 0; i < rounds; i++) {
        if (rank == 0) MPI_Send(buffer, size, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
        MPI_Recv(buffer, size, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1) MPI_Send(buffer, size, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
    }
}

/* Each window is acknowledged, so that what is measured has arrived. */
static void stream(char *buffer, int size, int window, long windows) {
    MPI_Request requests[WINDOW_MOST];
    int peer = 1 - rank;
    char acknowledgement = 0;
    for (long i = 0; i < windows; i++) {
        for (int slot = 0; slot < window; slot++) {
            char *at = buffer + (size_t)slot * (size_t)size;
            if (rank == 0) {
                MPI_Isend(at, size, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &requests[slot]);
            } else {
                MPI_Irecv(at, size, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &requests[slot]);
            }
        }
        MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
        if (rank == 0) {
            MPI_Recv(&acknowledgement, 1, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Send(&acknowledgement, 1, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
        }
    }
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc > 2 && ranks == 2, "usage: mpiexec -n 2 messages pingpong|bandwidth SIZE...");
    int is_stream = strcmp(argv[1], "bandwidth") == 0;
    CHECK(is_stream || strcmp(argv[1], "pingpong") == 0, "neither pingpong nor bandwidth: %s", argv[1]);
    for (int argument = 2; argument < argc; argument++) {
        int size = atoi(argv[argument]);
        CHECK(size > 0, "not a number of bytes: %s", argv[argument]);
        int window = is_stream ? (int)clamped((4L << 20) / size, WINDOW_LEAST, WINDOW_MOST) : 1;
        size_t length = (size_t)size * (size_t)window;
        char *buffer = malloc(length);
        CHECK(buffer != NULL, "no memory");
        /* Only the sender's bytes are the right ones: the receiver has to get them. */
        memset(buffer, rank == 0 ? CONTENT : ~CONTENT, length);
        long rounds = clamped((256L << 20) / (long)length, 4, 10000);
        double started = 0;
        for (int is_measured = 0; is_measured < 2; is_measured++) {
            long count = is_measured ? rounds : rounds / 10 + 2;
            MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
            started = MPI_Wtime();
            if (is_stream) {
                stream(buffer, size, window, count);
            } else {
                bounce(buffer, size, count);
            }
        }
        double elapsed = MPI_Wtime() - started;
        for (size_t i = 0; i < length; i++) {
            CHECK(buffer[i] == CONTENT, "something else arrived than was sent");
        }
        if (rank == 0) {
            printf("%d %.12f\n", size, elapsed / (double)rounds / (is_stream ? window : 2));
        }
        free(buffer);
    }
    MPI_Finalize();
    return 0;
}
