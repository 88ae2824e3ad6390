/* Random writes through random views, read back by random methods. */
#include "methods.h"
#include "parts.h"

static const struct method *pick(struct random *common) {
    for (;;) {
        const struct method *method = &methods[between(common, 0, method_count - 1)];
        int is_nonblocking = method->name[0] == 'i';
        if (nonblocking_collectives || !(is_nonblocking && method->is_collective)) return method;
    }
}

void write_random(MPI_File file, int seed) {
    enum { ACCESSES = 6, MOST = 400 };
    static MPI_Datatype const etypes[] = {MPI_BYTE, MPI_INT, MPI_DOUBLE};
    /* What all ranks choose together, what each chooses for itself, and how; that may depend on who keeps the file. */
    struct random common = {(uint64_t)seed * 1000003}, own = {(uint64_t)seed * 777 + (uint64_t)rank + 1};
    struct random how = {(uint64_t)seed + 99};
    MPI_Datatype etype = etypes[between(&common, 0, 2)], filetype = random_filetype(&common, etype);
    int size;
    MPI_Type_size(etype, &size);
    MPI_OK(MPI_File_set_view(file, between(&common, 0, 300), etype, filetype, "native", MPI_INFO_NULL));

    /* Beyond the end ROMIO's data sieving would write garbage into holes. No access ends behind this one's place. */
    MPI_Offset end;
    MPI_OK(MPI_File_get_byte_offset(file, ACCESSES * (MOST + 50) + 10, &end));
    MPI_Allreduce(MPI_IN_PLACE, &end, 1, MPI_OFFSET, MPI_MAX, MPI_COMM_WORLD);
    MPI_OK(MPI_File_set_size(file, end));

    MPI_Offset starts[ACCESSES], at = between(&own, 0, 10);
    int counts[ACCESSES];
    unsigned char out[MOST * 8 * 8], in[MOST * 8 * 8];
    for (int a = 0; a < ACCESSES; a++) {
        starts[a] = at;
        counts[a] = between(&own, 0, MOST);
        int is_apart = between(&own, 0, 1), gap = between(&own, 0, 50);
        at += counts[a] + is_apart * gap;

        MPI_Aint extent;
        MPI_Datatype memory = random_memory(&own, etype, counts[a], &extent);
        CHECK((size_t)extent <= sizeof out, "a buffer of %ld bytes", (long)extent);
        fill(out, rank, 1000L * a, extent);
        /* Stock ROMIO 3.2 crashes with a type that holds nothing, so of that there is none. */
        MPI_OK(pick(&how)->write(file, starts[a], out, counts[a] > 0, memory, MPI_STATUS_IGNORE));
        MPI_Type_free(&memory);
    }
    MPI_OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);

    /* What was written before must come back, packed. */
    own.state = (uint64_t)seed * 777 + (uint64_t)rank + 1;
    between(&own, 0, 10);
    for (int a = 0; a < ACCESSES; a++) {
        between(&own, 0, MOST);
        between(&own, 0, 1);
        between(&own, 0, 50);
        MPI_Aint extent;
        MPI_Datatype memory = random_memory(&own, etype, counts[a], &extent);
        fill(out, rank, 1000L * a, extent);
        unsigned char packed[sizeof out];
        int position = 0, bytes = counts[a] * size;
        MPI_Pack(out, counts[a] > 0, memory, packed, sizeof packed, &position, MPI_COMM_SELF);
        EQUAL(position, bytes);
        const struct method *method = pick(&how);
        MPI_OK(method->read(file, starts[a], in, counts[a], etype, MPI_STATUS_IGNORE));
        for (int i = 0; i < bytes; i++) {
            CHECK(in[i] == packed[i], "%s: byte %d of access %d is %#x instead of %#x", method->name, i, a, in[i],
                  packed[i]);
        }
        MPI_Type_free(&memory);
    }
    MPI_Type_free(&filetype);
}
