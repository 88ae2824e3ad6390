/* Types of files, seen by one rank. */
#include "parts.h"
#include "view.h"

/* Few enough tiles, so that an image of them is not too large. */
static long tiles_of(const struct type *type, struct random *random) {
    long most = 4000000 / (type->extent + type->high + 1) + 1;
    return between(random, 1, most < 6 ? (int)most : 6);
}

static struct view random_view(struct random *random, int is_huge) {
    struct etype etype = random_etype(random);
    struct wish wish = wish_of(&etype, random);
    struct type *type = is_huge ? random_huge_type(&wish) : random_file_type(&wish);
    return view_of(etype, type, between(random, 0, 1000), tiles_of(type, random));
}

/* One that spans more than its extent: a comb, whose next tooth begins beside the first. */
static struct view interlaced_view(struct random *random) {
    struct etype etype = random_etype(random);
    struct wish wish = wish_of(&etype, random);
    wish.leaves = wish.leaves / 100 + 1;
    struct type *part = random_file_type(&wish);
    int tiles = between(random, 2, 6), teeth = between(random, 2, 20);
    MPI_Aint width = part->high - part->low;
    if (part->extent > width) width = part->extent;
    struct type comb = blocks_of(HVECTOR, part, teeth);
    comb.lengths[0] = 1;
    comb.places[0] = width * tiles;
    return view_of(etype, resized(make(comb), 0, width), between(random, 0, 1000), tiles);
}

/* Where tiles reach into each other, what was written does not tell up to where the view can be read. */
static int extends(const struct view *view) {
    return is_extended || view->type->extent < view->type->high - view->type->low;
}

static void write_all(MPI_File file, struct view *view, struct random *random) {
    watch("file type", view->type);
    if (extends(view)) MPI_OK(MPI_File_set_size(file, end_of_view(view)));
    set_view(file, view);
    for (int left = between(random, 1, 6); left > 0; left--) {
        write_within(file, any_method(random), view, random, 0, view->bytes);
    }
}

static void check(const char *name, struct random *random, struct view view) {
    MPI_File file = open_new(MPI_COMM_SELF, name, random);
    write_all(file, &view, random);
    MPI_Offset size = extends(&view) ? end_of_view(&view) : end_of_written(&view);
    unsigned char *image = image_of(&view, size);
    set_plain_view(file);
    check_file(file, image, size);
    set_view(file, &view);
    for (int left = between(random, 1, 4); left > 0; left--) read_within(file, any_method(random), &view, random);
    MPI_OK(MPI_File_close(&file));
    discard_view(&view);
    free(image);
}

void check_file_side(const char *name, uint64_t seed) {
    struct random random = {seed * 1000003 + 99};
    check(name, &random, random_view(&random, seed % 64 == 63));
}

void check_interlaced(const char *name, uint64_t seed) {
    struct random random = {seed * 1000003 + 7};
    check(name, &random, interlaced_view(&random));
}

void check_ends(const char *name, uint64_t seed) {
    struct random random = {seed * 1000003 + 3};
    struct view view = random_view(&random, 0);
    MPI_File file = open_new(MPI_COMM_SELF, name, &random);
    /* In atomic mode ROMIO itself tells of all that was asked for, of nonblocking accesses in a row. */
    MPI_OK(MPI_File_set_atomicity(file, 0));
    write_all(file, &view, &random);
    MPI_Offset end = end_of_view(&view), size = between(&random, 0, (int)end);
    MPI_OK(MPI_File_set_size(file, size));
    MPI_Aint there = 0;
    for (long r = 0; r < view.map.count; r++) {
        MPI_Offset left = size - view.map.runs[r].at;
        if (left > 0) there += left < view.map.runs[r].length ? (MPI_Aint)left : view.map.runs[r].length;
    }
    for (int left = 4; left > 0; left--) {
        struct operand operand = operand_for(&view, &random, view.bytes, 1);
        MPI_Aint etype = view.etype.leaf.run[0].length;
        MPI_Aint at = between(&random, 0, (int)((view.bytes - operand.map.bytes) / etype)) * etype, expected = there - at;
        if (expected < 0) expected = 0;
        if (expected > operand.map.bytes) expected = operand.map.bytes;
        watch("memory type of a read", operand.type);
        fill(&operand, 5);
        const struct method *method = any_method(&random);
        tell_access(method->name, operand.map.bytes, at);
        MPI_Status status;
        int count;
        MPI_OK(method->read(file, at / etype, operand.buffer, operand.count, operand.type->handle, &status));
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK(count == expected, "%s: %d bytes of %ld instead of %ld", method->name, count, (long)operand.map.bytes,
              (long)expected);
        check_memory(&operand, 5, view.stream + at, expected);
        discard_operand(&operand);
    }
    MPI_OK(MPI_File_close(&file));
    discard_view(&view);
}

void check_far(const char *name, uint64_t seed) {
    struct random random = {seed * 1000003 + 21};
    MPI_Offset displacement = between(&random, 0, 1000);
    struct wish wish = {.random = &random, .unit = 1, .is_monotonic = 1, .leaves = 30, .depth = 3};
    struct type far = blocks_of(HVECTOR, random_file_type(&wish), between(&random, 2, 5));
    far.lengths[0] = 1;
    far.places[0] = (3LL << 30) + between(&random, 0, 10000);
    struct etype etype = {.leaf = byte_leaf};
    struct view view = view_of(etype, make(far), displacement, 2);
    MPI_File file;
    int mode = MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
    MPI_OK(MPI_File_open(MPI_COMM_SELF, name, mode, MPI_INFO_NULL, &file));
    write_all(file, &view, &random);
    for (int left = 2; left > 0; left--) read_within(file, any_method(&random), &view, &random);
    set_plain_view(file);
    MPI_Offset size;
    MPI_OK(MPI_File_get_size(file, &size));
    EQUAL(size, extends(&view) ? end_of_view(&view) : end_of_written(&view));
    unsigned char *found = calloc(1, (size_t)view.bytes), *to = found;
    for (long r = 0; r < view.map.count; r++) {
        struct run run = view.map.runs[r];
        if (run.at < size) MPI_OK(MPI_File_read_at(file, run.at, to, (int)run.length, MPI_BYTE, MPI_STATUS_IGNORE));
        to += run.length;
    }
    check_bytes("the view's bytes", found, view.stream, view.bytes, 0);
    free(found);
    MPI_OK(MPI_File_close(&file));
    discard_view(&view);
}
