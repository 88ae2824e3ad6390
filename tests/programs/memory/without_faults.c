/* The process of the last rank may not serve page faults: all hear of it, and of what would allow it, and then share the
 * file by reading and writing it. */
#include "support.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* What makes a descriptor for faults out of /dev/userfaultfd: USERFAULTFD_IOC_NEW. */
#define NEW_BY_DEVICE 0xaa00

static void forbid_serving_faults(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NEW_BY_DEVICE, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    DEMAND(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    DEMAND(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

int main(void) {
    enum { NUMBERS = 5000 };
    SUCCEED(svm_init());
    int rank = svm_rank(), size = svm_size();
    if (rank == size - 1)
        forbid_serving_faults();
    void *address;
    /* Nothing is left of a file that could not be mapped: it can be made once more. */
    const unsigned flags = SVM_WRITE | SVM_CREATE | SVM_EXCLUSIVE;
    int status = svm_map("/shared", flags, 0, NUMBERS * sizeof(long) * (size_t)size, NULL, &address);
    DEMAND(status == SVM_ERR_FAULTS_REFUSED);
    const char *words[] = {"/shared", "vm.unprivileged_userfaultfd", "/dev/userfaultfd", "svm_read_at", "svm_write_at"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        DEMAND(strstr(svm_error(), words[i]) != NULL);

    svm_file *file;
    long numbers[NUMBERS];
    SUCCEED(svm_open("/shared", SVM_READ | flags, NULL, &file));
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = rank * NUMBERS + i;
    SUCCEED(svm_write_at(file, (uint64_t)rank * sizeof numbers, numbers, sizeof numbers));
    SUCCEED(svm_file_sync(file));
    for (int other = 0; other < size; other++) {
        SUCCEED(svm_read_at(file, (uint64_t)other * sizeof numbers, numbers, sizeof numbers, NULL));
        for (int i = 0; i < NUMBERS; i++)
            DEMAND(numbers[i] == other * NUMBERS + i);
    }
    SUCCEED(svm_close(file));
    SUCCEED(svm_finalize());
    if (rank == 0)
        printf("it works without faults\n");
    return EXIT_SUCCESS;
}
