/* Who touches what cannot be had gets a signal, after on_loss was told of it; also if on_loss waits for what the thread
 * holds. What cannot be had here is a segment of this node's, for want of file descriptors. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support.h"

enum { SEGMENT = 1 << 16, SEGMENTS = 4, MOST = 64 };

struct told {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int count;
    uint64_t start[SEGMENTS], end[SEGMENTS];
    char problem[SEGMENTS][512];
};

static void on_loss(void *context, uint64_t start, uint64_t end, const char *problem) {
    struct told *told = context;
    pthread_mutex_lock(&told->mutex);
    DEMAND(told->count < SEGMENTS);
    told->start[told->count] = start;
    told->end[told->count] = end;
    snprintf(told->problem[told->count], sizeof told->problem[0], "%s", problem);
    told->count++;
    pthread_cond_broadcast(&told->changed);
    pthread_mutex_unlock(&told->mutex);
}

static sigjmp_buf before_the_load;

static void on_signal(int number) { siglongjmp(before_the_load, number); }

/* The signal that a load there is, or 0. */
static int signal_of(volatile char *at) {
    int number = sigsetjmp(before_the_load, 1);
    if (number == 0)
        (void)*at;
    return number;
}

/* Another process fills the file when this one has mapped it, which then has none of it open. */
static void fill(svm_file *file) {
    for (int segment = 0; segment < SEGMENTS; segment++)
        SUCCEED(svm_write_at(file, (uint64_t)segment * SEGMENT, "", 1));
}

static void have_it_filled(const char *program) {
    const char *job[] = {"SVMIO_JOB_RANK", "SVMIO_JOB_SIZE", "SVMIO_JOB_MASTER", "SVMIO_JOB_SECRET"};
    char command[4096];
    for (int i = 0; i < 4; i++)
        unsetenv(job[i]);
    snprintf(command, sizeof command, "'%s' fill", program);
    DEMAND(system(command) == 0);
}

int main(int argc, char **argv) {
    static struct told told = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, {0}, {0}, {{0}}};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    DEMAND(sigaction(SIGBUS, &action, NULL) == 0 && sigaction(SIGSEGV, &action, NULL) == 0);
    alarm(50); /* who waits for ever is ended */

    SUCCEED(svm_init());
    svm_options options = svm_default_options();
    options.segment_size = SEGMENT;
    if (argc > 1) {
        svm_file *file;
        SUCCEED(svm_open("f", SVM_WRITE, NULL, &file));
        fill(file);
        SUCCEED(svm_close(file));
        SUCCEED(svm_finalize());
        return EXIT_SUCCESS;
    }
    void *address;
    options.on_loss = on_loss;
    options.context = &told;
    SUCCEED(svm_map("f", SVM_WRITE | SVM_CREATE, 0, SEGMENTS * SEGMENT, &options, &address));
    volatile char *all = address;
    have_it_filled(argv[0]);

    /* Each segment takes one. */
    struct rlimit limit;
    DEMAND(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = MOST;
    DEMAND(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    int taken[MOST], count = 0;
    while (count < MOST && (taken[count] = open("/dev/null", O_RDONLY)) >= 0)
        count++;
    DEMAND(count < MOST);

    /* It is told before. */
    DEMAND(signal_of(all + 100) != 0);
    pthread_mutex_lock(&told.mutex);
    DEMAND(told.count == 1);
    DEMAND(told.start[0] == 0 && told.end[0] == (uint64_t)sysconf(_SC_PAGESIZE));
    DEMAND(strstr(told.problem[0], "too many open files") != NULL);

    /* It cannot be told now. */
    for (int segment = 1; segment < 3; segment++)
        DEMAND(signal_of(all + segment * SEGMENT) != 0);
    DEMAND(told.count == 1);
    while (told.count < 3)
        pthread_cond_wait(&told.changed, &told.mutex);
    DEMAND(told.start[1] == SEGMENT && told.start[2] == 2 * SEGMENT);
    pthread_mutex_unlock(&told.mutex);

    /* With descriptors left all of it is there. */
    while (count > 0)
        close(taken[--count]);
    SUCCEED(svm_refresh(address));
    for (int segment = 0; segment < SEGMENTS; segment++)
        DEMAND(signal_of(all + segment * SEGMENT) == 0);
    DEMAND(told.count == 3);
    SUCCEED(svm_unmap(address));
    SUCCEED(svm_finalize());
    printf("all losses are told\n");
    return EXIT_SUCCESS;
}
