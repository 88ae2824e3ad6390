# Starts a rank as part of one of several nodes that this machine passes for:
#   sh as_node.sh COUNT STORES PROGRAM [ARGUMENTS]...
# Rank r is on node n(r mod COUNT), whose store is STORES with the node's name behind it.
count=$1 stores=$2
shift 2
rank=${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:?the launcher tells no rank}}}
SVMIO_NODE=n$((rank % count))
SVMIO_STORE=$stores$SVMIO_NODE
export SVMIO_NODE SVMIO_STORE
exec "$@"
