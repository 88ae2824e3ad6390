/* refused_opens FILE STOCK: a file is opened by what cannot open one, MPI_COMM_NULL or an intercommunicator, or in an
 * access mode in which none can be opened, by all ranks or by one. Whoever tries hears so, by the class and by the error handler, has no file
 * then, and waits for nobody who does not try; so it is with a handler of the program's, too. Of a STOCK file nothing
 * is asked but that the job goes on. */
#include "check.h"

/* Of what Open MPI refuses for a communicator, it is that one's handler that hears. */
#ifdef OPEN_MPI
enum { FILES_HEAR = 0 };
#else
enum { FILES_HEAR = 1 };
#endif

static const char *name;
static int is_counted, calls, class;

static void count(MPI_File *file, int *code, ...) {
    HOLDS(*file == MPI_FILE_NULL);
    class = class_of(*code);
    calls++;
}

static void refused(MPI_Comm comm, int amode, int expected, int is_heard) {
    MPI_File file;
    /* Whatever there is before a file. */
    memset(&file, 0x5a, sizeof file);
    calls = 0;
    MPI_FAILS(MPI_File_open(comm, name, amode, MPI_INFO_NULL, &file), expected);
    HOLDS(file == MPI_FILE_NULL);
    EQUAL(calls, is_counted && is_heard);
    if (calls) EQUAL(class, expected);
}

static void opened(MPI_Comm comm) {
    MPI_File file;
    int found;
    MPI_OK(MPI_File_open(comm, name, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_write_at_all(file, rank * sizeof rank, &rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_read_at_all(file, rank * sizeof rank, &found, 1, MPI_INT, MPI_STATUS_IGNORE));
    EQUAL(found, rank);
    MPI_OK(MPI_File_close(&file));
}

static void by_none(const char *stock) {
    int amode = MPI_MODE_RDWR | MPI_MODE_CREATE;
    MPI_File file = MPI_FILE_NULL;
    doing = "no communicator";
    if (rank == 0) refused(MPI_COMM_NULL, amode, MPI_ERR_COMM, FILES_HEAR);
    MPI_File_open(MPI_COMM_NULL, stock, amode, MPI_INFO_NULL, &file);
    opened(MPI_COMM_WORLD);
}

static void by_two_groups(void) {
    MPI_Comm own, both;
    int is_second = rank >= ranks / 2, amode = MPI_MODE_RDWR | MPI_MODE_CREATE;
    MPI_Comm_split(MPI_COMM_WORLD, is_second, rank, &own);
    MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, is_second ? 0 : ranks / 2, 1, &both);
    if (!FILES_HEAR) MPI_Comm_set_errhandler(both, MPI_ERRORS_RETURN);
    doing = "one of two groups";
    if (!is_second) refused(both, amode, MPI_ERR_COMM, FILES_HEAR);
    MPI_Barrier(MPI_COMM_WORLD);
    doing = "two groups";
    refused(both, amode, MPI_ERR_COMM, FILES_HEAR);
    MPI_Comm_free(&both);
    if (!is_second) opened(own);
    MPI_Comm_free(&own);
    MPI_Barrier(MPI_COMM_WORLD);
    opened(MPI_COMM_WORLD);
}

static void in_no_mode(void) {
    int modes[] = {0, MPI_MODE_CREATE, MPI_MODE_RDONLY | MPI_MODE_WRONLY, MPI_MODE_RDONLY | MPI_MODE_CREATE,
                   MPI_MODE_RDONLY | MPI_MODE_EXCL, MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL};
    doing = "modes that make no sense";
    for (int i = 0; i < (int)(sizeof modes / sizeof *modes); i++) refused(MPI_COMM_WORLD, modes[i], MPI_ERR_AMODE, 1);
    int is_mine = rank == 1, amode = MPI_MODE_RDWR | MPI_MODE_CREATE;
    doing = "modes that make no sense, of one rank";
    for (int i = 0; i < (int)(sizeof modes / sizeof *modes); i++)
        refused(MPI_COMM_WORLD, rank == i % ranks ? modes[i] : amode, MPI_ERR_AMODE, 1);
    doing = "modes that differ";
    refused(MPI_COMM_WORLD, is_mine ? MPI_MODE_RDWR : amode, MPI_ERR_NOT_SAME, 1);
    refused(MPI_COMM_WORLD, is_mine ? MPI_MODE_WRONLY | MPI_MODE_CREATE : amode, MPI_ERR_NOT_SAME, 1);
    opened(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc == 3 && ranks > 3, "usage: refused_opens FILE STOCK, with 4 ranks");
    name = argv[1];
    if (!FILES_HEAR) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Errhandler handler;
    MPI_OK(MPI_File_create_errhandler(count, &handler));
    for (is_counted = 0; is_counted < 2; is_counted++) {
        if (is_counted) MPI_OK(MPI_File_set_errhandler(MPI_FILE_NULL, handler));
        by_none(argv[2]);
        by_two_groups();
        in_no_mode();
    }
    MPI_OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    MPI_OK(MPI_Errhandler_free(&handler));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("all were refused\n");
    MPI_Finalize();
    return 0;
}
