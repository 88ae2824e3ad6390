/* background FILE: nonblocking and split collective accesses end for whichever of MPI's functions is asked about them, also
   where they are over before it is asked. That they go on without their rank, `going_on` shows. */

#include "check.h"

#include <time.h>

/* What MPI 4.1 has beside MPI_Request_get_status. */
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
#define HAS_STATUSES
enum { WAYS = 11 };
#else
enum { WAYS = 8 };
#endif

enum { BLOCKS = 1 << 13, BLOCK = 1024, BYTES = BLOCKS * BLOCK };

static MPI_File file;
static char *written, *found;

/* What this rank has at a byte of its part. */
static char content(int i, int turn) { return (char)(i % 239 + rank * 5 + turn + 1); }

/* Waits without MPI until the last byte is there: what is read by more than one processor is looked at anew each time. */
static void wait_for(volatile const char *byte, char value) {
    struct timespec pause = {0, 1000000};
    for (int i = 0; *byte != value; i++) {
        if (i == 60000) failed(__FILE__, __LINE__, "nothing went on in a minute without a call");
        nanosleep(&pause, NULL);
    }
}

static void fill(int turn) {
    for (int i = 0; i < BYTES; i++) written[i] = content(i, turn);
    memset(found, 0, BYTES);
}

static void check(int turn) {
    for (int i = 0; i < BYTES; i++) EQUAL(found[i], content(i, turn));
}

static void count(MPI_Status *status, int expected) {
    int bytes;
    MPI_Get_count(status, MPI_BYTE, &bytes);
    EQUAL(bytes, expected);
}

