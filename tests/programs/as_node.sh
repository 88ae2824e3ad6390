# Starts a rank as part of one of several nodes that this machine passes for:
#   sh as_node.sh NUMBERS STORES PROGRAM [ARGUMENTS]...
# Of NUMBERS, like 0,1,2, the ranks take their nodes' numbers in turns; the store of a node is STORES with its name behind it.
numbers=$1 stores=$2
shift 2
rank=${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:?the launcher tells no rank}}}
in_turn() {
    shift $(($1 % ($# - 1) + 1))
    echo "$1"
}
SVMIO_NODE=n$(in_turn "$rank" $(echo "$numbers" | tr , ' '))
SVMIO_STORE=$stores$SVMIO_NODE
export SVMIO_NODE SVMIO_STORE
exec "$@"
