/* Types of files that several ranks see their parts through, each its own. */
#include "deal.h"
#include "parts.h"
#include "view.h"

/* The view of rank `of`; `common` is left in the same state by all. */
static struct view view_for(struct random *common, int of) {
    for (;;) {
        struct random numbers = *common;
        int is_empty = 0;
        struct view view = {0};
        /* All ranks' types are made, so that all ranks know that none selects nothing. */
        for (int r = 0; r < ranks; r++) {
            numbers = *common;
            struct etype etype = random_etype(&numbers);
            struct wish wish = wish_of(&etype, &numbers);
            wish.leaves = wish.leaves / 20 + 1;
            wish.depth = between(&numbers, 0, 3);
            struct type *type = dealt(&wish, r);
            MPI_Offset displacement = between(&numbers, 0, 1000);
            long most = 1000000 / (type->extent + 1) + 1;
            long tiles = between(&numbers, 1, most < 6 ? (int)most : 6);
            is_empty |= type->size == 0;
            if (r == of) {
                view = view_of(etype, type, displacement, tiles);
            } else {
                discard(type);
                discard_etype(&etype);
            }
        }
        *common = numbers;
        if (!is_empty) return view;
        discard_view(&view);
    }
}

static MPI_Offset greatest(MPI_Offset mine) {
    MPI_OK(MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_OFFSET, MPI_MAX, MPI_COMM_WORLD));
    return mine;
}

/* Many writes under way at once, whose types are gone before they are done. */
static void write_at_once(MPI_File file, struct view *view, struct random *own, int accesses, int is_collective) {
    enum { MOST = 8 };
    MPI_Request requests[MOST];
    struct operand operands[MOST];
    MPI_Aint etype = view->etype.leaf.run[0].length, share = view->bytes / etype / accesses * etype;
    for (int a = 0; a < accesses; a++) {
        struct operand *operand = &operands[a];
        *operand = operand_for(view, own, share, 0);
        watch("memory type of a write", operand->type);
        fill(operand, (uint64_t)between(own, 1, 1000000));
        unsigned char *data = packed(operand);
        MPI_Aint at = a * share, bytes = operand->map.bytes;
        MPI_OK((is_collective ? MPI_File_iwrite_at_all : MPI_File_iwrite_at)(
            file, at / etype, operand->buffer, operand->count, operand->type->handle, &requests[a]));
        free_handle(operand->type);
        memcpy(view->stream + at, data, (size_t)bytes);
        memset(view->is_written + at, 1, (size_t)bytes);
        if (bytes > 0) view->written = at + bytes;
        free(data);
    }
    MPI_OK(MPI_Waitall(accesses, requests, MPI_STATUSES_IGNORE));
    for (int a = 0; a < accesses; a++) discard_operand(&operands[a]);
    watch_nothing();
    watch("file type", view->type);
}

static void write_all(MPI_File file, struct view *view, struct random *common, struct random *own) {
    int accesses = between(common, 1, 6), is_at_once = between(common, 1, 4) == 1, is_collective = between(common, 0, 1);
    if (is_at_once) {
        write_at_once(file, view, own, accesses, is_collective && !lacks_nonblocking_collectives);
        return;
    }
    for (; accesses > 0; accesses--) {
        write_within(file, any_method(common), view, own, 0, view->bytes);
    }
}

/* One rank sees all, as bytes. */
static void check_bytes_of_all(MPI_File file, const struct view *view, int reader, MPI_Offset size) {
    unsigned char *mine = image_of(view, size), *all = malloc((size_t)size + 1);
    MPI_OK(MPI_Reduce(mine, all, (int)size, MPI_BYTE, MPI_BOR, reader, MPI_COMM_WORLD));
    set_plain_view(file);
    if (rank == reader) check_file(file, all, size);
    free(mine);
    free(all);
}

/* What the next rank has written. */
static struct view neighbours(struct random *common, const struct view *own) {
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    struct view view = view_for(common, next);
    MPI_OK(MPI_Sendrecv(&own->written, 1, MPI_AINT, before, 0, &view.written, 1, MPI_AINT, next, 0, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE));
    MPI_OK(MPI_Sendrecv(own->stream, (int)own->bytes, MPI_BYTE, before, 0, view.stream, (int)view.bytes, MPI_BYTE,
                        next, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    return view;
}

void check_together(const char *name, uint64_t seed) {
    struct random common = {seed * 1000003 + 41}, own = {seed * 1000003 + 4242 + (uint64_t)rank * 77777};
    MPI_File file = open_new(MPI_COMM_WORLD, name, &common);
    struct random of_views = common;
    struct view view = view_for(&common, rank);
    watch("file type", view.type);
    if (is_extended) MPI_OK(MPI_File_set_size(file, greatest(end_of_view(&view))));
    set_view(file, &view);
    write_all(file, &view, &common, &own);
    MPI_OK(MPI_File_sync(file));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_File_sync(file));
    MPI_Offset size = greatest(is_extended ? end_of_view(&view) : end_of_written(&view));
    check_bytes_of_all(file, &view, (int)(seed % (uint64_t)ranks), size);

    struct view next = neighbours(&of_views, &view);
    discard_view(&view);
    watch_nothing();
    watch("file type of the next rank", next.type);
    set_view(file, &next);
    for (int left = between(&common, 1, 4); left > 0; left--) read_within(file, any_method(&common), &next, &own);
    MPI_OK(MPI_File_close(&file));
    discard_view(&next);
}
