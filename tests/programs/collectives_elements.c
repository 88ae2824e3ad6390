/* collectives_elements BYTES...: elements are combined by an operation of the program's own, however long they are, and
 * all goes on afterwards. */
#include "check.h"

enum { COUNT = 3 };

static int length;

static void add(void *left, void *right, int *count, MPI_Datatype *type) {
    (void) type;
    for (int i = 0; i < *count * length; i++) ((int *) right)[i] += ((int *) left)[i];
}

static void fill(int *numbers, int count) {
    for (int i = 0; i < count * length; i++) numbers[i] = i + rank;
}

/* That so many elements, from the one of that number on, are what that many of the first ranks have, added. */
static void expect(const int *numbers, int first, int count, int of) {
    for (int i = 0; i < count * length; i++)
        EQUAL(numbers[i], of * (first * length + i) + of * (of - 1) / 2);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Op sum;
    MPI_OK(MPI_Op_create(add, 1, &sum));
    for (int argument = 1; argument < argc; argument++) {
        doing = argv[argument];
        length = atoi(argv[argument]) / (int) sizeof(int);
        MPI_Datatype type;
        MPI_OK(MPI_Type_contiguous(length, MPI_INT, &type));
        MPI_OK(MPI_Type_commit(&type));
        int *own = malloc(sizeof(int) * length * COUNT * ranks);
        int *all = malloc(sizeof(int) * length * COUNT * ranks);
        HOLDS(own != NULL && all != NULL);
        fill(own, COUNT * ranks);
        MPI_OK(MPI_Allreduce(own, all, COUNT, type, sum, MPI_COMM_WORLD));
        expect(all, 0, COUNT, ranks);
        MPI_OK(MPI_Reduce(own, all, COUNT, type, sum, ranks - 1, MPI_COMM_WORLD));
        if (rank == ranks - 1) expect(all, 0, COUNT, ranks);
        MPI_OK(MPI_Scan(own, all, COUNT, type, sum, MPI_COMM_WORLD));
        expect(all, 0, COUNT, rank + 1);
        MPI_OK(MPI_Reduce_scatter_block(own, all, COUNT, type, sum, MPI_COMM_WORLD));
        expect(all, rank * COUNT, COUNT, ranks);
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
        free(own);
        free(all);
        MPI_OK(MPI_Type_free(&type));
    }
    MPI_OK(MPI_Op_free(&sum));
    if (rank == 0) printf("elements of any length are right\n");
    MPI_Finalize();
    return 0;
}
