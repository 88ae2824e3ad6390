/* Processes pass messages through memory: each has a box into which the one before it puts numbers, under locks. The
 * memory has no name, or is the file that the argument names; of that, a part is mapped a second time. */
#include "support.h"

enum { MESSAGES = 10, BOX = 3 * 4096 + 8, MOST = 8 };

struct box {
    long full; /* whether there is a message */
    long number;
    char filler[BOX - 2 * sizeof(long)];
};

static struct box *boxes;

/* Puts a number into a box, which is empty. */
static void put(int whom, long number) {
    struct box *box = &boxes[whom];
    SUCCEED(svm_lock(box, sizeof *box, SVM_LOCK_EXCLUSIVE));
    DEMAND(!box->full);
    box->number = number;
    box->full = 1;
    SUCCEED(svm_unlock(box, sizeof *box));
}

static long take(int own) {
    struct box *box = &boxes[own];
    SUCCEED(svm_lock(&box->full, sizeof box->full, SVM_LOCK_SHARED));
    DEMAND(box->full);
    SUCCEED(svm_unlock(&box->full, sizeof box->full));
    SUCCEED(svm_lock(box, sizeof *box, SVM_LOCK_EXCLUSIVE));
    long number = box->number;
    box->full = 0;
    SUCCEED(svm_unlock(box, sizeof *box));
    return number;
}

int main(int argc, char **argv) {
    SUCCEED(svm_init());
    int rank = svm_rank(), size = svm_size();
    DEMAND(rank >= 0 && rank < size && size <= MOST);
    svm_options options = svm_default_options();
    options.limit = 1 << 20;
    options.ahead = SVM_NOTHING;
    options.handlers = 2;
    options.segment_size = 64 << 10;
    const char *name = argc > 1 ? argv[1] : NULL;
    void *address;
    SUCCEED(svm_map(name, SVM_WRITE | SVM_CREATE, 0, (MOST + 1) * sizeof *boxes, &options, &address));
    boxes = (struct box *)address;
    long *table = &boxes[MOST].number;

    SUCCEED(svm_barrier(boxes));
    SUCCEED(svm_advise(boxes, 0, SVM_RANDOM));
    long sum = 0, *count = &boxes[MOST].full;
    for (int round = 0; round < MESSAGES; round++) {
        put((rank + 1) % size, rank * 1000 + round);
        SUCCEED(svm_barrier(boxes));
        long number = take(rank);
        DEMAND(number == (rank + size - 1) % size * 1000 + round);
        sum += number;
        /* One after the other, in whatever order. */
        SUCCEED(svm_lock(count, sizeof *count, SVM_LOCK_EXCLUSIVE));
        ++*count;
        SUCCEED(svm_unlock(count, sizeof *count));
        SUCCEED(svm_barrier(boxes));
    }
    DEMAND(*count == MESSAGES * size);
    table[rank] = sum;
    SUCCEED(svm_barrier(boxes));
    for (int other = 0; other < size; other++) {
        long from = (other + size - 1) % size;
        DEMAND(table[other] == from * 1000 * MESSAGES + MESSAGES * (MESSAGES - 1) / 2);
    }

    if (name != NULL) {
        /* The same bytes by the other ways there are. */
        svm_file *file;
        uint64_t bytes;
        void *again;
        long read;
        SUCCEED(svm_open(name, SVM_READ, NULL, &file));
        SUCCEED(svm_file_size(file, &bytes));
        DEMAND(bytes == (MOST + 1) * sizeof *boxes);
        uint64_t place = (uint64_t)((char *)&table[rank] - (char *)boxes);
        SUCCEED(svm_file_sync(file));
        SUCCEED(svm_read_at(file, place, &read, sizeof read, NULL));
        DEMAND(read == sum);
        SUCCEED(svm_map_file(file, place, sizeof read, NULL, &again));
        DEMAND(again != &table[rank]);
        SUCCEED(svm_fetch(again, 0));
        DEMAND(*(long *)again == sum);
        REFUSED(svm_close(file), SVM_ERR_STATE, "mapped");
        SUCCEED(svm_unmap(again));
        SUCCEED(svm_close(file));
    }
    SUCCEED(svm_flush(boxes));
    SUCCEED(svm_refresh(boxes));
    SUCCEED(svm_sync(boxes, 0));
    SUCCEED(svm_advise(boxes, 0, SVM_DO_NOT_NEED));
    SUCCEED(svm_unmap(boxes));
    SUCCEED(svm_barrier(NULL));
    SUCCEED(svm_finalize());
    if (rank == 0)
        printf("all messages came\n");
    return EXIT_SUCCESS;
}
