/* peak_memory FILE MIB BYTES COLLECTIVE|INDEPENDENT: all ranks write, and read, a file of MIB MiB through views that give
 * each rank BYTES bytes in turn; tells how much memory each needed at most beyond its buffer and the file itself. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "check.h"

static atomic_int is_over;
static atomic_long most;

/* Memory of this process alone, in KiB. */
static long private_memory(void) {
    char line[256];
    long found = -1;
    FILE *status = fopen("/proc/self/status", "r");
    HOLDS(status != NULL);
    while (fgets(line, sizeof line, status)) sscanf(line, "RssAnon: %ld", &found);
    fclose(status);
    HOLDS(found >= 0);
    return found;
}

/* Memory shared with other processes that is no part of a file in a store, in KiB. */
static long shared_memory(void) {
    char line[4096];
    long sum = 0, size;
    int counts = 0;
    FILE *maps = fopen("/proc/self/smaps", "r");
    HOLDS(maps != NULL);
    while (fgets(line, sizeof line, maps)) {
        char access[8];
        if (sscanf(line, "%*x-%*x %4s", access) == 1) {
            counts = access[3] == 's' && strstr(line, "/store") == NULL;
        } else if (counts && sscanf(line, "Rss: %ld", &size) == 1) {
            sum += size;
        }
    }
    fclose(maps);
    return sum;
}

/* The kernel keeps the peak of all memory only, and the file's pages are part of that. */
static void *watch(void *unused) {
    while (!atomic_load(&is_over)) {
        long now = private_memory();
        if (now > atomic_load(&most)) atomic_store(&most, now);
        usleep(1000);
    }
    return unused;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc == 5, "usage: peak_memory FILE MIB BYTES collective|independent");
    long bytes = (atol(argv[2]) << 20) / ranks, piece = atol(argv[3]);
    int is_collective = strcmp(argv[4], "collective") == 0;
    bytes = bytes / piece * piece;
    unsigned char *buffer = malloc((size_t)bytes);
    for (long i = 0; i < bytes; i++) buffer[i] = (unsigned char)(i * 7 + rank + i / 251);

    MPI_File file;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MPI_Datatype comb, view;
    MPI_OK(MPI_Type_contiguous((int)piece, MPI_BYTE, &comb));
    MPI_OK(MPI_Type_create_resized(comb, 0, piece * ranks, &view));
    MPI_OK(MPI_Type_commit(&view));
    MPI_OK(MPI_File_set_view(file, rank * piece, MPI_BYTE, view, "native", MPI_INFO_NULL));
    MPI_Barrier(MPI_COMM_WORLD);

    long private_before = private_memory(), shared_before = shared_memory();
    atomic_store(&most, private_before);
    pthread_t watcher;
    HOLDS(pthread_create(&watcher, NULL, watch, NULL) == 0);
    MPI_OK((is_collective ? MPI_File_write_at_all : MPI_File_write_at)(file, 0, buffer, (int)bytes, MPI_BYTE,
                                                                       MPI_STATUS_IGNORE));
    long shared = shared_memory();
    memset(buffer, 0, (size_t)bytes);
    MPI_OK(MPI_File_sync(file));
    MPI_OK((is_collective ? MPI_File_read_at_all : MPI_File_read_at)(file, 0, buffer, (int)bytes, MPI_BYTE,
                                                                     MPI_STATUS_IGNORE));
    long shared_later = shared_memory();
    if (shared_later > shared) shared = shared_later;
    atomic_store(&is_over, 1);
    pthread_join(watcher, NULL);
    for (long i = 0; i < bytes; i++) EQUAL(buffer[i], (unsigned char)(i * 7 + rank + i / 251));

    long beyond = atomic_load(&most) - private_before;
    if (shared > shared_before) beyond += shared - shared_before;
    MPI_OK(MPI_Allreduce(MPI_IN_PLACE, &beyond, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD));
    MPI_OK(MPI_File_close(&file));
    if (rank == 0) printf("KiB beyond buffers: %ld\n", beyond);
    MPI_Type_free(&comb);
    MPI_Type_free(&view);
    free(buffer);
    MPI_Finalize();
    return 0;
}
