/* Types of memory; the file is a row of bytes. */
#include "parts.h"

static void write_and_compare(MPI_File file, const struct method *method, MPI_Offset at, const struct operand *operand,
                              MPI_Datatype handle) {
    MPI_Aint bytes = operand->map.bytes;
    unsigned char *expected = packed(operand), *found = malloc((size_t)bytes + 1);
    MPI_Status status;
    int count;
    tell_access(method->name, bytes, at);
    MPI_OK(method->write(file, at, operand->buffer, operand->count, handle, &status));
    MPI_Get_count(&status, MPI_BYTE, &count);
    EQUAL(count, bytes);
    MPI_OK(MPI_File_read_at(file, at, found, (int)bytes, MPI_BYTE, &status));
    MPI_Get_count(&status, MPI_BYTE, &count);
    EQUAL(count, bytes);
    check_bytes(method->name, found, expected, bytes, at);
    free(expected);
    free(found);
}

static void read_and_compare(MPI_File file, const struct method *method, MPI_Offset at, const struct operand *operand) {
    MPI_Aint bytes = operand->map.bytes;
    unsigned char *data = malloc((size_t)bytes + 1);
    MPI_Status status;
    int count;
    MPI_OK(MPI_File_read_at(file, at, data, (int)bytes, MPI_BYTE, MPI_STATUS_IGNORE));
    fill(operand, 1000);
    tell_access(method->name, bytes, at);
    MPI_OK(method->read(file, at, operand->buffer, operand->count, operand->type->handle, &status));
    MPI_Get_count(&status, MPI_BYTE, &count);
    EQUAL(count, bytes);
    check_memory(operand, 1000, data, bytes);
    free(data);
}

void check_memory_side(const char *name, uint64_t seed) {
    struct random random = {seed * 1000003 + 17};
    MPI_File file = open_new(MPI_COMM_SELF, name, &random);
    static const int sizes[] = {1, 10, 100, 1000, 8000};
    struct wish wish = {.random = &random, .unit = 1, .leaves = sizes[between(&random, 0, 4)]};
    wish.depth = between(&random, 1, 5);
    int is_huge = seed % 64 == 63;
    struct operand operand = is_huge ? operand_of(random_huge_type(&wish), between(&random, 1, 2))
                                     : random_operand(&wish, 1 << 20, between(&random, 0, 1));
    if (!is_tame && between(&random, 1, 6) == 1 && operand.map.bytes > 0) operand = absolute(operand);
    watch("memory type", operand.type);

    MPI_Offset at = between(&random, 0, 5000);
    fill(&operand, seed);
    write_and_compare(file, any_method(&random), at, &operand, operand.type->handle);
    if (!overlaps(&operand.map)) read_and_compare(file, any_method(&random), at, &operand);

    /* Its duplicate is the same type, also when it is gone itself and others have got its handle. */
    MPI_Datatype twin, other;
    MPI_Aint bytes = operand.map.bytes;
    MPI_OK(MPI_Type_dup(operand.type->handle, &twin));
    free_handle(operand.type);
    MPI_OK(MPI_Type_vector(3, 1, 2, MPI_BYTE, &other));
    MPI_OK(MPI_Type_commit(&other));
    unsigned char six[6] = "a.b.c.", three[3];
    MPI_OK(MPI_File_write_at(file, at + bytes, six, 1, other, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_read_at(file, at + bytes, three, 3, MPI_BYTE, MPI_STATUS_IGNORE));
    check_bytes("a type with another's handle", three, (const unsigned char *)"abc", 3, at + bytes);
    operand.type->handle = twin;
    fill(&operand, seed + 1);
    write_and_compare(file, any_method(&random), at + 1, &operand, twin);
    MPI_Type_free(&other);
    MPI_Type_free(&operand.type->handle);
    discard_operand(&operand);
    MPI_OK(MPI_File_close(&file));
}
