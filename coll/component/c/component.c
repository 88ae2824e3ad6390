/* What Open MPI asks the component once. */

#include "coll_svmio.h"

#include "ompi/attribute/attribute.h"
#include "ompi/datatype/ompi_datatype.h"
#include "opal/util/output.h"

#if OMPI_MAJOR_VERSION != 4 || OMPI_MINOR_VERSION != 1
#error "svmio's component is made for Open MPI 4.1"
#endif

struct coll_svmio_parameters coll_svmio_parameters;

static int register_parameters(void);
static int init_query(bool progress_threads, bool mpi_threads);
static mca_coll_base_module_t *comm_query(comm_t comm, int *priority);

/* By this name Open MPI finds the component in its file. */
__attribute__((visibility("default"))) const mca_coll_base_component_t mca_coll_svmio_component = {
    .collm_version = {
        MCA_COLL_BASE_VERSION_2_0_0,
        .mca_component_name = "svmio",
        MCA_BASE_MAKE_VERSION(component, SVMIO_MAJOR, SVMIO_MINOR, SVMIO_RELEASE),
        .mca_register_component_params = register_parameters,
    },
    .collm_data = { MCA_BASE_METADATA_PARAM_NONE },
    .collm_init_query = init_query,
    .collm_comm_query = comm_query,
};

static void register_parameter(const char *name, const char *description, mca_base_var_type_t type,
                               mca_base_var_info_lvl_t level, void *value)
{
    mca_base_component_var_register(&mca_coll_svmio_component.collm_version, name, description, type, NULL, 0, 0,
                                    level, MCA_BASE_VAR_SCOPE_READONLY, value);
}

static int register_parameters(void)
{
    /* Above all of Open MPI's own, which have at most 90: whoever names svmio's folder wants svmio's. */
    coll_svmio_parameters.priority = 95;
    register_parameter("priority", "Priority of svmio's collectives; below 0 they are not used", MCA_BASE_VAR_TYPE_INT,
                       OPAL_INFO_LVL_5, &coll_svmio_parameters.priority);
#define REGISTER_SWITCH(name, parameters, arguments)                                                                 \
    coll_svmio_parameters.enable_##name = true;                                                                      \
    register_parameter("enable_" #name, "Whether svmio does " #name " (if not, the component below does)",           \
                       MCA_BASE_VAR_TYPE_BOOL, OPAL_INFO_LVL_5, &coll_svmio_parameters.enable_##name);
    COLL_SVMIO_ALL(REGISTER_SWITCH)
    return OMPI_SUCCESS;
}

/* Whether the Open MPI that loads the component has the structures of the headers: later series changed them. */
static int init_query(bool progress_threads, bool mpi_threads)
{
    (void) progress_threads;
    (void) mpi_threads;
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    PMPI_Get_library_version(version, &length);
    if (NULL == strstr(version, "Open MPI v4.1.")) {
        opal_output(0, "coll:svmio: made for Open MPI 4.1 and not used by this one, %s", version);
        return OMPI_ERR_NOT_AVAILABLE;
    }
    svmio_coll_open();
    return OMPI_SUCCESS;
}

int coll_svmio_is_described(datatype_t datatype)
{
    return ompi_datatype_is_predefined(datatype) || NULL != datatype->args;
}

/* Not every Open MPI lets components see this one. */
#pragma weak ompi_attr_set_c

static int do_not_copy(MPI_Comm comm, int key, void *extra, void *value, void *copy, int *is_copied, MPI_Comm to)
{
    (void) comm;
    (void) key;
    (void) extra;
    (void) value;
    (void) copy;
    (void) to;
    *is_copied = 0;
    return MPI_SUCCESS;
}

static int at_end(MPI_Comm comm, int key, void *value, void *extra)
{
    (void) comm;
    (void) key;
    (void) value;
    (void) extra;
    svmio_coll_end();
    return MPI_SUCCESS;
}

/* MPI_Finalize deletes the attributes of MPI_COMM_SELF in the reverse order of that in which they were set, so the first
 * one goes last. While MPI_COMM_WORLD gets its modules, MPI's own functions refuse to set any. Where it cannot be had,
 * svmio sets one at the first collective. */
void coll_svmio_watch_end(void)
{
    const ompi_attribute_fn_ptr_union_t copy = {.attr_communicator_copy_fn = do_not_copy};
    const ompi_attribute_fn_ptr_union_t delete = {.attr_communicator_delete_fn = at_end};
    comm_t self = &ompi_mpi_comm_self.comm;
    int key = MPI_KEYVAL_INVALID;
    if (NULL != ompi_attr_set_c &&
        OMPI_SUCCESS == ompi_attr_create_keyval(COMM_ATTR, copy, delete, &key, NULL, 0, NULL) &&
        OMPI_SUCCESS == ompi_attr_set_c(COMM_ATTR, self, &self->c_keyhash, key, NULL, false)) {
        svmio_coll_hear_of_end();
    }
}

/* A module for a communicator of several processes. Whether svmio can serve it, its processes find out together. */
static mca_coll_base_module_t *comm_query(comm_t comm, int *priority)
{
    if (coll_svmio_parameters.priority < 0 || OMPI_COMM_IS_INTER(comm) || ompi_comm_size(comm) < 2) {
        return NULL;
    }
    *priority = coll_svmio_parameters.priority;
    return coll_svmio_module_new();
}
