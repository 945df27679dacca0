! SPDX-License-Identifier: Apache-2.0
module losses
  use muster
  implicit none

contains

  subroutine save(loss, context) bind(c)
    type(muster_loss), intent(in) :: loss
    type(c_ptr), value :: context
    print '(a,i0,a,l1)', 'lost ranks: ', loss%rank_count, ', with a context: ', c_associated(context)
  end subroutine
end module

program sum_of_ranks
  use muster
  use losses
  implicit none
  type(muster_join_options) :: options
  type(c_ptr) :: job, world
  real(c_double), target :: values(100)

  if (c_sizeof(options) /= options%size) stop 2
  options%device = MUSTER_DEVICE_CPU
  call check(muster_join(options, job))
  call check(muster_world(job, world))
  if (command_argument_count() == 1) call disagree()
  values = muster_rank(job) + 1
  call check(muster_all_reduce(world, c_loc(values), c_loc(values), size(values, kind=c_size_t), &
                               MUSTER_FLOAT64, MUSTER_SUM, c_null_ptr))
  print '(a,i0,a,i0,a,f0.1)', 'rank ', muster_rank(job), ' of ', muster_size(job), ': sum ', values(100)
  if (muster_all_reduce(world, c_null_ptr, c_null_ptr, 1_c_size_t, MUSTER_FLOAT64, MUSTER_SUM, c_null_ptr) == MUSTER_OK) stop 3
  print '(a)', muster_message()
  call expect_losses()
  call start_sum()
  call sample()
  call reduce_gradients()
  call muster_communicator_free(world)
  call check(muster_leave(job))
  call muster_job_free(job)

contains

  ! Each rank reduces another number of elements.
  subroutine disagree()
    values = 1
    call check(muster_all_reduce(world, c_loc(values), c_loc(values), int(muster_rank(job) + 1, c_size_t), &
                                 MUSTER_FLOAT64, MUSTER_SUM, c_null_ptr))
  end subroutine

  ! No rank is lost here, and the job would not go on.
  subroutine expect_losses()
    call check(muster_on_rank_lost(job, c_funloc(save), c_null_ptr, 30000_c_int64_t))
    if (muster_shrink(job, 1000_c_int64_t) /= MUSTER_USAGE) stop 10
    if (muster_last_error_code() /= MUSTER_ERROR_USAGE) stop 11
  end subroutine

  ! Each rank's 1 times its number from 1, in the background.
  subroutine start_sum()
    type(c_ptr) :: work
    real(c_double), target, asynchronous :: value
    integer(c_int) :: complete

    value = 1
    call check(muster_premul_factor(world, real(muster_rank(job) + 1, c_double)))
    call check(muster_all_reduce_async(world, c_loc(value), c_loc(value), 1_c_size_t, MUSTER_FLOAT64, &
                                       MUSTER_PREMUL_SUM, c_null_ptr, work))
    call check(muster_work_wait_for(work, 60000_c_int64_t, complete))
    if (complete /= 1) stop 13
    call check(muster_work_wait(work))
    call check(muster_work_test(work, complete))
    call muster_work_free(work)
    if (complete /= 1 .or. abs(value - muster_size(job) * (muster_size(job) + 1) / 2) > 1e-9) stop 9
  end subroutine

  ! An epoch of 10 samples, 6 and then 4.
  subroutine sample()
    type(c_ptr) :: sampler
    type(muster_batch) :: batch
    type(muster_sampler_position) :: position
    integer(c_int64_t), pointer :: samples(:)
    real(c_double) :: mean

    if (c_sizeof(batch) /= batch%size) stop 4
    position%offset = 4
    call check(muster_sampler_new(10_c_int64_t, muster_rank(job), muster_size(job), position, 0, sampler))
    call check(muster_sampler_next(sampler, 100_c_int64_t, batch))
    call c_f_pointer(batch%samples, samples, [batch%count])
    if (batch%global /= 6 .or. batch%begin%offset /= 4 .or. any(samples < 4 .or. samples > 9)) stop 5
    call check(muster_weighted_average(world, sum(samples) / real(batch%count, c_double), &
                                       real(batch%count, c_double), mean))
    if (abs(mean - 6.5) > 1e-9) stop 6
    call muster_sampler_free(sampler)
  end subroutine

  subroutine reduce_gradients()
    type(muster_reducer_options) :: options
    type(c_ptr) :: reducer, memory
    integer(c_size_t) :: sizes(2) = [5, 7], count, i
    real(c_float), pointer :: gradient(:)

    if (c_sizeof(options) /= options%size) stop 7
    options%reduction = MUSTER_SUM
    call check(muster_reducer_new(world, 2_c_size_t, sizes, c_null_ptr, options, reducer))
    do i = 1, 0, -1
      call check(muster_reducer_gradient(reducer, i, memory, count))
      call c_f_pointer(memory, gradient, [count])
      gradient = real(i + 1)
      call check(muster_reducer_ready(reducer, i, c_null_ptr))
    end do
    call check(muster_reducer_finish(reducer, c_null_ptr))
    call check(muster_reducer_gradient(reducer, 1_c_size_t, memory, count))
    call c_f_pointer(memory, gradient, [count])
    if (count /= 7 .or. any(abs(gradient - 2 * muster_size(job)) > 1e-6)) stop 8
    call muster_reducer_free(reducer)
  end subroutine

  subroutine check(status)
    integer(c_int), intent(in) :: status
    if (status == MUSTER_OK) return
    if (muster_last_error_reported_elsewhere() == 0) print '(a)', 'sum_of_ranks: '//muster_message()
    if (status == MUSTER_USAGE) stop MUSTER_USAGE
    stop 1
  end subroutine
end program
