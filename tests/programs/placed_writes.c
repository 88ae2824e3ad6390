/* placed_writes FILE FROM HOW [PLACEMENT]: rank 2 alone writes to eight segments of 64 KiB from segment FROM on: in one piece
   (whole, atomic, begun), or to the first, the fourth and the last of them (gaps, atomic-gaps, begun-gaps), where it is begun
   by a collective call that does not block; or all preallocate up to there (preallocate); or each writes one of the first four, together,
   again and again, and then one of the last four, which the rank before it would write to (again). All read what came of it; tells which placement is in force. PLACEMENT is a hint. Where HOW is "each", does
   so in each way, with files in the directory FILE that are named by it. */

#include "check.h"

/* After so many writes to what is there, ranks have ceased to ask each other for new segments, if they ever do. */
enum { SEGMENT = 64 << 10, SEGMENTS = 8, IN_VAIN = 10 };

static const int WITH_GAPS[] = {0, 3, 7};

static int has(const char *how, const char *word) { return strstr(how, word) != NULL; }

static void write_by_one(MPI_File file, MPI_Offset offset, const char *bytes, int count, int is_begun) {
    if (!is_begun) {
        if (rank == 2) MPI_OK(MPI_File_write_at(file, offset, bytes, count, MPI_BYTE, MPI_STATUS_IGNORE));
        return;
    }
    MPI_Request request;
    MPI_OK(MPI_File_iwrite_at_all(file, offset, bytes, rank == 2 ? count : 0, MPI_BYTE, &request));
    MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void write_placed(const char *name, MPI_Offset start, const char *how, const char *hint) {
    int has_gaps = has(how, "gaps"), is_begun = has(how, "begun");
    char *written = calloc(SEGMENTS, SEGMENT), *found = malloc(SEGMENTS * SEGMENT);

    MPI_File file;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "svm_segment_size", "64K");
    if (hint != NULL) MPI_Info_set(info, "svm_placement", hint);
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    MPI_Info_free(&info);
    MPI_OK(MPI_File_set_atomicity(file, has(how, "atomic")));
    if (!strcmp(how, "preallocate")) {
        MPI_OK(MPI_File_preallocate(file, start + SEGMENTS * SEGMENT));
    } else if (!strcmp(how, "again")) {
        memset(written, 7, SEGMENTS * SEGMENT);
        for (int i = 0; i <= IN_VAIN; i++)
            MPI_OK(MPI_File_write_at_all(file, start + rank * SEGMENT, written, SEGMENT, MPI_BYTE, MPI_STATUS_IGNORE));
        MPI_Offset behind = start + (4 + (rank + 1) % 4) * SEGMENT;
        MPI_OK(MPI_File_write_at_all(file, behind, written, SEGMENT, MPI_BYTE, MPI_STATUS_IGNORE));
    } else if (has_gaps) {
        MPI_Datatype segment, parts;
        MPI_Type_contiguous(SEGMENT, MPI_BYTE, &segment);
        MPI_Type_create_indexed_block(3, 1, WITH_GAPS, segment, &parts);
        MPI_Type_commit(&parts);
        MPI_OK(MPI_File_set_view(file, start, MPI_BYTE, parts, "native", MPI_INFO_NULL));
        char *packed = malloc(3 * SEGMENT);
        memset(packed, 7, 3 * SEGMENT);
        write_by_one(file, 0, packed, 3 * SEGMENT, is_begun);
        MPI_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
        for (int i = 0; i < 3; i++) memset(written + WITH_GAPS[i] * SEGMENT, 7, SEGMENT);
        MPI_Type_free(&segment);
        MPI_Type_free(&parts);
        free(packed);
    } else {
        memset(written, 7, SEGMENTS * SEGMENT);
        write_by_one(file, start, written, SEGMENTS * SEGMENT, is_begun);
    }
    MPI_OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_OK(MPI_File_sync(file));
    MPI_OK(MPI_File_read_at(file, start, found, SEGMENTS * SEGMENT, MPI_BYTE, MPI_STATUS_IGNORE));
    EQUAL(memcmp(written, found, SEGMENTS * SEGMENT), 0);

    char placement[64];
    int is_there;
    MPI_OK(MPI_File_get_info(file, &info));
    MPI_Info_get(info, "svm_placement", sizeof placement - 1, placement, &is_there);
    EQUAL(is_there, 1);
    MPI_Info_free(&info);
    MPI_OK(MPI_File_close(&file));
    if (rank == 0) printf("%s, in force: %s\n", how, placement);
    free(written);
    free(found);
}

int main(int argc, char **argv) {
    static const char *const WAYS[] = {"whole",       "atomic", "gaps",      "atomic-gaps",
                                       "preallocate", "begun",  "begun-gaps", "again"};
    begin(&argc, &argv);
    CHECK(argc == 4 || argc == 5, "usage: placed_writes FILE FROM HOW [PLACEMENT]");
    MPI_Offset start = atoll(argv[2]) * SEGMENT;
    const char *hint = argc > 4 ? argv[4] : NULL;
    if (strcmp(argv[3], "each") != 0) {
        write_placed(argv[1], start, argv[3], hint);
    } else {
        for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++) {
            char name[256];
            snprintf(name, sizeof name, "%s/%s", argv[1], WAYS[i]);
            write_placed(name, start, WAYS[i], hint);
        }
    }
    MPI_Finalize();
    return 0;
}
