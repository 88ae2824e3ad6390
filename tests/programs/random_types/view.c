#include "methods.h"
#include "opinion.h"

#include "view.h"

static const struct leaf basic[] = {
    {"MPI_BYTE", MPI_BYTE, 1, {{0, 1}}}, {"MPI_SHORT", MPI_SHORT, 1, {{0, 2}}},
    {"MPI_INT", MPI_INT, 1, {{0, 4}}},   {"MPI_DOUBLE", MPI_DOUBLE, 1, {{0, 8}}},
};

struct etype random_etype(struct random *random) {
    struct etype etype = {.leaf = basic[between(random, 0, 3)]};
    if (between(random, 1, 3) == 1) etype.leaf = basic[0];
    etype.is_derived = between(random, 1, 4) == 1;
    if (etype.is_derived) {
        static const char *const names[] = {"", "", "contiguous(2; ...)", "contiguous(3; ...)"};
        int count = between(random, 2, 3);
        MPI_OK(MPI_Type_contiguous(count, etype.leaf.handle, &etype.leaf.handle));
        MPI_OK(MPI_Type_commit(&etype.leaf.handle));
        etype.leaf.run[0].length *= count;
        etype.leaf.name = names[count];
    }
    return etype;
}

void discard_etype(struct etype *etype) {
    if (etype->is_derived) MPI_OK(MPI_Type_free(&etype->leaf.handle));
}

struct wish wish_of(const struct etype *etype, struct random *random) {
    static const int sizes[] = {1, 10, 100, 1000, 4000};
    struct wish wish = {.random = random, .leaf = &etype->leaf, .is_monotonic = 1};
    wish.unit = etype->leaf.run[0].length;
    wish.leaves = sizes[between(random, 0, 4)];
    wish.depth = between(random, 1, 5);
    return wish;
}

struct view view_of(struct etype etype, struct type *type, MPI_Offset displacement, long tiles) {
    struct view view = {.etype = etype, .type = type, .displacement = displacement, .tiles = tiles};
    commit(type);
    view.bytes = tiles * type->size;
    view.stream = calloc(1, (size_t)view.bytes + 1);
    view.is_written = calloc(1, (size_t)view.bytes + 1);
    view.map = map_of(type, tiles, (MPI_Aint)displacement);
    HOLDS(!overlaps(&view.map));
    struct map tile = map_of(type, 1, 0);
    for (long r = 0; r < tile.count; r++) HOLDS(tile.runs[r].at >= (r > 0 ? tile.runs[r - 1].at : 0));
    free(tile.runs);
    return view;
}

void discard_view(struct view *view) {
    discard(view->type);
    discard_etype(&view->etype);
    free(view->stream);
    free(view->is_written);
    free(view->map.runs);
}

void set_view(MPI_File file, struct view *view) {
    MPI_Datatype twin;
    MPI_OK(MPI_Type_dup(view->type->handle, &twin));
    MPI_OK(MPI_File_set_view(file, view->displacement, view->etype.leaf.handle, view->type->handle, "native",
                             MPI_INFO_NULL));
    if (view->type->kind != LEAF) {
        free_handle(view->type);
        view->type->handle = twin;
    } else {
        MPI_Type_free(&twin);
    }
}

void set_plain_view(MPI_File file) {
    MPI_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
}

struct operand operand_for(const struct view *view, struct random *random, MPI_Aint most, int is_apart) {
    struct wish wish = wish_of(&view->etype, random);
    wish.is_monotonic = 0;
    /* Bytes have no alignment, in memory. */
    wish.unit = 1;
    struct operand operand = random_operand(&wish, most, is_apart);
    return !is_tame && between(random, 1, 8) == 1 && operand.map.bytes > 0 ? absolute(operand) : operand;
}

/* A random etype from which on there are `bytes` before `to`, as a number of bytes. */
static MPI_Aint place_for(const struct view *view, struct random *random, MPI_Aint bytes, MPI_Aint from, MPI_Aint to) {
    MPI_Aint etype = view->etype.leaf.run[0].length;
    return from + between(random, 0, (int)((to - from - bytes) / etype)) * etype;
}

void write_within(MPI_File file, const struct method *method, struct view *view, struct random *random,
                  MPI_Aint from, MPI_Aint to) {
    struct operand operand = operand_for(view, random, to - from, 0);
    MPI_Aint bytes = operand.map.bytes, at = place_for(view, random, bytes, from, to);
    watch("memory type of a write", operand.type);
    fill(&operand, (uint64_t)between(random, 1, 1000000));
    unsigned char *data = packed(&operand);
    tell_access(method->name, bytes, at);
    MPI_Status status;
    int count;
    MPI_OK(method->write(file, at / view->etype.leaf.run[0].length, operand.buffer, operand.count,
                         operand.type->handle, &status));
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK(count == bytes, "%s: %d bytes instead of %ld", method->name, count, (long)bytes);
    memcpy(view->stream + at, data, (size_t)bytes);
    memset(view->is_written + at, 1, (size_t)bytes);
    if (bytes > 0 && at + bytes > view->written) view->written = at + bytes;
    free(data);
    discard_operand(&operand);
    watch_nothing();
    watch("file type", view->type);
}

void read_within(MPI_File file, const struct method *method, const struct view *view, struct random *random) {
    struct operand operand = operand_for(view, random, view->written, 1);
    MPI_Aint bytes = operand.map.bytes, at = place_for(view, random, bytes, 0, view->written);
    watch("memory type of a read", operand.type);
    fill(&operand, 77);
    tell_access(method->name, bytes, at);
    MPI_Status status;
    int count;
    MPI_OK(method->read(file, at / view->etype.leaf.run[0].length, operand.buffer, operand.count,
                        operand.type->handle, &status));
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK(count == bytes, "%s: %d bytes instead of %ld", method->name, count, (long)bytes);
    check_memory(&operand, 77, view->stream + at, bytes);
    discard_operand(&operand);
    watch_nothing();
    watch("file type", view->type);
}

MPI_Offset end_of_view(const struct view *view) { return view->map.high; }

MPI_Offset end_of_written(const struct view *view) {
    MPI_Offset end = 0;
    MPI_Aint before = 0;
    for (long r = 0; r < view->map.count; r++) {
        struct run run = view->map.runs[r];
        for (MPI_Aint i = run.length; i > 0; i--) {
            if (!view->is_written[before + i - 1]) continue;
            if (run.at + i > end) end = run.at + i;
            break;
        }
        before += run.length;
    }
    return end;
}

unsigned char *image_of(const struct view *view, MPI_Offset size) {
    MPI_Offset end = end_of_view(view);
    size_t room = (size_t)(size > end ? size : end) + 1;
    unsigned char *image = calloc(1, room), *by_mpi = calloc(1, room);
    HOLDS(image != NULL && by_mpi != NULL);
    scatter(&view->map, image, view->stream, view->bytes);
    ask_for_unpacking(view->type, view->stream, view->bytes, by_mpi + view->displacement, (int)view->tiles,
                      view->type->handle, by_mpi, image, end);
    free(by_mpi);
    return image;
}

void check_file(MPI_File file, const unsigned char *image, MPI_Offset size) {
    MPI_Offset found_size;
    MPI_OK(MPI_File_get_size(file, &found_size));
    EQUAL(found_size, size);
    unsigned char *found = malloc((size_t)size + 1);
    MPI_OK(MPI_File_read_at(file, 0, found, (int)size, MPI_BYTE, MPI_STATUS_IGNORE));
    check_bytes("the file", found, image, (MPI_Aint)size, 0);
    free(found);
}
