/* The requests of collectives that do not block.
 *
 * Open MPI keeps a call's datatypes and operation by its request until that is complete, and takes it for one of its own
 * components' (ompi_coll_base_nbc_request_t) where it does. */

#include "coll_svmio.h"

#include "opal/runtime/opal_progress.h"

/* The class knows how large its objects are; the header that has their structure includes one that is not installed. */
OMPI_DECLSPEC OBJ_CLASS_DECLARATION(ompi_coll_base_nbc_request_t);

static int release(ompi_request_t **request)
{
    /* Until it is complete, svmio has it, too. */
    if (!REQUEST_COMPLETE(*request)) {
        return MPI_ERR_REQUEST;
    }
    comm_t comm = (*request)->req_mpi_object.comm;
    OMPI_REQUEST_FINI(*request);
    OBJ_RELEASE(*request);
    *request = MPI_REQUEST_NULL;
    OBJ_RELEASE(comm);
    return OMPI_SUCCESS;
}

/* A collective is not cancelled. */
static int cancel(ompi_request_t *request, int flag)
{
    (void) request;
    (void) flag;
    return MPI_ERR_REQUEST;
}

ompi_request_t *coll_svmio_request_new(comm_t comm)
{
    ompi_request_t *request = (ompi_request_t *) opal_obj_new(OBJ_CLASS(ompi_coll_base_nbc_request_t));
    if (NULL == request) {
        return NULL;
    }
    OMPI_REQUEST_INIT(request, false);
    request->req_type = OMPI_REQUEST_COLL;
    request->req_state = OMPI_REQUEST_ACTIVE;
    request->req_status = ompi_status_empty;
    request->req_free = release;
    request->req_cancel = cancel;
    /* Its error handler is asked when the request is complete, and the program may have freed it by then. */
    OBJ_RETAIN(comm);
    request->req_mpi_object.comm = comm;
    return request;
}

void coll_svmio_request_complete(ompi_request_t *request, int code)
{
    request->req_status.MPI_ERROR = code;
    ompi_request_complete(request, true);
}

static int progress(void)
{
    return svmio_coll_progress();
}

void coll_svmio_request_watch(void)
{
    opal_progress_register(progress);
}
