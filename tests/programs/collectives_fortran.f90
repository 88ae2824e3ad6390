! Collectives of Fortran, in place among them.
program collectives_fortran
  use mpi
  implicit none
  integer :: rank, ranks, code, values(3), first
  integer, allocatable :: all(:)
  call mpi_init(code)
  call mpi_comm_rank(mpi_comm_world, rank, code)
  call mpi_comm_size(mpi_comm_world, ranks, code)
  call mpi_barrier(mpi_comm_world, code)
  values = [rank, 1, -rank]
  call mpi_allreduce(mpi_in_place, values, 3, mpi_integer, mpi_sum, mpi_comm_world, code)
  if (any(values /= [ranks * (ranks - 1) / 2, ranks, -ranks * (ranks - 1) / 2])) call wrong('allreduce')
  first = rank
  call mpi_bcast(first, 1, mpi_integer, ranks - 1, mpi_comm_world, code)
  if (first /= ranks - 1) call wrong('bcast')
  allocate (all(ranks))
  call mpi_allgather(rank, 1, mpi_integer, all, 1, mpi_integer, mpi_comm_world, code)
  if (all(ranks) /= ranks - 1) call wrong('allgather')
  if (rank == 0) print '(a)', 'Fortran is right'
  call mpi_finalize(code)
contains
  subroutine wrong(what)
    character(*), intent(in) :: what
    print '(a,i0,2a)', 'rank ', rank, ': wrong ', what
    call mpi_abort(mpi_comm_world, 1, code)
  end subroutine
end program
