/* going_on FILE SHARED NODES: nonblocking and split collective accesses go on while their rank calls nothing of MPI's.
 *
 * One rank at a time starts an access to memory of which a page is missing: it cannot be over. Then the rank brings the
 * page, and waits, without MPI, until the access has had its effect: the other ranks see what was written, and tell so by
 * the file SHARED, which all have in memory; or it sees what was read in its own memory. On several NODES others need not
 * see what is written before MPI_File_sync, unless it is in atomic mode: otherwise nobody looks. */
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "held_page.h"

enum { BLOCKS = 1 << 11, BLOCK = 1024, BYTES = BLOCKS * BLOCK, MOST_RANKS = 64 };

enum kind { IWRITE_AT, IWRITE, IWRITE_AT_ALL, IWRITE_ALL, WRITE_AT_ALL, WRITE_ALL,
            IREAD_AT, IREAD, IREAD_AT_ALL, IREAD_ALL, READ_AT_ALL, READ_ALL, KINDS };
static const char *const names[KINDS] = {
    "iwrite_at", "iwrite", "iwrite_at_all", "iwrite_all", "write_at_all_begin", "write_all_begin",
    "iread_at", "iread", "iread_at_all", "iread_all", "read_at_all_begin", "read_all_begin"};

static int writes(enum kind kind) { return kind < IREAD_AT; }
static int is_of_one_rank(enum kind kind) { return kind % IREAD_AT < IWRITE_AT_ALL; }
static int is_split(enum kind kind) { return kind % IREAD_AT >= WRITE_AT_ALL; }

/* The same file: for the accesses, and for looking what is in it. */
static MPI_File file, all_bytes;
static int is_interleaved, is_atomic, is_on_one_node;
static char *written, *found, *whole;
/* What each rank has seen: the number of the round. */
static atomic_int *seen;

/* ROMIO itself carries these out as they start: it takes the file's lock and calls what blocks. */
static int blocks_in_romio(enum kind kind) {
    return writes(kind) && is_of_one_rank(kind) && is_atomic && (!is_interleaved || ranks == 1);
}

static int is_seen_at_once(void) { return is_on_one_node || is_atomic; }

/* What a rank has at a byte of its part. */
static char content(int i, int of, int turn) { return (char)(i % 239 + of * 5 + turn * 7 + 1); }