/* Ends a request by one of the ways that there are. */
static void end(MPI_Request *request, int way) {
    MPI_Request both[2] = {*request, MPI_REQUEST_NULL};
    MPI_Status status, statuses[2];
    int index, flag = 0, indices[2];
    /* A message to this rank itself, beside. */
    int sent = way, received = -1;
    MPI_Request send;
    MPI_OK(MPI_Isend(&sent, 1, MPI_INT, rank, 5, MPI_COMM_WORLD, &send));
    switch (way) {
    case 0: MPI_OK(MPI_Wait(request, &status)); break;
    case 1:
        while (!flag) MPI_OK(MPI_Test(request, &flag, &status));
        break;
    case 2:
        MPI_OK(MPI_Irecv(&received, 1, MPI_INT, rank, 5, MPI_COMM_WORLD, &both[1]));
        MPI_OK(MPI_Waitall(2, both, statuses));
        status = statuses[0];
        break;
    case 3:
        MPI_OK(MPI_Waitany(2, both, &index, &status));
        EQUAL(index, 0);
        break;
    case 4:
        MPI_OK(MPI_Waitsome(2, both, &index, indices, statuses));
        EQUAL(index, 1);
        status = statuses[0];
        break;
    case 5:
        while (!flag) MPI_OK(MPI_Testany(2, both, &index, &flag, &status));
        EQUAL(index, 0);
        break;
    case 6:
        while (!flag) MPI_OK(MPI_Testall(2, both, &flag, statuses));
        status = statuses[0];
        break;
    case 7:
        while (!flag) MPI_OK(MPI_Request_get_status(*request, &flag, &status));
        MPI_OK(MPI_Wait(request, &status));
        break;
#ifdef HAS_STATUSES
    case 8:
        while (!flag) MPI_OK(MPI_Request_get_status_all(2, both, &flag, statuses));
        count(&statuses[0], BYTES);
        MPI_OK(MPI_Wait(request, &status));
        break;
    case 9:
        while (!flag) MPI_OK(MPI_Request_get_status_any(2, both, &index, &flag, &status));
        EQUAL(index, 0);
        count(&status, BYTES);
        MPI_OK(MPI_Wait(request, &status));
        break;
    case 10:
        for (index = 0; index == 0;) MPI_OK(MPI_Request_get_status_some(2, both, &index, indices, statuses));
        EQUAL(index, 1);
        EQUAL(indices[0], 0);
        count(&statuses[0], BYTES);
        MPI_OK(MPI_Wait(request, &status));
        break;
#endif
    default: failed(__FILE__, __LINE__, "there is no way %d", way);
    }
    if (received < 0) MPI_OK(MPI_Recv(&received, 1, MPI_INT, rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    EQUAL(received, way);
    MPI_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    count(&status, BYTES);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    written = malloc(BYTES);
    found = malloc(BYTES);
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MPI_Datatype blocks;
    MPI_Type_vector(BLOCKS, BLOCK, BLOCK * ranks, MPI_BYTE, &blocks);
    MPI_Type_commit(&blocks);

    for (int turn = 0; turn < 2 * WAYS; turn++) {
        int way = turn % WAYS;
        MPI_Request request;
        if (turn < WAYS) {
            MPI_OK(MPI_File_set_view(file, (MPI_Offset)rank * BLOCK, MPI_BYTE, blocks, "native", MPI_INFO_NULL));
        } else {
            MPI_OK(MPI_File_set_view(file, (MPI_Offset)rank * BYTES, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
        }
        MPI_OK(MPI_File_set_atomicity(file, turn % 3 == 2));
        fill(turn);
        if (turn % 2) {
            MPI_OK(MPI_File_iwrite_at(file, 0, written, BYTES, MPI_BYTE, &request));
        } else {
            MPI_OK(MPI_File_seek(file, 0, MPI_SEEK_SET));
            MPI_OK(MPI_File_iwrite(file, written, BYTES, MPI_BYTE, &request));
            MPI_Offset position;
            MPI_OK(MPI_File_get_position(file, &position));
            EQUAL(position, BYTES);
        }
        end(&request, way);
        MPI_OK(MPI_File_iread_at(file, 0, found, BYTES, MPI_BYTE, &request));
        wait_for(&found[BYTES - 1], content(BYTES - 1, turn));
        end(&request, way);
        check(turn);
    }

    /* Split collective accesses. */
    for (int turn = 30; turn < 34; turn++) {
        MPI_Status status;
        MPI_OK(MPI_File_set_atomicity(file, turn == 33));
        MPI_OK(MPI_File_set_view(file, (MPI_Offset)rank * BLOCK, MPI_BYTE, blocks, "native", MPI_INFO_NULL));
        fill(turn);
        if (turn % 2) {
            MPI_OK(MPI_File_write_all_begin(file, written, BYTES, MPI_BYTE));
            MPI_OK(MPI_File_write_all_end(file, written, &status));
            count(&status, BYTES);
            MPI_OK(MPI_File_seek(file, 0, MPI_SEEK_SET));
            MPI_OK(MPI_File_read_all_begin(file, found, BYTES, MPI_BYTE));
        } else {
            MPI_OK(MPI_File_write_at_all_begin(file, 0, written, BYTES, MPI_BYTE));
            MPI_OK(MPI_File_write_at_all_end(file, written, &status));
            count(&status, BYTES);
            MPI_OK(MPI_File_read_at_all_begin(file, 0, found, BYTES, MPI_BYTE));
        }
        wait_for(&found[BYTES - 1], content(BYTES - 1, turn));
        if (turn % 2) MPI_OK(MPI_File_read_all_end(file, found, &status));
        else MPI_OK(MPI_File_read_at_all_end(file, found, &status));
        count(&status, BYTES);
        check(turn);
    }
    MPI_OK(MPI_File_set_atomicity(file, 0));

    /* Several at a time, and the end of the file in the middle of one. */
    MPI_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    MPI_Request requests[4];
    MPI_Status statuses[4];
    fill(20);
    for (int i = 0; i < 4; i++) {
        MPI_Offset at = (MPI_Offset)rank * BYTES + i * (BYTES / 4);
        MPI_OK(MPI_File_iwrite_at(file, at, written + i * (BYTES / 4), BYTES / 4, MPI_BYTE, &requests[i]));
    }
    MPI_OK(MPI_Waitall(4, requests, statuses));
    for (int i = 0; i < 4; i++) count(&statuses[i], BYTES / 4);
    MPI_OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Offset end_of_file;
    MPI_OK(MPI_File_get_size(file, &end_of_file));
    EQUAL(end_of_file, (MPI_Offset)ranks * BYTES);
    MPI_OK(MPI_File_seek(file, end_of_file - BYTES / 2, MPI_SEEK_SET));
    MPI_OK(MPI_File_iread(file, found, BYTES, MPI_BYTE, &requests[0]));
    MPI_OK(MPI_Wait(&requests[0], &statuses[0]));
    count(&statuses[0], BYTES / 2);
    MPI_Offset position;
    MPI_OK(MPI_File_get_position(file, &position));
    EQUAL(position, end_of_file);

    /* The pointer goes on where a nonblocking access ended, whatever the next one is like. */
    MPI_Datatype gaps;
    MPI_Type_vector(BYTES / 4, 1, 2, MPI_BYTE, &gaps);
    MPI_Type_commit(&gaps);
    MPI_OK(MPI_File_set_view(file, (MPI_Offset)rank * BYTES, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    MPI_OK(MPI_File_iread(file, found, BYTES / 2, MPI_BYTE, &requests[0]));
    MPI_OK(MPI_Wait(&requests[0], &statuses[0]));
    MPI_OK(MPI_File_read(file, found, 1, gaps, &statuses[0]));
    count(&statuses[0], BYTES / 4);
    for (int i = 0; i < BYTES / 4; i++) EQUAL(found[2 * i], content(BYTES / 2 + i, 20));
    MPI_Type_free(&gaps);

    MPI_Type_free(&blocks);
    MPI_OK(MPI_File_close(&file));
    free(written);
    free(found);
    if (rank == 0) printf("all went on\n");
    MPI_Finalize();
    return 0;
}
