/* Accesses by all of MPI's methods. */
#include "parts.h"

enum { SLOTS = 64, SILENCE = 0xee };

/* An access that is under way. */
static struct slot {
    const char *method;
    int is_used, writes, length, spacing;
    uint64_t line;
    unsigned char *buffer;
    MPI_Request request;
} slots[SLOTS];

/* Bytes one after the other, or with a gap behind each. */
static MPI_Datatype memory(int spacing) {
    static MPI_Datatype spaced = MPI_DATATYPE_NULL;
    if (spacing == 1) return MPI_BYTE;
    CHECK(spacing == 2, "bytes are at distances of 1 or 2");
    if (spaced == MPI_DATATYPE_NULL) {
        MPI_Type_create_resized(MPI_BYTE, 0, 2, &spaced);
        MPI_Type_commit(&spaced);
    }
    return spaced;
}

/* What a write with a tag puts at a place: never 0, and never what another tag puts there. */
static unsigned char pattern(unsigned tag, uint64_t place) {
    return (unsigned char)(1 + (tag + place * 7 + (place >> 8) * 13) % 255);
}

/* Whether the file's shared pointer says where, so that the bytes cannot depend on their places. */
static int is_placed_by_file(const char *method) { return strstr(method, "shared") != NULL; }

static void fill(const struct slot *slot, MPI_Offset at, unsigned tag) {
    for (int i = 0; i < slot->length; i++) {
        uint64_t place = is_placed_by_file(slot->method) ? 0 : (uint64_t)place_of(at + i);
        slot->buffer[(size_t)i * (size_t)slot->spacing] = pattern(tag, place);
    }
}

#define EITHER(name, ...) (slot->writes ? MPI_File_write##name(__VA_ARGS__) : MPI_File_read##name(__VA_ARGS__))
#define BEGUN(name, ...) (slot->writes ? MPI_File_iwrite##name(__VA_ARGS__) : MPI_File_iread##name(__VA_ARGS__))
#define SPLIT(name)                                                                                           \
    (slot->writes ? MPI_File_write##name(file, slot->buffer, status)                                          \
                  : MPI_File_read##name(file, slot->buffer, status))

static const char *const methods[] = {
    /* These are over at once, */
    "at", "seek", "all_at", "all", "ordered", "shared",
    /* these by MPI_Wait, */
    "iat", "iseek", "iall_at", "iall", "ishared",
    /* and these by a call of their own. */
    "split_at", "split", "split_ordered",
};

static const char *method_of(const char *name) {
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        if (strcmp(methods[m], name) == 0) return methods[m];
    }
    failed(__FILE__, __LINE__, "there is no method %s", name);
}

static int start(struct slot *slot, MPI_Offset at, MPI_Status *status) {
    MPI_Datatype type = memory(slot->spacing);
    unsigned char *b = slot->buffer;
    int n = slot->length;
    MPI_Request *r = &slot->request;
    const char *method = slot->method;
#define IS(name) if (strcmp(method, name) == 0)
    if (strstr(method, "seek") != NULL || strcmp(method, "all") == 0 || strcmp(method, "iall") == 0 ||
        strcmp(method, "split") == 0)
        MPI_OK(MPI_File_seek(file, at, MPI_SEEK_SET));
    IS("at") return EITHER(_at, file, at, b, n, type, status);
    IS("seek") return EITHER(, file, b, n, type, status);
    IS("all_at") return EITHER(_at_all, file, at, b, n, type, status);
    IS("all") return EITHER(_all, file, b, n, type, status);
    IS("ordered") return EITHER(_ordered, file, b, n, type, status);
    IS("shared") return EITHER(_shared, file, b, n, type, status);
    IS("iat") return BEGUN(_at, file, at, b, n, type, r);
    IS("iseek") return BEGUN(, file, b, n, type, r);
    IS("iall_at") return BEGUN(_at_all, file, at, b, n, type, r);
    IS("iall") return BEGUN(_all, file, b, n, type, r);
    IS("ishared") return BEGUN(_shared, file, b, n, type, r);
    IS("split_at") return EITHER(_at_all_begin, file, at, b, n, type);
    IS("split") return EITHER(_all_begin, file, b, n, type);
    return EITHER(_ordered_begin, file, b, n, type);
#undef IS
}

static int finish(struct slot *slot, MPI_Status *status) {
    if (strcmp(slot->method, "split_at") == 0) return SPLIT(_at_all_end);
    if (strcmp(slot->method, "split") == 0) return SPLIT(_all_end);
    if (strcmp(slot->method, "split_ordered") == 0) return SPLIT(_ordered_end);
    return MPI_Wait(&slot->request, status);
}

static int takes_two_calls(const char *method) { return method[0] == 'i' || strncmp(method, "split", 5) == 0; }

/* What came of an access that is over. */
static void take(struct slot *slot, MPI_Status *status) {
    int count;
    MPI_OK(MPI_Get_count(status, memory(slot->spacing), &count));
    CHECK(count >= 0 && count <= slot->length, "%d bytes of %d", count, slot->length);
    if (slot->writes) {
        EQUAL(count, slot->length);
    } else {
        for (int i = 0; i < count; i++) {
            size_t at = (size_t)i * (size_t)slot->spacing;
            CHECK(slot->spacing == 1 || slot->buffer[at + 1] == SILENCE, "a gap behind byte %d has changed", i);
            slot->buffer[i] = slot->buffer[at];
        }
        tell(slot->line, 0, slot->buffer, (uint64_t)count);
    }
    free(slot->buffer);
    slot->is_used = 0;
}

void begin_access(int writes, const char *text, uint64_t line) {
    char name[32];
    long long at;
    int length, spacing, number;
    unsigned tag = 0;
    int words = sscanf(text, "%31s %lld %d %d %d %u", name, &at, &length, &spacing, &number, &tag);
    CHECK(words == (writes ? 6 : 5) && number >= 0 && number < SLOTS, "an access has not so many words");
    struct slot *slot = &slots[number];
    CHECK(!slot->is_used, "slot %d is used", number);
    size_t room = (size_t)length * (size_t)spacing + 1;
    *slot = (struct slot){method_of(name), 1, writes, length, spacing, line, malloc(room), MPI_REQUEST_NULL};
    CHECK(slot->buffer != NULL, "no memory");
    memset(slot->buffer, SILENCE, room);
    if (writes) fill(slot, at, tag);
    MPI_Status status;
    MPI_OK(start(slot, at, &status));
    if (!takes_two_calls(slot->method)) take(slot, &status);
}

void end_access(int number) {
    CHECK(number >= 0 && number < SLOTS && slots[number].is_used, "slot %d is not used", number);
    MPI_Status status;
    MPI_OK(finish(&slots[number], &status));
    take(&slots[number], &status);
}
