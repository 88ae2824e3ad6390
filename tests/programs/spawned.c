/* spawned NAME: ranks spawn two others, by MPI_Comm_spawn and by MPI_Comm_spawn_multiple; both sides use files
 * together and alone. */
#include "check.h"

enum { BYTES = 10000 };

/* A file of `comm`'s ranks: each reads what the next one has written. */
static void use(MPI_Comm comm, const char *name, const char *of) {
    static char out[BYTES], in[BYTES];
    char path[400];
    int own, all;
    MPI_File file;
    MPI_Comm_rank(comm, &own);
    MPI_Comm_size(comm, &all);
    doing = of;
    snprintf(path, sizeof path, "%s%s", name, of);
    memset(out, 'a' + own, BYTES);
    MPI_OK(MPI_File_open(comm, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_write_at_all(file, (MPI_Offset)own * BYTES, out, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_sync(file));
    MPI_Barrier(comm);
    MPI_OK(MPI_File_sync(file));
    int next = (own + 1) % all;
    MPI_OK(MPI_File_read_at_all(file, (MPI_Offset)next * BYTES, in, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    for (int i = 0; i < BYTES; i++) EQUAL(in[i], 'a' + next);
    MPI_OK(MPI_File_close(&file));
    doing = "";
}

static void meet(MPI_Comm between, const char *name, int is_spawned) {
    MPI_Comm all;
    MPI_OK(MPI_Intercomm_merge(between, is_spawned, &all));
    use(all, name, "together");
    use(MPI_COMM_WORLD, name, is_spawned ? "spawned" : "spawning");
    use(all, name, "again");
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&between);
}

int main(int argc, char **argv) {
    MPI_Comm parents, between;
    begin(&argc, &argv);
    CHECK(argc == 2, "usage: spawned NAME");
    MPI_Comm_get_parent(&parents);
    if (parents != MPI_COMM_NULL) {
        meet(parents, argv[1], 1);
    } else {
        MPI_OK(MPI_Comm_spawn(argv[0], argv + 1, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between, MPI_ERRCODES_IGNORE));
        meet(between, argv[1], 0);
        char *commands[] = {argv[0], argv[0]}, **arguments[] = {argv + 1, argv + 1};
        int each[] = {1, 1};
        MPI_Info infos[2] = {MPI_INFO_NULL};
        MPI_Info_create(&infos[0]);
        MPI_Info_create(&infos[1]);
        MPI_OK(MPI_Comm_spawn_multiple(2, commands, arguments, each, infos, 0, MPI_COMM_WORLD, &between,
                                       MPI_ERRCODES_IGNORE));
        MPI_Info_free(&infos[0]);
        MPI_Info_free(&infos[1]);
        meet(between, argv[1], 0);
        if (rank == 0) printf("all have met\n");
    }
    MPI_Finalize();
    return 0;
}
