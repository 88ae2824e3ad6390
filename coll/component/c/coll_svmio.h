/* svmio's component of Open MPI's coll framework.
 *
 *   component.c   what Open MPI asks once: the parameters, and for which communicators there is a module
 *   module.c      a communicator's functions: each asks svmio first, then the component below
 *   ../src        svmio's side, in Rust
 *
 * Made for Open MPI 4.1: the framework's structures are those of its ompi/mca/coll/coll.h, where components have
 * version 2.0.0 and modules 2.3.0. */

#ifndef COLL_SVMIO_H
#define COLL_SVMIO_H

#include "ompi_config.h"

#include "ompi/communicator/communicator.h"
#include "ompi/mca/coll/base/base.h"
#include "ompi/mca/coll/coll.h"

typedef struct ompi_communicator_t *comm_t;
typedef struct ompi_datatype_t *datatype_t;
typedef struct ompi_op_t *op_t;

/* The blocking collectives: name, parameters, arguments, as MPI has them. */
#define COLL_SVMIO_ALL(X)                                                                                            \
    X(allgather,                                                                                                     \
      (const void *send, int send_count, datatype_t send_type, void *receive, int receive_count,                     \
       datatype_t receive_type, comm_t comm),                                                                        \
      (send, send_count, send_type, receive, receive_count, receive_type, comm))                                     \
    X(allgatherv,                                                                                                    \
      (const void *send, int send_count, datatype_t send_type, void *receive, const int *receive_counts,             \
       const int *places, datatype_t receive_type, comm_t comm),                                                     \
      (send, send_count, send_type, receive, receive_counts, places, receive_type, comm))                            \
    X(allreduce,                                                                                                     \
      (const void *send, void *receive, int count, datatype_t datatype, op_t op, comm_t comm),                       \
      (send, receive, count, datatype, op, comm))                                                                    \
    X(alltoall,                                                                                                      \
      (const void *send, int send_count, datatype_t send_type, void *receive, int receive_count,                     \
       datatype_t receive_type, comm_t comm),                                                                        \
      (send, send_count, send_type, receive, receive_count, receive_type, comm))                                     \
    X(alltoallv,                                                                                                     \
      (const void *send, const int *send_counts, const int *send_places, datatype_t send_type, void *receive,        \
       const int *receive_counts, const int *receive_places, datatype_t receive_type, comm_t comm),                  \
      (send, send_counts, send_places, send_type, receive, receive_counts, receive_places, receive_type, comm))      \
    X(alltoallw,                                                                                                     \
      (const void *send, const int *send_counts, const int *send_places, datatype_t const *send_types,               \
       void *receive, const int *receive_counts, const int *receive_places, datatype_t const *receive_types,         \
       comm_t comm),                                                                                                 \
      (send, send_counts, send_places, send_types, receive, receive_counts, receive_places, receive_types, comm))    \
    X(barrier,                                                                                                       \
      (comm_t comm),                                                                                                 \
      (comm))                                                                                                        \
    X(bcast,                                                                                                         \
      (void *buffer, int count, datatype_t datatype, int root, comm_t comm),                                         \
      (buffer, count, datatype, root, comm))                                                                         \
    X(exscan,                                                                                                        \
      (const void *send, void *receive, int count, datatype_t datatype, op_t op, comm_t comm),                       \
      (send, receive, count, datatype, op, comm))                                                                    \
    X(gather,                                                                                                        \
      (const void *send, int send_count, datatype_t send_type, void *receive, int receive_count,                     \
       datatype_t receive_type, int root, comm_t comm),                                                              \
      (send, send_count, send_type, receive, receive_count, receive_type, root, comm))                               \
    X(gatherv,                                                                                                       \
      (const void *send, int send_count, datatype_t send_type, void *receive, const int *receive_counts,             \
       const int *places, datatype_t receive_type, int root, comm_t comm),                                           \
      (send, send_count, send_type, receive, receive_counts, places, receive_type, root, comm))                      \
    X(reduce,                                                                                                        \
      (const void *send, void *receive, int count, datatype_t datatype, op_t op, int root, comm_t comm),             \
      (send, receive, count, datatype, op, root, comm))                                                              \
    X(reduce_scatter,                                                                                                \
      (const void *send, void *receive, const int *counts, datatype_t datatype, op_t op, comm_t comm),               \
      (send, receive, counts, datatype, op, comm))                                                                   \
    X(reduce_scatter_block,                                                                                          \
      (const void *send, void *receive, int count, datatype_t datatype, op_t op, comm_t comm),                       \
      (send, receive, count, datatype, op, comm))                                                                    \
    X(scan,                                                                                                          \
      (const void *send, void *receive, int count, datatype_t datatype, op_t op, comm_t comm),                       \
      (send, receive, count, datatype, op, comm))                                                                    \
    X(scatter,                                                                                                       \
      (const void *send, int send_count, datatype_t send_type, void *receive, int receive_count,                     \
       datatype_t receive_type, int root, comm_t comm),                                                              \
      (send, send_count, send_type, receive, receive_count, receive_type, root, comm))                               \
    X(scatterv,                                                                                                      \
      (const void *send, const int *send_counts, const int *places, datatype_t send_type, void *receive,             \
       int receive_count, datatype_t receive_type, int root, comm_t comm),                                           \
      (send, send_counts, places, send_type, receive, receive_count, receive_type, root, comm))

#define COLL_SVMIO_OPEN(...) __VA_ARGS__

/* svmio's answer to a call. */
struct svmio_taken {
    /* Whether it is done; if not, nothing was done. */
    int is_done;
    /* The error code of a call that is done. */
    int code;
};

/* svmio's functions, in Rust: one to be called before all others, and svmio_coll_allgather and so on. */
void svmio_coll_open(void);
#define COLL_SVMIO_DECLARE(name, parameters, arguments) struct svmio_taken svmio_coll_##name parameters;
COLL_SVMIO_ALL(COLL_SVMIO_DECLARE)

/* What the component below does for a communicator: functions, and the modules they belong to. */
struct coll_svmio_below {
#define COLL_SVMIO_KEEP(name, parameters, arguments)                                                                 \
    mca_coll_base_module_##name##_fn_t name;                                                                         \
    mca_coll_base_module_t *name##_module;
    COLL_SVMIO_ALL(COLL_SVMIO_KEEP)
};

/* A communicator's module. */
typedef struct coll_svmio_module_t {
    mca_coll_base_module_t super;
    struct coll_svmio_below below;
} coll_svmio_module_t;

OBJ_CLASS_DECLARATION(coll_svmio_module_t);

/* The component's parameters. */
struct coll_svmio_parameters {
    int priority;
#define COLL_SVMIO_SWITCH(name, parameters, arguments) bool enable_##name;
    COLL_SVMIO_ALL(COLL_SVMIO_SWITCH)
};

extern struct coll_svmio_parameters coll_svmio_parameters;

/* For svmio: whether MPI can say how a datatype was made. Those that Open MPI makes for itself lack that. */
int coll_svmio_is_described(datatype_t datatype);

/* A module with no functions below yet, for a communicator that svmio can serve. */
mca_coll_base_module_t *coll_svmio_module_new(void);

#endif
