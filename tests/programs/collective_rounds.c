/* Collective writes and reads, again and again, and how much time and how much of the cores' they took. */
#include <sys/resource.h>

#include "check.h"
#include "random.h"

enum { ROUNDS = 100, BYTES = 1 << 18, PIECE = 512 };
static unsigned char out[BYTES], in[BYTES];

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc == 2, "usage: collective_rounds NAME");
    MPI_File file;
    MPI_Datatype piece, dealt;
    MPI_Aint from = (MPI_Aint)PIECE * rank;
    int length = PIECE;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MPI_Type_create_hindexed(1, &length, &from, MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, (MPI_Aint)PIECE * ranks, &dealt);
    MPI_Type_commit(&dealt);
    MPI_OK(MPI_File_set_view(file, 0, MPI_BYTE, dealt, "native", MPI_INFO_NULL));
    for (int i = 0; i < BYTES; i++) out[i] = byte_at((uint64_t)rank, (uint64_t)i);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int round = 0; round < ROUNDS; round++) {
        out[0] = (unsigned char)round;
        MPI_OK(MPI_File_write_at_all(file, 0, out, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
        MPI_OK(MPI_File_read_at_all(file, 0, in, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK(memcmp(in, out, BYTES) == 0, "round %d reads something else", round);
    }
    double wall = MPI_Wtime() - start, own, all;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    own = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
          (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    MPI_Reduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_OK(MPI_File_close(&file));
    MPI_Type_free(&piece);
    MPI_Type_free(&dealt);
    if (rank == 0) {
        printf("%d ranks, %d rounds: %.3f s for the rounds, %.3f s of CPU time of all ranks, start-up included\n", ranks,
               ROUNDS, wall, all);
    }
    MPI_Finalize();
    return 0;
}