static size_t place(int i, int of) {
    if (!is_interleaved) return (size_t)of * BYTES + (size_t)i;
    return ((size_t)(i / BLOCK) * (size_t)ranks + (size_t)of) * BLOCK + (size_t)(i % BLOCK);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int is_in_file(int of, int turn) {
    MPI_OK(MPI_File_read_at(all_bytes, 0, whole, BYTES * ranks, MPI_BYTE, MPI_STATUS_IGNORE));
    for (int i = 0; i < BYTES; i++)
        if (whole[place(i, of)] != content(i, of, turn)) return 0;
    return 1;
}

/* Looks at memory that another thread writes. */
static int is_in_memory(int turn) {
    const volatile char *memory = found;
    for (int i = 0; i < BYTES; i++)
        if (memory[i] != content(i, rank, turn)) return 0;
    return 1;
}

static int all_others_have_seen(int turn) {
    for (int other = 0; other < ranks; other++)
        if (other != rank && atomic_load(&seen[other]) != turn) return 0;
    return 1;
}

#define WAIT_UNTIL(condition)                                                                                 \
    do {                                                                                                      \
        double start_ = seconds();                                                                            \
        while (!(condition)) {                                                                                \
            CHECK(seconds() - start_ < 60, "nothing goes on without a call: %s", #condition);                 \
            usleep(1000);                                                                                     \
        }                                                                                                     \
    } while (0)

static void start(enum kind kind, MPI_Request *request) {
    MPI_OK(MPI_File_seek(file, 0, MPI_SEEK_SET));
    switch (kind) {
    case IWRITE_AT: MPI_OK(MPI_File_iwrite_at(file, 0, written, BYTES, MPI_BYTE, request)); break;
    case IWRITE: MPI_OK(MPI_File_iwrite(file, written, BYTES, MPI_BYTE, request)); break;
    case IWRITE_AT_ALL: MPI_OK(MPI_File_iwrite_at_all(file, 0, written, BYTES, MPI_BYTE, request)); break;
    case IWRITE_ALL: MPI_OK(MPI_File_iwrite_all(file, written, BYTES, MPI_BYTE, request)); break;
    case WRITE_AT_ALL: MPI_OK(MPI_File_write_at_all_begin(file, 0, written, BYTES, MPI_BYTE)); break;
    case WRITE_ALL: MPI_OK(MPI_File_write_all_begin(file, written, BYTES, MPI_BYTE)); break;
    case IREAD_AT: MPI_OK(MPI_File_iread_at(file, 0, found, BYTES, MPI_BYTE, request)); break;
    case IREAD: MPI_OK(MPI_File_iread(file, found, BYTES, MPI_BYTE, request)); break;
    case IREAD_AT_ALL: MPI_OK(MPI_File_iread_at_all(file, 0, found, BYTES, MPI_BYTE, request)); break;
    case IREAD_ALL: MPI_OK(MPI_File_iread_all(file, found, BYTES, MPI_BYTE, request)); break;
    case READ_AT_ALL: MPI_OK(MPI_File_read_at_all_begin(file, 0, found, BYTES, MPI_BYTE)); break;
    default: MPI_OK(MPI_File_read_all_begin(file, found, BYTES, MPI_BYTE));
    }
}

static void end(enum kind kind, MPI_Request *request) {
    MPI_Status status;
    switch (kind) {
    case WRITE_AT_ALL: MPI_OK(MPI_File_write_at_all_end(file, written, &status)); break;
    case WRITE_ALL: MPI_OK(MPI_File_write_all_end(file, written, &status)); break;
    case READ_AT_ALL: MPI_OK(MPI_File_read_at_all_end(file, found, &status)); break;
    case READ_ALL: MPI_OK(MPI_File_read_all_end(file, found, &status)); break;
    default: MPI_OK(MPI_Wait(request, &status));
    }
    int bytes;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    EQUAL(bytes, BYTES);
}

static void is_not_over(enum kind kind, MPI_Request *request) {
    int is_over = 0;
    if (!is_split(kind)) MPI_OK(MPI_Test(request, &is_over, MPI_STATUS_IGNORE));
    CHECK(!is_over, "an access is over that cannot have touched all of its memory");
}

/* What the rank does whose access is held. */
static void held(enum kind kind, int turn) {
    MPI_Request request = MPI_REQUEST_NULL;
    hold_page(writes(kind) ? written : found, BYTES);
    start(kind, &request);
    is_not_over(kind, &request);
    wait_until_page_is_needed();
    is_not_over(kind, &request);
    /* From here on nothing of MPI's is called. */
    give_page_back();
    if (!writes(kind)) WAIT_UNTIL(is_in_memory(turn));
    else if (is_seen_at_once()) WAIT_UNTIL(all_others_have_seen(turn));
    end(kind, &request);
}

static void beside(enum kind kind, int holder, int turn) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (!is_of_one_rank(kind)) start(kind, &request);
    if (writes(kind) && is_seen_at_once()) {
        WAIT_UNTIL(is_in_file(holder, turn));
        atomic_store(&seen[rank], turn);
    }
    if (!is_of_one_rank(kind)) end(kind, &request);
}

static void take_turn(enum kind kind, int holder, int turn) {
    static char text[100];
    snprintf(text, sizeof text, "%s, %s%s", names[kind], is_interleaved ? "interleaved" : "in a row",
             is_atomic ? ", in atomic mode" : "");
    doing = text;
    for (int i = 0; i < BYTES; i++) written[i] = content(i, rank, turn);
    memset(found, 0, BYTES);
    if (!writes(kind)) MPI_OK(MPI_File_write_at_all(file, 0, written, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == holder) held(kind, turn);
    else beside(kind, holder, turn);
    if (!writes(kind) && (rank == holder || !is_of_one_rank(kind))) HOLDS(is_in_memory(turn));
    MPI_Barrier(MPI_COMM_WORLD);
}

static atomic_int *shared_numbers(const char *path) {
    int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    size_t bytes = MOST_RANKS * sizeof(atomic_int);
    CHECK(descriptor >= 0 && ftruncate(descriptor, (off_t)bytes) == 0, "%s cannot be made", path);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    CHECK(memory != MAP_FAILED, "%s cannot be mapped", path);
    close(descriptor);
    return memory;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc == 4 && ranks <= MOST_RANKS, "usage: going_on FILE SHARED NODES, with at most %d ranks", MOST_RANKS);
    written = memory_with_page(BYTES);
    found = memory_with_page(BYTES);
    whole = malloc((size_t)BYTES * (size_t)ranks);
    seen = shared_numbers(argv[2]);
    is_on_one_node = atoi(argv[3]) == 1;
    int mode = MPI_MODE_CREATE | MPI_MODE_RDWR;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], mode, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, argv[1], mode, MPI_INFO_NULL, &all_bytes));
    /* What others write is seen at once, without MPI_File_sync, which is a collective call. */
    MPI_OK(MPI_File_set_atomicity(all_bytes, 1));
    MPI_Datatype blocks;
    MPI_Type_vector(BLOCKS, BLOCK, BLOCK * ranks, MPI_BYTE, &blocks);
    MPI_Type_commit(&blocks);
    int turn = 0;
    for (is_interleaved = 0; is_interleaved < 2; is_interleaved++) {
        MPI_Offset first = (MPI_Offset)rank * (is_interleaved ? BLOCK : BYTES);
        MPI_Datatype shown = is_interleaved ? blocks : MPI_BYTE;
        MPI_OK(MPI_File_set_view(file, first, MPI_BYTE, shown, "native", MPI_INFO_NULL));
        for (is_atomic = 0; is_atomic < 2; is_atomic++) {
            MPI_OK(MPI_File_set_atomicity(file, is_atomic));
            for (int kind = 0; kind < KINDS; kind++) {
                if (blocks_in_romio((enum kind)kind)) continue;
                for (int holder = 0; holder < ranks; holder++) take_turn((enum kind)kind, holder, ++turn);
            }
        }
    }
    MPI_Type_free(&blocks);
    MPI_OK(MPI_File_close(&all_bytes));
    MPI_OK(MPI_File_close(&file));
    free(whole);
    if (rank == 0) printf("all went on\n");
    MPI_Finalize();
    return 0;
}
