! Writes and reads a file, named on the command line, through MPI's Fortran interface.
program fortran
    use mpi
    implicit none
    integer, parameter :: n = 100
    integer :: code, rank, ranks, file, status(MPI_STATUS_SIZE), count, class, i, request
    integer :: written(n), found(n)
    integer(kind=MPI_OFFSET_KIND) :: offset, bytes
    character(len=200) :: name

    call MPI_Init(code)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
    call get_command_argument(1, name)

    call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, file, code)
    call MPI_Error_class(code, class, i)
    call check(class == MPI_ERR_NO_SUCH_FILE, 'a missing file is opened')
    call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, file, code)
    call check(code == MPI_SUCCESS, 'open')

    do i = 1, n
        written(i) = 1000 * rank + i
    end do
    offset = rank * n * 4
    call MPI_File_write_at(file, offset, written, n, MPI_INTEGER, status, code)
    call check(code == MPI_SUCCESS, 'write_at')
    call MPI_Get_count(status, MPI_INTEGER, count, code)
    call check(count == n, 'count of write_at')
    call MPI_File_sync(file, code)
    call MPI_Barrier(MPI_COMM_WORLD, code)

    offset = modulo(rank + 1, ranks) * n * 4
    call MPI_File_read_at_all(file, offset, found, n, MPI_INTEGER, status, code)
    call check(code == MPI_SUCCESS, 'read_at_all')
    do i = 1, n
        call check(found(i) == 1000 * modulo(rank + 1, ranks) + i, 'data of read_at_all')
    end do

    offset = ranks * n * 4
    call MPI_File_set_view(file, offset, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL, code)
    call check(code == MPI_SUCCESS, 'set_view')
    call MPI_File_write_ordered(file, written, n, MPI_INTEGER, status, code)
    call check(code == MPI_SUCCESS, 'write_ordered')
    call MPI_File_write_shared(file, written, n, MPI_INTEGER, status, code)
    call check(code == MPI_SUCCESS, 'write_shared')
    ! How long the file has become on other nodes is known after a sync, like what they wrote.
    call MPI_File_sync(file, code)
    call MPI_Barrier(MPI_COMM_WORLD, code)
    offset = rank * n
    found = 0
    call MPI_File_iread_at(file, offset, found, n, MPI_INTEGER, request, code)
    call check(code == MPI_SUCCESS, 'iread_at')
    call MPI_Wait(request, status, code)
    call check(all(found == written), 'data of iread_at')
    call MPI_File_get_size(file, bytes, code)
    call check(bytes == 3 * ranks * n * 4, 'size')
    call MPI_File_close(file, code)
    call check(code == MPI_SUCCESS, 'close')

    call MPI_Barrier(MPI_COMM_WORLD, code)
    if (rank == 0) then
        call MPI_File_delete(name, MPI_INFO_NULL, code)
        call check(code == MPI_SUCCESS, 'delete')
        print '(a)', 'Fortran works'
    end if
    call MPI_Finalize(code)

contains

    subroutine check(holds, what)
        logical, intent(in) :: holds
        character(len=*), intent(in) :: what
        integer :: ignored
        if (.not. holds) then
            print '(a,i0,2a)', 'rank ', rank, ' fails at ', what
            call MPI_Abort(MPI_COMM_WORLD, 1, ignored)
        end if
    end subroutine check

end program fortran
