/* svmio's component of Open MPI's coll framework.
 *
 *   component.c   what Open MPI asks once: the parameters, and for which communicators there is a module
 *   module.c      a communicator's functions: each asks svmio first, then the component below
 *   request.c     the requests of collectives that do not block
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
#include "ompi/request/request.h"

typedef struct ompi_communicator_t *comm_t;
typedef struct ompi_datatype_t *datatype_t;
typedef struct ompi_op_t *op_t;

/* The collectives that block, each by Y(X, name, parameters, arguments), as MPI has them. */
#define COLL_SVMIO_LIST(Y, X)                                                                                        \
    Y(X, allgather,                                                                                                  \
      (const void *send, int send_count, datatype_t send_type, void *receive, int receive_count,                     \
       datatype_t receive_type, comm_t comm),                                                                        \
      (send, send_count, send_type, receive, receive_count, receive_type, comm))                                     \
    Y(X, allgatherv,                                                                                                 \
      (const void *send, int send_count, datatype_t send_type, void *receive, const int *receive_counts,             \
       const int *places, datatype_t receive_type, comm_t comm),                                                     \
      (send, send_count, send_type, receive, receive_counts, places, receive_type, comm))                            \
    Y(X, allreduce,                                                                                                  \
      (const void *send, void *receive, int count, datatype_t datatype, op_t op, comm_t comm),                       \
      (send, receive, count, datatype, op, comm))                                                                    \
    Y(X, alltoall,                                                                                                   \
      (const void *send, int send_count, datatype_t send_type, void *receive, int receive_count,                     \
       datatype_t receive_type, comm_t comm),                                                                        \
      (send, send_count, send_type, receive, receive_count, receive_type, comm))                                     \
    Y(X, alltoallv,                                                                                                  \
      (const void *send, const int *send_counts, const int *send_places, datatype_t send_type, void *receive,        \
       const int *receive_counts, const int *receive_places, datatype_t receive_type, comm_t comm),                  \
      (send, send_counts, send_places, send_type, receive, receive_counts, receive_places, receive_type, comm))      \
    Y(X, alltoallw,                                                                                                  \
      (const void *send, const int *send_counts, const int *send_places, datatype_t const *send_types,               \
       void *receive, const int *receive_counts, const int *receive_places, datatype_t const *receive_types,         \
       comm_t comm),                                                                                                 \
      (send, send_counts, send_places, send_types, receive, receive_counts, receive_places, receive_types, comm))    \
    Y(X, barrier,                                                                                                    \
      (comm_t comm),                                                                                                 \
      (comm))                                                                                                        \
    Y(X, bcast,                                                                                                      \
      (void *buffer, int count, datatype_t datatype, int root, comm_t comm),                                         \
      (buffer, count, datatype, root, comm))                                                                         \
    Y(X, exscan,                                                                                                     \
      (const void *send, void *receive, int count, datatype_t datatype, op_t op, comm_t comm),                       \
      (send, receive, count, datatype, op, comm))                                                                    \
    Y(X, gather,                                                                                                     \
      (const void *send, int send_count, datatype_t send_type, void *receive, int receive_count,                     \
       datatype_t receive_type, int root, comm_t comm),                                                              \
      (send, send_count, send_type, receive, receive_count, receive_type, root, comm))                               \
    Y(X, gatherv,                                                                                                    \
      (const void *send, int send_count, datatype_t send_type, void *receive, const int *receive_counts,             \
       const int *places, datatype_t receive_type, int root, comm_t comm),                                           \
      (send, send_count, send_type, receive, receive_counts, places, receive_type, root, comm))                      \
    Y(X, reduce,                                                                                                     \
      (const void *send, void *receive, int count, datatype_t datatype, op_t op, int root, comm_t comm),             \
      (send, receive, count, datatype, op, root, comm))                                                              \
    Y(X, reduce_scatter,                                                                                             \
      (const void *send, void *receive, const int *counts, datatype_t datatype, op_t op, comm_t comm),               \
      (send, receive, counts, datatype, op, comm))                                                                   \
    Y(X, reduce_scatter_block,                                                                                       \
      (const void *send, void *receive, int count, datatype_t datatype, op_t op, comm_t comm),                       \
      (send, receive, count, datatype, op, comm))                                                                    \
    Y(X, scan,                                                                                                       \
      (const void *send, void *receive, int count, datatype_t datatype, op_t op, comm_t comm),                       \
      (send, receive, count, datatype, op, comm))                                                                    \
    Y(X, scatter,                                                                                                    \
      (const void *send, int send_count, datatype_t send_type, void *receive, int receive_count,                     \
       datatype_t receive_type, int root, comm_t comm),                                                              \
      (send, send_count, send_type, receive, receive_count, receive_type, root, comm))                               \
    Y(X, scatterv,                                                                                                   \
      (const void *send, const int *send_counts, const int *places, datatype_t send_type, void *receive,             \
       int receive_count, datatype_t receive_type, int root, comm_t comm),                                           \
      (send, send_counts, places, send_type, receive, receive_count, receive_type, root, comm))

#define COLL_SVMIO_OPEN(...) __VA_ARGS__

/* All of them, those that do not block, too, which have a request as well: name, parameters, arguments. */
#define COLL_SVMIO_BLOCKING(X, name, parameters, arguments) X(name, parameters, arguments)
#define COLL_SVMIO_NONBLOCKING(X, name, parameters, arguments)                                                       \
    X(i##name, (COLL_SVMIO_OPEN parameters, ompi_request_t **request), (COLL_SVMIO_OPEN arguments, request))
#define COLL_SVMIO_ALL(X)                                                                                            \
    COLL_SVMIO_LIST(COLL_SVMIO_BLOCKING, X)                                                                          \
    COLL_SVMIO_LIST(COLL_SVMIO_NONBLOCKING, X)

/* svmio's answer to a call. */
struct svmio_taken {
    /* Whether it is done; if not, nothing was done. */
    int is_done;
    /* The error code of a call that is done. */
    int code;
};

/* svmio's functions, in Rust: one to be called before all others, one that completes requests and returns how many,
 * one to be called at the end of MPI and one that says ahead that it will be, one to be called when a communicator is
 * gone, and svmio_coll_allgather and so on. */
void svmio_coll_open(void);
int svmio_coll_progress(void);
void svmio_coll_hear_of_end(void);
void svmio_coll_end(void);
void svmio_coll_gone(comm_t comm);
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
    /* NULL until it is enabled. */
    comm_t comm;
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

/* For svmio: a request of a communicator that is not complete, or NULL; its completion, with a code of MPI's; and a wish to
 * be called by svmio_coll_progress whenever Open MPI makes progress. */
ompi_request_t *coll_svmio_request_new(comm_t comm);
void coll_svmio_request_complete(ompi_request_t *request, int code);
void coll_svmio_request_watch(void);

/* Has svmio hear of the end of MPI. To be called before the program can do anything. */
void coll_svmio_watch_end(void);

/* A module with no functions below yet, for a communicator that svmio can serve. */
mca_coll_base_module_t *coll_svmio_module_new(void);

#endif
