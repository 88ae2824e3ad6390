/* Carries out programs of accesses, and tells what each read has returned:
 *
 *   mpi_model PROGRAMS LOGS
 *
 * PROGRAMS is a text of which each line is for one rank, or for all (`*`), who do theirs in this order:
 *
 *   RANK hint KEY VALUE | open NAME | close | remove NAME | sync | barrier | seek_shared AT
 *   RANK set_size BYTES | preallocate BYTES | atomic 0|1 | get_size
 *   RANK view FROM KIND BLOCK STRIDE           blocks of bytes at a distance; KIND is the datatype's (view.c)
 *   RANK write METHOD AT LENGTH SPACING SLOT TAG | read METHOD AT LENGTH SPACING SLOT | wait SLOT
 *
 * AT is in bytes of the view; SPACING is the distance of bytes in memory; METHOD is one of those of access.c, of which
 * some are under way in a slot until they are waited for.
 *
 * LOGS/rank-N gets of each line that observes something three words of eight bytes: its number, the file's size
 * (otherwise 0), and how many bytes were read, which follow. An opening and a removal are noted, too. */
#include "parts.h"

static FILE *told;
static MPI_Info hints = MPI_INFO_NULL;
MPI_File file = MPI_FILE_NULL;

void tell(uint64_t line, uint64_t size, const unsigned char *bytes, uint64_t length) {
    const uint64_t head[3] = {line, size, length};
    CHECK(fwrite(head, sizeof head, 1, told) == 1, "the log cannot be written");
    if (length > 0) CHECK(fwrite(bytes, length, 1, told) == 1, "the log cannot be written");
}

static char *read_text(const char *path) {
    FILE *from = fopen(path, "r");
    CHECK(from != NULL, "cannot read %s", path);
    fseek(from, 0, SEEK_END);
    long length = ftell(from);
    rewind(from);
    char *text = malloc((size_t)length + 1);
    CHECK(text != NULL && fread(text, 1, (size_t)length, from) == (size_t)length, "cannot read %s", path);
    text[length] = 0;
    fclose(from);
    return text;
}

/* What acts on the file as a whole. */
static int manage(const char *what, const char *rest, uint64_t line) {
    char key[64], value[512];
    long long number = 0;
    sscanf(rest, "%lld", &number);
#define IS(name) (strcmp(what, name) == 0)
    if (IS("hint")) {
        if (hints == MPI_INFO_NULL) MPI_OK(MPI_Info_create(&hints));
        CHECK(sscanf(rest, "%63s %511s", key, value) == 2, "a hint has a key and a value");
        MPI_OK(MPI_Info_set(hints, key, value));
    } else if (IS("open")) {
        CHECK(sscanf(rest, "%511s", value) == 1, "a file has a name");
        tell(line, 0, NULL, 0);
        fflush(told);
        MPI_OK(MPI_File_open(MPI_COMM_WORLD, value, MPI_MODE_CREATE | MPI_MODE_RDWR, hints, &file));
        forget_view();
    } else if (IS("close")) {
        MPI_OK(MPI_File_close(&file));
    } else if (IS("remove")) {
        CHECK(sscanf(rest, "%511s", value) == 1, "a file has a name");
        if (hints != MPI_INFO_NULL) MPI_Info_free(&hints);
        if (rank == 0) MPI_OK(MPI_File_delete(value, MPI_INFO_NULL));
        tell(line, 0, NULL, 0);
        fflush(told);
    } else if (IS("sync")) {
        MPI_OK(MPI_File_sync(file));
    } else if (IS("barrier")) {
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (IS("seek_shared")) {
        MPI_OK(MPI_File_seek_shared(file, number, MPI_SEEK_SET));
    } else if (IS("set_size")) {
        MPI_OK(MPI_File_set_size(file, number));
    } else if (IS("preallocate")) {
        MPI_OK(MPI_File_preallocate(file, number));
    } else if (IS("atomic")) {
        MPI_OK(MPI_File_set_atomicity(file, (int)number));
    } else if (IS("get_size")) {
        MPI_Offset size;
        MPI_OK(MPI_File_get_size(file, &size));
        tell(line, (uint64_t)size, NULL, 0);
    } else {
        return 0;
    }
#undef IS
    return 1;
}

static void carry_out(const char *text, uint64_t line) {
    char what[32];
    int length = 0;
    CHECK(sscanf(text, "%31s %n", what, &length) >= 1, "an empty line");
    const char *rest = text + length;
    if (strcmp(what, "view") == 0) {
        set_view(rest);
    } else if (strcmp(what, "write") == 0 || strcmp(what, "read") == 0) {
        begin_access(what[0] == 'w', rest, line);
    } else if (strcmp(what, "wait") == 0) {
        end_access(atoi(rest));
    } else {
        CHECK(manage(what, rest, line), "nobody knows how to do this");
    }
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc == 3, "usage: mpi_model PROGRAMS LOGS");
    char path[4096];
    snprintf(path, sizeof path, "%s/rank-%d", argv[2], rank);
    told = fopen(path, "w");
    CHECK(told != NULL, "cannot write %s", path);
    char *text = read_text(argv[1]), *rest = text, *line;
    for (uint64_t number = 0; (line = strsep(&rest, "\n")) != NULL; number++) {
        int own = line[0] == '*' || (line[0] != 0 && atoi(line) == rank);
        if (!own) continue;
        char busy[600];
        snprintf(busy, sizeof busy, "line %llu, %s", (unsigned long long)number, line);
        doing = busy;
        const char *what = strchr(line, ' ');
        CHECK(what != NULL, "nothing to do");
        carry_out(what + 1, number);
    }
    doing = "";
    fclose(told);
    free(text);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("the programs are carried out\n");
    MPI_Finalize();
    return 0;
}
