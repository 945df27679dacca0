! SPDX-License-Identifier: Apache-2.0
! The part of muster.h for Fortran programs; muster.h is the reference. Compile this file with the program.
! Functions return muster.h's status; muster_message() returns the line of the last error.
module muster
  use, intrinsic :: iso_c_binding
  implicit none

  integer(c_int), parameter :: MUSTER_ABI_VERSION = 1
  integer(c_int), parameter :: MUSTER_OK = 0, MUSTER_USAGE = 64, MUSTER_DEVICE = 69, MUSTER_SYSTEM = 71
  integer(c_int), parameter :: MUSTER_TEMPORARY = 75, MUSTER_ENVIRONMENT = 78
  integer(c_int), parameter :: MUSTER_ERROR_USAGE = 0, MUSTER_ERROR_ENVIRONMENT = 1, MUSTER_ERROR_DEVICE = 2
  integer(c_int), parameter :: MUSTER_ERROR_DEADLINE = 3, MUSTER_ERROR_LOST_RANK = 4, MUSTER_ERROR_SYSTEM = 5
  integer(c_int32_t), parameter :: MUSTER_DEVICE_AUTOMATIC = 0, MUSTER_DEVICE_CPU = 1, MUSTER_DEVICE_CUDA = 2
  integer(c_int), parameter :: MUSTER_FLOAT32 = 0, MUSTER_FLOAT64 = 1, MUSTER_BFLOAT16 = 2, MUSTER_FLOAT16 = 3
  integer(c_int), parameter :: MUSTER_INT8 = 4, MUSTER_UINT8 = 5, MUSTER_INT32 = 6, MUSTER_UINT32 = 7
  integer(c_int), parameter :: MUSTER_INT64 = 8, MUSTER_UINT64 = 9
  integer(c_int), parameter :: MUSTER_SUM = 0, MUSTER_AVERAGE = 1, MUSTER_MIN = 2, MUSTER_MAX = 3, MUSTER_PRODUCT = 4
  integer(c_int), parameter :: MUSTER_PREMUL_SUM = 5  ! of operations, not of reducers

  type, bind(c) :: muster_join_options
    integer(c_size_t) :: size = 64
    integer(c_int64_t) :: deadline_ms = 60000
    integer(c_int64_t) :: operation_timeout_ms = 600000
    integer(c_int64_t) :: heartbeat_timeout_ms = 10000
    integer(c_int32_t) :: device = MUSTER_DEVICE_AUTOMATIC
    integer(c_int32_t) :: tolerate_rank_loss = 0
    integer(c_int64_t) :: stall_warning_ms = 30000
    integer(c_int64_t) :: abort_grace_ms = 1200
    integer(c_int64_t) :: cpu_ranks = 0
  end type
  type, bind(c) :: muster_reducer_options
    integer(c_size_t) :: size = 40
    integer(c_int64_t) :: bucket_bytes = 0
    integer(c_int64_t) :: chunks = 0
    integer(c_int32_t) :: reduction = MUSTER_AVERAGE
    integer(c_int32_t) :: bfloat16 = 0
    integer(c_int32_t) :: overlap = 1
    integer(c_int32_t) :: type = MUSTER_FLOAT32
  end type
  type, bind(c) :: muster_sampler_position
    integer(c_int64_t) :: seed = 0, epoch = 0, offset = 0
  end type
  type, bind(c) :: muster_batch
    integer(c_size_t) :: size = 56
    type(c_ptr) :: samples = c_null_ptr
    integer(c_size_t) :: count = 0
    integer(c_int64_t) :: global = 0
    type(muster_sampler_position) :: begin
  end type

  type, bind(c) :: muster_loss
    integer(c_size_t) :: size
    type(c_ptr) :: ranks
    integer(c_size_t) :: rank_count
    type(c_ptr) :: what
  end type

  abstract interface
    subroutine muster_save(loss, context) bind(c)
      import
      type(muster_loss), intent(in) :: loss
      type(c_ptr), value :: context
    end subroutine
  end interface

  interface
    integer(c_int) function muster_join_abi(abi_version, options, job) bind(c)
      import
      integer(c_int), value :: abi_version
      type(muster_join_options), intent(in) :: options
      type(c_ptr), intent(out) :: job
    end function
    integer(c_int) function muster_leave(job) bind(c)
      import
      type(c_ptr), value :: job
    end function
    subroutine muster_abort(job) bind(c)
      import
      type(c_ptr), value :: job
    end subroutine
    subroutine muster_job_free(job) bind(c)
      import
      type(c_ptr), value :: job
    end subroutine
    integer(c_int) function muster_rank(job) bind(c)
      import
      type(c_ptr), value :: job
    end function
    integer(c_int) function muster_size(job) bind(c)
      import
      type(c_ptr), value :: job
    end function
    integer(c_int) function muster_local_rank(job) bind(c)
      import
      type(c_ptr), value :: job
    end function
    integer(c_int) function muster_world(job, communicator) bind(c)
      import
      type(c_ptr), value :: job
      type(c_ptr), intent(out) :: communicator
    end function
    integer(c_int) function muster_host_world(job, communicator) bind(c)
      import
      type(c_ptr), value :: job
      type(c_ptr), intent(out) :: communicator
    end function
    integer(c_int) function muster_intra_node(job, communicator) bind(c)
      import
      type(c_ptr), value :: job
      type(c_ptr), intent(out) :: communicator
    end function
    integer(c_int) function muster_inter_node(job, communicator) bind(c)
      import
      type(c_ptr), value :: job
      type(c_ptr), intent(out) :: communicator
    end function
    integer(c_int) function muster_split(communicator, color, key, part) bind(c)
      import
      type(c_ptr), value :: communicator
      integer(c_int), value :: color, key
      type(c_ptr), intent(out) :: part
    end function
    subroutine muster_communicator_free(communicator) bind(c)
      import
      type(c_ptr), value :: communicator
    end subroutine
    integer(c_int) function muster_all_reduce(communicator, in, out, count, element_type, reduction, stream) bind(c)
      import
      type(c_ptr), value :: communicator, in, out, stream
      integer(c_size_t), value :: count
      integer(c_int), value :: element_type, reduction
    end function
    ! The factor of this rank's later operations with MUSTER_PREMUL_SUM.
    integer(c_int) function muster_premul_factor(communicator, factor) bind(c)
      import
      type(c_ptr), value :: communicator
      real(c_double), value :: factor
    end function
    ! `in` and `out` must have the attribute asynchronous until muster_work_wait() has returned.
    integer(c_int) function muster_all_reduce_async(communicator, in, out, count, element_type, reduction, stream, work) bind(c)
      import
      type(c_ptr), value :: communicator, in, out, stream
      integer(c_size_t), value :: count
      integer(c_int), value :: element_type, reduction
      type(c_ptr), intent(out) :: work
    end function
    integer(c_int) function muster_work_wait(work) bind(c)
      import
      type(c_ptr), value :: work
    end function
    integer(c_int) function muster_work_wait_for(work, timeout_ms, complete) bind(c)
      import
      type(c_ptr), value :: work
      integer(c_int64_t), value :: timeout_ms
      integer(c_int), intent(out) :: complete
    end function
    integer(c_int) function muster_work_test(work, complete) bind(c)
      import
      type(c_ptr), value :: work
      integer(c_int), intent(out) :: complete
    end function
    subroutine muster_work_free(work) bind(c)
      import
      type(c_ptr), value :: work
    end subroutine
    integer(c_int) function muster_broadcast(communicator, buffer, count, element_type, root, stream) bind(c)
      import
      type(c_ptr), value :: communicator, buffer, stream
      integer(c_size_t), value :: count
      integer(c_int), value :: element_type, root
    end function
    integer(c_int) function muster_communicator_barrier(communicator, stream) bind(c)
      import
      type(c_ptr), value :: communicator, stream
    end function
    integer(c_int) function muster_weighted_average(host, value, weight, mean) bind(c)
      import
      type(c_ptr), value :: host
      real(c_double), value :: value, weight
      real(c_double), intent(out) :: mean
    end function
    integer(c_int) function muster_sampler_new(samples, rank, size, position, shuffle, sampler) bind(c)
      import
      integer(c_int64_t), value :: samples
      integer(c_int), value :: rank, size, shuffle
      type(muster_sampler_position), intent(in) :: position
      type(c_ptr), intent(out) :: sampler
    end function
    integer(c_int) function muster_sampler_next(sampler, global, batch) bind(c)
      import
      type(c_ptr), value :: sampler
      integer(c_int64_t), value :: global
      type(muster_batch), intent(inout) :: batch
    end function
    subroutine muster_sampler_free(sampler) bind(c)
      import
      type(c_ptr), value :: sampler
    end subroutine
    ! Parameters are numbered from 0. If `gradients` is c_null_ptr, the reducer allocates them.
    integer(c_int) function muster_reducer_new(communicator, parameters, sizes, gradients, options, reducer) bind(c)
      import
      type(c_ptr), value :: communicator, gradients
      integer(c_size_t), value :: parameters
      integer(c_size_t), intent(in) :: sizes(*)
      type(muster_reducer_options), intent(in) :: options
      type(c_ptr), intent(out) :: reducer
    end function
    integer(c_int) function muster_reducer_gradient(reducer, parameter, gradient, count) bind(c)
      import
      type(c_ptr), value :: reducer
      integer(c_size_t), value :: parameter
      type(c_ptr), intent(out) :: gradient
      integer(c_size_t), intent(out) :: count
    end function
    integer(c_int) function muster_reducer_ready(reducer, parameter, stream) bind(c)
      import
      type(c_ptr), value :: reducer, stream
      integer(c_size_t), value :: parameter
    end function
    integer(c_int) function muster_reducer_finish(reducer, stream) bind(c)
      import
      type(c_ptr), value :: reducer, stream
    end function
    subroutine muster_reducer_free(reducer) bind(c)
      import
      type(c_ptr), value :: reducer
    end subroutine
    ! `save`: c_funloc() of a module's subroutine with the interface muster_save.
    integer(c_int) function muster_on_rank_lost(job, save, context, deadline_ms) bind(c)
      import
      type(c_ptr), value :: job, context
      type(c_funptr), value :: save
      integer(c_int64_t), value :: deadline_ms
    end function
    integer(c_int) function muster_shrink(job, deadline_ms) bind(c)
      import
      type(c_ptr), value :: job
      integer(c_int64_t), value :: deadline_ms
    end function
    integer(c_int) function muster_last_error_code() bind(c)
      import
    end function
    integer(c_int) function muster_last_error_reported_elsewhere() bind(c)
      import
    end function
    type(c_ptr) function muster_last_error() bind(c)
      import
    end function
    integer(c_size_t) function muster_strlen(text) bind(c, name='strlen')
      import
      type(c_ptr), value :: text
    end function
  end interface

contains

  integer(c_int) function muster_join(options, job)
    type(muster_join_options), intent(in) :: options
    type(c_ptr), intent(out) :: job
    muster_join = muster_join_abi(MUSTER_ABI_VERSION, options, job)
  end function

  function muster_message() result(message)
    character(len=:), allocatable :: message
    character(kind=c_char), pointer :: text(:)
    integer :: i, length
    length = int(muster_strlen(muster_last_error()))
    call c_f_pointer(muster_last_error(), text, [length])
    allocate (character(len=length) :: message)
    do i = 1, length
      message(i:i) = text(i)
    end do
  end function
end module
