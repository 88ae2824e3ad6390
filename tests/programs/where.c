/* Every rank makes a file of its own, NAME.RANK, and tells where it is: "RANK of RANKS: HOST NODE STORE", the node and the
 * store as svmio tells them; then, if asked to, it waits for ever. */
#include <unistd.h>

#include "check.h"

static const char *told(MPI_Info info, const char *key, char *value) {
    int flag;
    MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &flag);
    CHECK(flag, "%s is not told: the file is not svmio's", key);
    return value;
}

/* At once, lest ranks' lines mix. */
static void tell(const char *line, size_t length) { HOLDS(write(STDOUT_FILENO, line, length) == (ssize_t)length); }

static __attribute__((noinline)) void tell_and_wait_for_ever(const char *line, size_t length) {
    tell(line, length);
    for (;;) pause();
}

int main(int argc, char **argv) {
    char name[1024], host[256], node[MPI_MAX_INFO_VAL + 1], store[MPI_MAX_INFO_VAL + 1], line[4096];
    MPI_File file;
    MPI_Info info;
    begin(&argc, &argv);
    CHECK(argc == 2 || (argc == 3 && strcmp(argv[2], "and-wait") == 0), "usage: where NAME [and-wait]");
    HOLDS(gethostname(host, sizeof host) == 0);
    snprintf(name, sizeof name, "%s.%d", argv[1], rank);
    MPI_OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_write_at(file, 0, &rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_get_info(file, &info));
    int length = snprintf(line, sizeof line, "%d of %d: %s %s %s\n", rank, ranks, host, told(info, "svm_node", node),
                          told(info, "svm_store", store));
    MPI_Info_free(&info);
    MPI_OK(MPI_File_close(&file));
    if (argc == 3) tell_and_wait_for_ever(line, (size_t)length);
    tell(line, (size_t)length);
    MPI_Finalize();
    return 0;
}
