/* long_hints FILE: hints do no harm at open, with a view, and when they are set later. Values may be nearly as long as
 * this MPI takes them; one that concerns the file is told whole. What ROMIO keeps of its own collective accesses
 * (romio_cb_pfr) it would miss when it closes the file: there is none. */
#include "check.h"

/* So long that MPICH has them, but not everybody who takes 255 characters for the longest. */
enum { LENGTH = MPI_MAX_INFO_VAL > 600 ? 600 : MPI_MAX_INFO_VAL - 1 };

static char servers[LENGTH + 1], other[LENGTH + 1];

static MPI_Info hints(void) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "a_hint_of_nobody", other);
    MPI_Info_set(info, "svm_servers", servers);
    MPI_Info_set(info, "cb_buffer_size", "65536");
    MPI_Info_set(info, "romio_cb_pfr", "enable");
    return info;
}

static void is_told(MPI_File file, const char *key, const char *expected) {
    MPI_Info info;
    char value[MPI_MAX_INFO_VAL + 1];
    int flag;
    MPI_OK(MPI_File_get_info(file, &info));
    MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &flag);
    CHECK(flag && strcmp(value, expected) == 0, "%s is %s", key, flag ? value : "not told");
    MPI_Info_free(&info);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc == 2, "usage: long_hints FILE");
    memset(other, 'x', LENGTH);
    for (int i = 0; i < LENGTH; i++) servers[i] = i % 6 == 5 && i + 1 < LENGTH ? ',' : (char)('a' + i / 6 % 26);
    MPI_Info info = hints();
    MPI_File file;
    /* No hosts are asked for what is there. */
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_close(&file));
    doing = "opening";
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR, info, &file));
    is_told(file, "cb_buffer_size", "65536");
    is_told(file, "romio_cb_pfr", "disable");
    is_told(file, "svm_servers", servers);
    MPI_OK(MPI_File_close(&file));
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    doing = "a view";
    MPI_OK(MPI_File_set_view(file, 4, MPI_INT, MPI_INT, "native", info));
    MPI_OK(MPI_File_close(&file));
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    doing = "hints for an open file";
    MPI_OK(MPI_File_set_info(file, info));
    is_told(file, "romio_cb_pfr", "disable");
    MPI_OK(MPI_File_set_view(file, 4, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    int found;
    MPI_OK(MPI_File_write_at_all(file, rank, &rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_read_at_all(file, (rank + 1) % ranks, &found, 1, MPI_INT, MPI_STATUS_IGNORE));
    EQUAL(found, (rank + 1) % ranks);
    MPI_OK(MPI_File_close(&file));
    doing = "";
    MPI_Info_free(&info);
    if (rank == 0) printf("told whole\n");
    MPI_Finalize();
    return 0;
}
