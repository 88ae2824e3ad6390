/* Random nested datatypes, in memory and as views of files: what is where must be what MPI_Pack and MPI_Unpack say.
 *
 * random_types NAME KIND FIRST-SEED SEEDS [extended] [without-nonblocking-collectives] [tame]
 *
 * Each seed's files are NAME-SEED. With one seed alone, all datatypes are told before they are used. */
#include <inttypes.h>

#include "opinion.h"
#include "parts.h"

int is_extended, lacks_nonblocking_collectives;

const struct method *any_method(struct random *random) {
    for (;;) {
        const struct method *method = &methods[between(random, 0, method_count - 1)];
        int is_nonblocking = method->name[0] == 'i';
        if (!(lacks_nonblocking_collectives && is_nonblocking && method->is_collective)) return method;
    }
}

MPI_File open_new(MPI_Comm communicator, const char *name, struct random *random) {
    static const char *const sizes[] = {"65536", "131072", "1048576"};
    MPI_Info info = MPI_INFO_NULL;
    int size = between(random, 0, 3);
    if (size < 3) {
        MPI_Info_create(&info);
        MPI_Info_set(info, "svm_segment_size", sizes[size]);
    }
    MPI_File file;
    int mode = MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
    MPI_OK(MPI_File_open(communicator, name, mode, info, &file));
    if (info != MPI_INFO_NULL) MPI_Info_free(&info);
    MPI_OK(MPI_File_set_atomicity(file, between(random, 1, 6) == 1));
    return file;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*check)(const char *name, uint64_t seed);
        int is_by_all, asks_mpi;
    } kinds[] = {
        {"memory", check_memory_side, 0, 1},    {"file", check_file_side, 0, 1}, {"ends", check_ends, 0, 0},
        {"interlaced", check_interlaced, 0, 0}, {"far", check_far, 0, 0},        {"together", check_together, 1, 0},
    };
    begin(&argc, &argv);
    CHECK(argc >= 5, "usage: random_types NAME KIND FIRST-SEED SEEDS [extended] [without-...]");
    for (int a = 5; a < argc; a++) {
        is_extended |= strcmp(argv[a], "extended") == 0;
        lacks_nonblocking_collectives |= strcmp(argv[a], "without-nonblocking-collectives") == 0;
        is_tame |= strcmp(argv[a], "tame") == 0;
    }
    size_t kind = 0, known = sizeof kinds / sizeof *kinds;
    while (kind < known && strcmp(kinds[kind].name, argv[2]) != 0) kind++;
    CHECK(kind < known, "there is no kind %s", argv[2]);
    uint64_t first = strtoull(argv[3], NULL, 10), seeds = strtoull(argv[4], NULL, 10), done = 0;
    tells_types = seeds == 1;
    asks_mpi = kinds[kind].asks_mpi;
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        if (!kinds[kind].is_by_all && seed % (uint64_t)ranks != (uint64_t)rank) continue;
        char text[64], name[1024];
        snprintf(text, sizeof text, "%s, seed %" PRIu64, argv[2], seed);
        snprintf(name, sizeof name, "%s-%" PRIu64, argv[1], seed);
        doing = text;

        watch_nothing();
        kinds[kind].check(name, seed);
        done++;
    }
    doing = "";
    if (!kinds[kind].is_by_all) MPI_Allreduce(MPI_IN_PLACE, &done, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    weigh_opinions();
    if (rank == 0) printf("%s: %" PRIu64 " seeds are right\n", argv[2], done);
    MPI_Finalize();
    return 0;
}
