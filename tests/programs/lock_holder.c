/* A rank, the first one unless another is named, holds the lock of an access in atomic mode for a while, or until it is
 * killed; the others wait for it.
 *
 * It is stopped in the midst of its write: it writes from memory whose last page is missing, and a thread of its own
 * that is to bring the page (userfaultfd) takes its time. */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "report.h"

enum { BYTES = 200000, PAGE = 4096, ROOM = (BYTES / PAGE + 1) * PAGE };
static const char *directory;
static int held_for_ms, holder;

/* Tells the test, and the other ranks, that something has come about. */
static void announce(const char *what) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, what);
    int file = open(path, O_WRONLY | O_CREAT, 0600);
    char text[32];
    int length = snprintf(text, sizeof text, "%d\n", (int)getpid());
    CHECK(file >= 0 && write(file, text, (size_t)length) == length && close(file) == 0, "%s cannot be written", path);
}

static void wait_for(const char *what) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, what);
    while (access(path, F_OK) != 0) usleep(1000);
}

/* Until each of those who wait for the lock has announced this. */
static void wait_for_waiters(const char *what) {
    char name[32];
    for (int r = 0; r < ranks; r++) {
        snprintf(name, sizeof name, "%s-%d", what, r);
        if (r != holder) wait_for(name);
    }
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

struct missing {
    int handler;
    char *page;
};

static void *bring_page(void *argument) {
    struct missing *missing = argument;
    struct uffd_msg message;
    CHECK(read(missing->handler, &message, sizeof message) == sizeof message, "no page fault came");
    announce("holding");
    if (held_for_ms < 0) pause();
    /* Whoever comes late waits as long as the others. */
    wait_for_waiters("waiting");
    usleep((useconds_t)held_for_ms * 1000);
    struct uffdio_zeropage zero = {.range = {.start = (unsigned long)missing->page, .len = PAGE}};
    CHECK(ioctl(missing->handler, UFFDIO_ZEROPAGE, &zero) == 0, "the page cannot be brought");
    return NULL;
}

/* Memory of ROOM bytes, whose last page comes when `bring_page` has had its time. */
static char *slow_memory(pthread_t *thread) {
    static struct missing missing;
    char *memory = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED, "no memory");
    memset(memory, 0, ROOM - PAGE);
    missing.page = memory + ROOM - PAGE;
    missing.handler = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    CHECK(missing.handler >= 0, "userfaultfd is not allowed: run the tests as root");
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register page = {.range = {.start = (unsigned long)missing.page, .len = PAGE},
                                   .mode = UFFDIO_REGISTER_MODE_MISSING};
    CHECK(ioctl(missing.handler, UFFDIO_API, &api) == 0, "userfaultfd does not work");
    CHECK(ioctl(missing.handler, UFFDIO_REGISTER, &page) == 0, "userfaultfd does not work");
    CHECK(pthread_create(thread, NULL, bring_page, &missing) == 0, "no thread");
    return memory;
}

/* Goes on in a child. Launchers do with the other ranks what they like when one is killed; of this one they hear when all
 * are through. */
static void hide_from_launcher(void) {
    pid_t child = fork();
    CHECK(child >= 0, "cannot fork");
    if (child == 0) return;
    waitpid(child, NULL, 0);
    wait_for("all-through");
    _exit(0);
}

/* An integer, and then three of nobody's. */
static void set_strided_view(MPI_File file) {
    MPI_Datatype spaced;
    MPI_Type_create_resized(MPI_INT, 0, 16, &spaced);
    MPI_Type_commit(&spaced);
    MPI_OK(MPI_File_set_view(file, 0, MPI_INT, spaced, "native", MPI_INFO_NULL));
    MPI_Type_free(&spaced);
}

int main(int argc, char **argv) {
    CHECK(argc == 5 || argc == 6, "usage: lock_holder NAME contiguous|strided DIRECTORY MILLISECONDS|for-ever [HOLDER]");
    int is_strided = strcmp(argv[2], "strided") == 0;
    directory = argv[3];
    holder = argc == 6 ? atoi(argv[5]) : 0;
    held_for_ms = strcmp(argv[4], "for-ever") == 0 ? -1 : atoi(argv[4]);
    if (held_for_ms < 0) hide_from_launcher();
    begin(&argc, &argv);
    report_to(directory);
    MPI_File file;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "svm_segment_size", "65536");
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    MPI_Info_free(&info);
    MPI_OK(MPI_File_set_atomicity(file, 1));
    if (is_strided) set_strided_view(file);
    static char buffer[BYTES];
    memset(buffer, rank, BYTES);
    /* All pages of the file have storage, and all ranks have it mapped, before it comes to waiting. */
    MPI_OK(MPI_File_write_at_all(file, 0, buffer, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);

    if (rank == holder) {
        pthread_t thread;
        char *memory = slow_memory(&thread);
        MPI_OK(MPI_File_write_at(file, 0, memory, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
        pthread_join(thread, NULL);
    } else {
        char name[32];
        wait_for("holding");
        snprintf(name, sizeof name, "waiting-%d", rank);
        double start = seconds(), cpu = cpu_seconds();
        announce(name);
        report("access", MPI_File_write_at(file, 1000, buffer, 4000, MPI_BYTE, MPI_STATUS_IGNORE));
        report_number("waited ms", (long)((seconds() - start) * 1e3));
        report_number("CPU us", (long)((cpu_seconds() - cpu) * 1e6));
    }
    /* Of a job that has lost a rank MPI knows no end. */
    if (held_for_ms < 0) {
        char name[32];
        snprintf(name, sizeof name, "through-%d", rank);
        announce(name);
        wait_for_waiters("through");
        announce("all-through");
        _exit(0);
    }
    MPI_OK(MPI_File_close(&file));
    MPI_Finalize();
    return 0;
}
