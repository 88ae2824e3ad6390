/* files WHAT FILE [ARGUMENT]...: one of the benchmarks of files. Rank 0 prints lines "NAME NUMBER" and, where bytes were
 * moved, how fast; times are seconds, and "wrong" counts what was read and had not been written. */
#include <signal.h>
#include <unistd.h>

#include "check.h"
#include "files.h"
#include "timing.h"

static const struct {
    const char *name;
    int arguments;
    void (*run)(const char *file, char **arguments);
} benchmarks[] = {
    {"coll_perf", 3, coll_perf}, {"btio", 3, btio},             {"noncontig", 5, noncontig},
    {"ior", 4, ior},             {"small", 2, small},           {"open-close", 1, open_close},
    {"apart", 2, apart},
    {"memory", 1, memory},       {"first-write", 3, first_write},
    {"remote", 2, remote},       {"remote-view", 3, remote_view},
    {"pieces", 2, pieces},       {"messages", 1, messages},
    {"idle", 1, idle},           {"compute", 2, compute},
};

/* Debian's MPICH, without svmio as well, now and then waits for ever in MPI_Finalize where its ranks are on several
 * hosts: one of them for the others' part in taking connections down, the others for that one. By then all is told. Who
 * starts such ranks says so by this variable; all others fail that wait for ever. */
static const char *const MAY_HANG_AT_END = "BENCHMARK_MAY_HANG_AT_END";

static void enough(int signal) {
    (void)signal;
    _exit(0);
}

static void leave(void) {
    calm_barrier();
    tell("done", 1);
    /* The launcher is to have it before ranks end. */
    calm_barrier();
    if (getenv(MAY_HANG_AT_END) != NULL) {
        signal(SIGALRM, enough);
        alarm(2);
    }
    MPI_Finalize();
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    for (size_t i = 0; i < sizeof benchmarks / sizeof *benchmarks; i++) {
        if (argc == benchmarks[i].arguments + 3 && strcmp(argv[1], benchmarks[i].name) == 0) {
            doing = benchmarks[i].name;
            benchmarks[i].run(argv[2], argv + 3);
            leave();
            return 0;
        }
    }
    failed(__FILE__, __LINE__, "no such benchmark, or not its number of arguments");
}

MPI_File opened(const char *file, int mode) {
    MPI_File handle;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, file, mode, MPI_INFO_NULL, &handle));
    return handle;
}

void closed(MPI_File *handle) { MPI_OK(MPI_File_close(handle)); }

int64_t word(int64_t index, int64_t round) { return index * 2654435761 + round; }

long differing(const int64_t *words, int64_t first, int64_t count, int64_t round) {
    long wrong = 0;
    for (int64_t i = 0; i < count; i++) wrong += words[i] != word(first + i, round);
    return wrong;
}

void *touched(size_t bytes) {
    void *memory = malloc(bytes);
    CHECK(memory != NULL, "no memory");
    memset(memory, 0xa5, bytes);
    return memory;
}

int64_t number(const char *text) {
    char *end;
    long long value = strtoll(text, &end, 10);
    CHECK(*end == 0 && value > 0, "not a number above zero: %s", text);
    return value;
}
