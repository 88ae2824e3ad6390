/* Does what its arguments say, pairs of an action and a file's name (or how many descriptors the last rank may have more
 * than it has, -1 for as many as it had), and reports what comes of each. */
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"
#include "random.h"
#include "report.h"

enum { BYTES = 300000 };

static void fill(unsigned char *buffer) {
    for (int i = 0; i < BYTES; i++) buffer[i] = byte_at(5, (uint64_t)i);
}

/* 1 where the file holds what `make` wrote. */
static int is_whole(MPI_File file) {
    static unsigned char expected[BYTES], found[BYTES + 1];
    MPI_Status status;
    MPI_Offset size;
    fill(expected);
    int sized = MPI_File_get_size(file, &size);
    int read = MPI_File_read_at_all(file, 0, found, BYTES + 1, MPI_BYTE, &status);
    if (sized != MPI_SUCCESS || size != BYTES || read != MPI_SUCCESS) return 0;
    return memcmp(expected, found, BYTES) == 0;
}

/* Lets this process have so many more files open than it has, or where that is negative as many as before. */
static void leave_descriptors(int spare) {
    static struct rlimit before;
    struct rlimit limit;
    if (before.rlim_cur == 0) CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0, "getrlimit fails");
    limit = before;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit fails");
    int next = dup(0);
    CHECK(next >= 0 && close(next) == 0, "there is no descriptor");
    if (spare >= 0) limit.rlim_cur = (rlim_t)(next + spare);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit fails");
}

static void attempt(const char *action, const char *name) {
    static const struct {
        const char *action;
        int amode;
    } opens[] = {
        {"make", MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR},
        {"read", MPI_MODE_RDONLY},
        {"update", MPI_MODE_RDWR},
        {"create", MPI_MODE_CREATE | MPI_MODE_RDWR},
        {"exclusive", MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR},
        {"temporary", MPI_MODE_RDONLY | MPI_MODE_DELETE_ON_CLOSE},
    };
    if (strcmp(action, "delete") == 0) {
        report(action, rank == 0 ? MPI_File_delete(name, MPI_INFO_NULL) : MPI_SUCCESS);
        MPI_Barrier(MPI_COMM_WORLD);
        return;
    }
    if (strcmp(action, "descriptors") == 0) {
        if (rank == ranks - 1) leave_descriptors(atoi(name));
        return;
    }
    size_t which = 0;
    while (strcmp(opens[which].action, action) != 0) {
        CHECK(++which < sizeof opens / sizeof *opens, "there is no action %s", action);
    }
    MPI_File file;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "svm_segment_size", "65536");
    int code = MPI_File_open(MPI_COMM_WORLD, name, opens[which].amode, info, &file);
    MPI_Info_free(&info);
    report(action, code);
    if (code != MPI_SUCCESS) return;
    if (strcmp(action, "make") == 0) {
        static unsigned char buffer[BYTES];
        fill(buffer);
        MPI_OK(MPI_File_write_at_all(file, 0, buffer, rank == 0 ? BYTES : 0, MPI_BYTE, MPI_STATUS_IGNORE));
        MPI_OK(MPI_File_sync(file));
        MPI_Barrier(MPI_COMM_WORLD);
    }
    report_number("whole", is_whole(file));
    report("close", MPI_File_close(&file));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc >= 5 && argc % 2 == 1, "usage: attempts REPORTS USER-ID ACTION NAME ...");
    report_to(argv[1]);
    int user = atoi(argv[2]);
    /* For files alone: MPI goes on to use what it has already set up. */
    if (user != 0) setfsgid((gid_t)user), setfsuid((uid_t)user);
    CHECK(setfsuid((uid_t)-1) == user, "cannot use files as user %d", user);
    for (int i = 3; i < argc; i += 2) attempt(argv[i], argv[i + 1]);
    MPI_Finalize();
    return 0;
}
