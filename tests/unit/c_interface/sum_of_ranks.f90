! SPDX-License-Identifier: Apache-2.0
program sum_of_ranks
  use muster
  implicit none
  type(muster_join_options) :: options
  type(c_ptr) :: job, world
  real(c_double), target :: values(100)

  if (c_sizeof(options) /= options%size) stop 2
  options%device = MUSTER_DEVICE_CPU
  call check(muster_join(options, job))
  call check(muster_world(job, world))
  values = muster_rank(job) + 1
  call check(muster_all_reduce(world, c_loc(values), c_loc(values), size(values, kind=c_size_t), &
                               MUSTER_FLOAT64, MUSTER_SUM, c_null_ptr))
  print '(a,i0,a,i0,a,f0.1)', 'rank ', muster_rank(job), ' of ', muster_size(job), ': sum ', values(100)
  if (muster_all_reduce(world, c_null_ptr, c_null_ptr, 1_c_size_t, MUSTER_FLOAT64, MUSTER_SUM, c_null_ptr) == MUSTER_OK) stop 3
  print '(a)', muster_message()
  call muster_communicator_free(world)
  call check(muster_leave(job))
  call muster_job_free(job)

contains

  subroutine check(status)
    integer(c_int), intent(in) :: status
    if (status == MUSTER_OK) return
    if (muster_last_error_repeated() == 0) print '(a)', 'sum_of_ranks: '//muster_message()
    stop 1
  end subroutine
end program
