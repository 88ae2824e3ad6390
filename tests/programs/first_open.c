/* Opens the file NAME and closes it, and tells which of the process's libraries have come by that: "came PATH" for each. */
#define _GNU_SOURCE
#include <link.h>
#include <unistd.h>

#include "check.h"

enum { MOST = 1024 };

struct libraries {
    char *paths[MOST];
    int count;
};

static int note(struct dl_phdr_info *info, size_t size, void *libraries) {
    (void)size;
    struct libraries *all = libraries;
    CHECK(all->count < MOST, "more than %d libraries", MOST);
    all->paths[all->count++] = strdup(info->dlpi_name);
    return 0;
}

static int is_among(const struct libraries *all, const char *path) {
    for (int i = 0; i < all->count; i++) {
        if (strcmp(all->paths[i], path) == 0) return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    struct libraries before = {.count = 0}, after = {.count = 0};
    MPI_File file;
    begin(&argc, &argv);
    CHECK(argc == 2, "usage: first_open NAME");
    dl_iterate_phdr(note, &before);
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    dl_iterate_phdr(note, &after);
    MPI_OK(MPI_File_close(&file));
    for (int i = 0; i < after.count && rank == 0; i++) {
        if (!is_among(&before, after.paths[i])) printf("came %s\n", after.paths[i]);
    }
    MPI_OK(MPI_Finalize());
    return 0;
}
