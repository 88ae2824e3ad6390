/* Views of blocks of bytes at equal distances, by several kinds of datatypes. */
#include "parts.h"

static struct {
    MPI_Offset from, block, stride;
} view = {0, 1, 1};

void forget_view(void) {
    view.from = 0;
    view.block = view.stride = 1;
}

MPI_Offset place_of(MPI_Offset at) { return view.from + at / view.block * view.stride + at % view.block; }

/* Four blocks to a tile, the file's bytes being a matrix of which these are some columns. */
static MPI_Datatype columns(int block, int stride) {
    MPI_Datatype type;
    int whole[2] = {4, stride}, part[2] = {4, block}, from[2] = {0, 0};
    MPI_Type_create_subarray(2, whole, part, from, MPI_ORDER_C, MPI_BYTE, &type);
    return type;
}

/* Three blocks to a tile. */
static MPI_Datatype vector(int block, int stride) {
    MPI_Datatype blocks, type;
    MPI_Type_vector(3, block, stride, MPI_BYTE, &blocks);
    MPI_Type_create_resized(blocks, 0, 3 * (MPI_Aint)stride, &type);
    MPI_Type_free(&blocks);
    return type;
}

/* A block and then a gap. */
static MPI_Datatype resized(int block, int stride) {
    MPI_Datatype blocks, type;
    MPI_Type_contiguous(block, MPI_BYTE, &blocks);
    MPI_Type_create_resized(blocks, 0, stride, &type);
    MPI_Type_free(&blocks);
    return type;
}

void set_view(const char *text) {
    long long from, block, stride;
    char kind[16];
    CHECK(sscanf(text, "%lld %15s %lld %lld", &from, kind, &block, &stride) == 4, "a view is four words");
    MPI_Datatype type = strcmp(kind, "columns") == 0  ? columns((int)block, (int)stride)
                        : strcmp(kind, "vector") == 0 ? vector((int)block, (int)stride)
                                                      : resized((int)block, (int)stride);
    if (strcmp(kind, "bytes") == 0) {
        MPI_OK(MPI_File_set_view(file, from, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    } else {
        MPI_Type_commit(&type);
        MPI_OK(MPI_File_set_view(file, from, MPI_BYTE, type, "native", MPI_INFO_NULL));
    }
    MPI_Type_free(&type);
    view.from = from;
    view.block = block;
    view.stride = stride;
}
