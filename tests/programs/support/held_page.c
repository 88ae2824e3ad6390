#include "held_page.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

enum { PAGE = 4096 };
static int handler = -1;
static pid_t owner;
static char *held;
static char content[PAGE] __attribute__((aligned(PAGE)));
static atomic_int is_needed;

static void *see_who_waits(void *nothing) {
    (void)nothing;
    struct uffd_msg message;
    for (;;) {
        CHECK(read(handler, &message, sizeof message) == sizeof message, "page faults cannot be read");
        CHECK((pid_t)message.arg.pagefault.feat.ptid != owner,
              "the thread that calls MPI carries the access out itself: nothing goes on in the background");
        atomic_store(&is_needed, 1);
    }
}

static void start(void) {
    owner = (pid_t)syscall(SYS_gettid);
    handler = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    CHECK(handler >= 0, "userfaultfd is not allowed: run the tests as root");
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_THREAD_ID};
    CHECK(ioctl(handler, UFFDIO_API, &api) == 0, "userfaultfd does not tell which thread waits");
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, see_who_waits, NULL) == 0, "no thread");
    pthread_detach(thread);
}

static char *page_of(char *memory, size_t bytes) { return memory + bytes / 2 / PAGE * PAGE; }

char *memory_with_page(size_t bytes) {
    if (handler < 0) start();
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED, "no memory");
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    memset(memory, 0, bytes);
    struct uffdio_register page = {.range = {.start = (unsigned long)page_of(memory, bytes), .len = PAGE},
                                   .mode = UFFDIO_REGISTER_MODE_MISSING};
    CHECK(ioctl(handler, UFFDIO_REGISTER, &page) == 0, "userfaultfd does not take the page");
    return memory;
}

void hold_page(char *memory, size_t bytes) {
    held = page_of(memory, bytes);
    memcpy(content, held, PAGE);
    atomic_store(&is_needed, 0);
    CHECK(madvise(held, PAGE, MADV_DONTNEED) == 0, "the page cannot be taken away");
}

void wait_until_page_is_needed(void) {
    for (int i = 0; !atomic_load(&is_needed); i++) {
        CHECK(i < 60000, "nobody needs the page in a minute");
        usleep(1000);
    }
}

void give_page_back(void) {
    struct uffdio_copy copy = {.dst = (unsigned long)held, .src = (unsigned long)content, .len = PAGE};
    CHECK(ioctl(handler, UFFDIO_COPY, &copy) == 0, "the page cannot be given back");
}
