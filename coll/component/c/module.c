/* A communicator's module: its functions, and what it keeps of the component below. */

#include "coll_svmio.h"

#include "ompi/datatype/ompi_datatype.h"

/* svmio does a collective, or the component below. */
#define DEFINE_COLLECTIVE(name, parameters, arguments)                                                               \
    static int svmio_##name(COLL_SVMIO_OPEN parameters, mca_coll_base_module_t *module)                              \
    {                                                                                                                \
        const struct svmio_taken taken = svmio_coll_##name arguments;                                                \
        if (taken.is_done) {                                                                                         \
            return taken.code;                                                                                       \
        }                                                                                                            \
        const struct coll_svmio_below *below = &((coll_svmio_module_t *) module)->below;                             \
        return below->name(COLL_SVMIO_OPEN arguments, below->name##_module);                                         \
    }
COLL_SVMIO_ALL(DEFINE_COLLECTIVE)

/* By these three, and no others that do not block, Open MPI agrees on numbers of new communicators, as a part of making
 * progress: by the first where the communicator that they are made of is one of a single group, by the other two within
 * each of two groups. So it does in the midst of a collective of the same communicator that svmio waits in. All members
 * leave them to the component below: a reduction has the same arguments everywhere, a broadcast the same bytes. */
static bool is_of_communicators(int count, datatype_t datatype, op_t op)
{
    return 1 == count && MPI_INT == datatype && (MPI_MAX == op || MPI_MIN == op);
}

static bool has_bytes_of_one_int(int count, datatype_t datatype)
{
    size_t size = 0;
    ompi_datatype_type_size(datatype, &size);
    return count > 0 && (size_t) count * size == sizeof(int);
}

static int iallreduce(const void *send, void *receive, int count, datatype_t datatype, op_t op, comm_t comm,
                      ompi_request_t **request, mca_coll_base_module_t *module)
{
    const struct coll_svmio_below *below = &((coll_svmio_module_t *) module)->below;
    if (is_of_communicators(count, datatype, op)) {
        return below->iallreduce(send, receive, count, datatype, op, comm, request, below->iallreduce_module);
    }
    return svmio_iallreduce(send, receive, count, datatype, op, comm, request, module);
}

static int ireduce(const void *send, void *receive, int count, datatype_t datatype, op_t op, int root, comm_t comm,
                   ompi_request_t **request, mca_coll_base_module_t *module)
{
    const struct coll_svmio_below *below = &((coll_svmio_module_t *) module)->below;
    if (is_of_communicators(count, datatype, op)) {
        return below->ireduce(send, receive, count, datatype, op, root, comm, request, below->ireduce_module);
    }
    return svmio_ireduce(send, receive, count, datatype, op, root, comm, request, module);
}

static int ibcast(void *buffer, int count, datatype_t datatype, int root, comm_t comm, ompi_request_t **request,
                  mca_coll_base_module_t *module)
{
    const struct coll_svmio_below *below = &((coll_svmio_module_t *) module)->below;
    if (has_bytes_of_one_int(count, datatype)) {
        return below->ibcast(buffer, count, datatype, root, comm, request, below->ibcast_module);
    }
    return svmio_ibcast(buffer, count, datatype, root, comm, request, module);
}

/* Keeps what the component below does. Modules of lower priorities are enabled first, so their functions are those of
 * the communicator at this time. */
static int enable(mca_coll_base_module_t *module, comm_t comm)
{
    struct coll_svmio_below *below = &((coll_svmio_module_t *) module)->below;
#define KEEP_BELOW(name, parameters, arguments)                                                                      \
    if (NULL == comm->c_coll->coll_##name) {                                                                         \
        /* Without anything to fall back to, svmio's function could not leave a call alone. */                       \
        module->coll_##name = NULL;                                                                                  \
    } else if (NULL != module->coll_##name) {                                                                        \
        below->name = comm->c_coll->coll_##name;                                                                     \
        below->name##_module = comm->c_coll->coll_##name##_module;                                                   \
        OBJ_RETAIN(below->name##_module);                                                                            \
    }
    COLL_SVMIO_ALL(KEEP_BELOW)
    ((coll_svmio_module_t *) module)->comm = comm;
    if (&ompi_mpi_comm_world.comm == comm) {
        coll_svmio_watch_end();
    }
    return OMPI_SUCCESS;
}

mca_coll_base_module_t *coll_svmio_module_new(void)
{
    coll_svmio_module_t *module = OBJ_NEW(coll_svmio_module_t);
    if (NULL == module) {
        return NULL;
    }
    module->super.coll_module_enable = enable;
#define OFFER(name, parameters, arguments)                                                                           \
    module->super.coll_##name = coll_svmio_parameters.enable_##name ? svmio_##name : NULL;
    COLL_SVMIO_ALL(OFFER)
#define OFFER_ALL_BUT_NUMBERING(name)                                                                                \
    if (NULL != module->super.coll_##name) {                                                                         \
        module->super.coll_##name = name;                                                                            \
    }
    OFFER_ALL_BUT_NUMBERING(iallreduce)
    OFFER_ALL_BUT_NUMBERING(ireduce)
    OFFER_ALL_BUT_NUMBERING(ibcast)
    return &module->super;
}

static void construct(coll_svmio_module_t *module)
{
    module->comm = NULL;
    memset(&module->below, 0, sizeof(module->below));
}

/* The module goes with its communicator, after its attributes: these may do collectives when they go, and what svmio
 * keeps from then on has none that would tell it of the end. */
static void destruct(coll_svmio_module_t *module)
{
    if (NULL != module->comm) {
        svmio_coll_gone(module->comm);
    }
#define RELEASE(name, parameters, arguments)                                                                         \
    if (NULL != module->below.name##_module) {                                                                       \
        OBJ_RELEASE(module->below.name##_module);                                                                    \
    }
    COLL_SVMIO_ALL(RELEASE)
}

OBJ_CLASS_INSTANCE(coll_svmio_module_t, mca_coll_base_module_t, construct, destruct);
