/* One kind of access each. */
#include "parts.h"

enum { LARGEST = 70000 };
static unsigned char buffer[LARGEST];

/* Blocks of odd sizes, round robin, by explicit offsets and by the individual pointer, with gaps. */
void write_contiguous(MPI_File file) {
    MPI_Offset at = 3;
    for (int round = 0; round < 24; round++) {
        int bytes = 1 + round * round * 113 % LARGEST;
        if (round % ranks == rank) {
            fill(buffer, rank, at, bytes);
            if (round % 3 == 0) {
                MPI_OK(MPI_File_write_at(file, at, buffer, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
            } else {
                MPI_OK(MPI_File_seek(file, at, MPI_SEEK_SET));
                MPI_OK(MPI_File_write(file, buffer, bytes, MPI_BYTE, MPI_STATUS_IGNORE));
            }
        }
        at += bytes + round % 5;
    }
}

/* ROMIO's data sieving writes garbage into holes beyond the end of the file, so the end is put far out:
 * further than anything is written by a view. */
static void extend(MPI_File file) { MPI_OK(MPI_File_set_size(file, 111111 * (ranks > 4 ? ranks : 4))); }

/* Every rank has 37 bytes of each tile; the tile's last 11 bytes are nobody's. Memory is strided, too. */
static void set_strided_view(MPI_File file) {
    MPI_Datatype mine, tile;
    MPI_Aint from = 37 * rank;
    int length = 37;
    MPI_Type_create_hindexed(1, &length, &from, MPI_BYTE, &mine);
    MPI_Type_create_resized(mine, 0, 37 * ranks + 11, &tile);
    MPI_Type_commit(&tile);
    MPI_OK(MPI_File_set_view(file, 101, MPI_BYTE, tile, "native", MPI_INFO_NULL));
    MPI_Type_free(&mine);
    MPI_Type_free(&tile);
}

void write_strided(MPI_File file) {
    MPI_Datatype memory;
    MPI_Type_vector(100, 50, 64, MPI_BYTE, &memory);
    MPI_Type_commit(&memory);
    extend(file);
    set_strided_view(file);
    fill(buffer, rank, 0, LARGEST);
    MPI_OK(MPI_File_write_at(file, 20000, buffer, 1, memory, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_write(file, buffer, 9999, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_write(file, buffer, 1, memory, MPI_STATUS_IGNORE));
    MPI_Type_free(&memory);
}

/* A matrix of integers by blocks of columns, and then by rows, through all collective routines. */
void write_collective(MPI_File file) {
    enum { ROWS = 60, WIDTH = 25 };
    int whole[2] = {ROWS, WIDTH * ranks}, part[2] = {ROWS, WIDTH}, from[2] = {0, WIDTH * rank}, n = ROWS * WIDTH;
    MPI_Datatype columns;
    MPI_Type_create_subarray(2, whole, part, from, MPI_ORDER_C, MPI_INT, &columns);
    MPI_Type_commit(&columns);
    fill(buffer, rank, 0, LARGEST);
    MPI_OK(MPI_File_set_view(file, 0, MPI_INT, columns, "native", MPI_INFO_NULL));
    MPI_OK(MPI_File_write_all(file, buffer, n, MPI_INT, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_write_at_all(file, n, buffer + 4, n, MPI_INT, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_write_at_all_begin(file, 2 * n, buffer + 8, n, MPI_INT));
    MPI_OK(MPI_File_write_at_all_end(file, buffer + 8, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_seek(file, 3 * n, MPI_SEEK_SET));
    MPI_OK(MPI_File_write_all_begin(file, buffer + 12, n / 2, MPI_INT));
    MPI_OK(MPI_File_write_all_end(file, buffer + 12, MPI_STATUS_IGNORE));
    MPI_Type_free(&columns);
    MPI_OK(MPI_File_set_view(file, 4 * 5 * n * ranks, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    MPI_OK(MPI_File_write_at_all(file, n * (ranks - rank), buffer, n, MPI_INT, MPI_STATUS_IGNORE));
}

/* By the shared pointer: in the ranks' order, and by one rank at a time. */
void write_shared(MPI_File file) {
    fill(buffer, rank, 0, LARGEST);
    MPI_OK(MPI_File_set_view(file, 7, MPI_SHORT, MPI_SHORT, "native", MPI_INFO_NULL));
    MPI_OK(MPI_File_write_ordered(file, buffer, 1000 + 10 * rank, MPI_SHORT, MPI_STATUS_IGNORE));
    for (int turn = 0; turn < 2 * ranks; turn++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (turn % ranks != rank) continue;
        MPI_Request request;
        MPI_OK(MPI_File_write_shared(file, buffer + turn, 77, MPI_SHORT, MPI_STATUS_IGNORE));
        MPI_OK(MPI_File_iwrite_shared(file, buffer + turn, 33, MPI_SHORT, &request));
        MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_OK(MPI_File_write_ordered_begin(file, buffer, 100 * rank, MPI_SHORT));
    MPI_OK(MPI_File_write_ordered_end(file, buffer, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_seek_shared(file, 50, MPI_SEEK_CUR));
    MPI_OK(MPI_File_write_ordered(file, buffer, 3, MPI_SHORT, MPI_STATUS_IGNORE));
}

/* Many under way at once, contiguous and strided. */
void write_nonblocking(MPI_File file) {
    enum { MANY = 20 };
    MPI_Request requests[MANY];
    fill(buffer, rank, 0, LARGEST);
    extend(file);
    for (int i = 0; i < MANY; i++) {
        MPI_OK(MPI_File_iwrite_at(file, (i * ranks + rank) * 3001, buffer + i, 3001, MPI_BYTE, &requests[i]));
    }
    MPI_OK(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
    MPI_OK(MPI_File_set_view(file, 3001 * MANY * ranks, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    set_strided_view(file);
    MPI_OK(MPI_File_seek(file, 4000 * MANY, MPI_SEEK_SET));
    for (int i = 0; i < MANY; i++) MPI_OK(MPI_File_iwrite(file, buffer + 2 * i, 500, MPI_BYTE, &requests[i]));
    MPI_OK(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
}

void write_nonblocking_collective(MPI_File file) {
    enum { MANY = 6 };
    MPI_Request requests[MANY];
    fill(buffer, rank, 0, LARGEST);
    extend(file);
    set_strided_view(file);
    for (int i = 0; i < MANY; i++) {
        if (i % 2 == 0) {
            MPI_OK(MPI_File_iwrite_at_all(file, 50000 + 2000 * i, buffer + i, 2000, MPI_BYTE, &requests[i]));
        } else {
            MPI_OK(MPI_File_iwrite_all(file, buffer + i, 3333, MPI_BYTE, &requests[i]));
        }
    }
    MPI_OK(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
}

/* The portable representation of several types, by the routines in which every ROMIO converts. */
void write_external32(MPI_File file) {
    enum { N = 500 };
    double reals[N];
    int integers[N];
    short shorts[N];
    for (int i = 0; i < N; i++) {
        reals[i] = (i - 250) * 1e9 / (rank + 3);
        integers[i] = i * 3654321 - rank;
        shorts[i] = (short)(i * 77 + rank);
    }
    MPI_OK(MPI_File_set_view(file, 0, MPI_DOUBLE, MPI_DOUBLE, "external32", MPI_INFO_NULL));
    MPI_OK(MPI_File_write_at(file, N * rank, reals, N, MPI_DOUBLE, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_set_view(file, 8 * N * ranks, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL));
    MPI_OK(MPI_File_write_at_all(file, N * rank, integers, N, MPI_INT, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_set_view(file, 12 * N * ranks, MPI_SHORT, MPI_SHORT, "external32", MPI_INFO_NULL));
    MPI_OK(MPI_File_write_ordered(file, shorts, N, MPI_SHORT, MPI_STATUS_IGNORE));
    /* Every second integer, in a view that has no gaps. */
    MPI_Datatype second;
    MPI_Type_vector(N / 2, 1, 2, MPI_INT, &second);
    MPI_Type_commit(&second);
    MPI_OK(MPI_File_set_view(file, 14 * N * ranks, MPI_BYTE, MPI_BYTE, "external32", MPI_INFO_NULL));
    MPI_OK(MPI_File_write_at_all(file, 4 * (N / 2) * rank, integers, 1, second, MPI_STATUS_IGNORE));
    int read[N] = {0};
    MPI_OK(MPI_File_read_at_all(file, 4 * (N / 2) * rank, read, 1, second, MPI_STATUS_IGNORE));
    for (int i = 0; i < N; i++) EQUAL(read[i], i % 2 == 0 ? integers[i] : 0);
    MPI_Type_free(&second);
}
