/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of muster.h that differ on backend "nccl", from C99: a single rank on fakes of CUDA and NCCL,
 * whose GPU memory is host memory. */
#include "checks.h"

static const size_t sizes[2] = {5, 7};

static void check_reducer(muster_communicator* world) {
  muster_reducer_options options = MUSTER_REDUCER_OPTIONS_DEFAULT;
  muster_reducer* reducer = NULL;
  void* memory;
  float* gradient;
  size_t count, i;
  OK(muster_reducer_new(world, 2, sizes, NULL, NULL, &reducer));
  OK(muster_reducer_gradient(reducer, 1, &memory, &count));
  gradient = memory;
  CHECK(count == 7);
  for (i = 0; i < count; ++i) gradient[i] = 3;
  OK(muster_reducer_ready(reducer, 1, NULL));
  OK(muster_reducer_ready(reducer, 0, NULL));
  OK(muster_reducer_finish(reducer, NULL));
  OK(muster_synchronize(world, NULL));
  CHECK(gradient[6] == 3);
  muster_reducer_free(reducer);
  OK(muster_reducer_new(world, 2, sizes, NULL, NULL, &reducer));
  OK(muster_reducer_ready(reducer, 1, NULL));
  muster_reducer_drop(reducer);
  options.bfloat16 = 1;
#ifdef MUSTER_HAVE_KERNELS
  OK(muster_reducer_new(world, 2, sizes, NULL, &options, &reducer));
  muster_reducer_free(reducer);
  options.bfloat16 = 0;
  options.chunks = 2;
  OK(muster_reducer_new(world, 2, sizes, NULL, &options, &reducer));
  OK(muster_reducer_gradient(reducer, 1, &memory, NULL));
  gradient = memory;
  for (i = 0; i < 2; ++i) {
    gradient[6] = (float)i;
    OK(muster_reducer_ready(reducer, 1, NULL));
    OK(muster_reducer_ready(reducer, 0, NULL));
  }
  OK(muster_reducer_finish(reducer, NULL));
  OK(muster_synchronize(world, NULL));
  CHECK(gradient[6] == 0.5f);
  muster_reducer_free(reducer);
#else
  FAILS(muster_reducer_new(world, 2, sizes, NULL, &options, &reducer), MUSTER_USAGE, MUSTER_ERROR_USAGE,
        "was built without nvcc");
#endif
}

static void check_state(muster_communicator* world) {
  muster_state* state = NULL;
  float tensor[3] = {1, 2, 3};
  void* data = NULL;
  size_t length = 0;
  double mean;
  OK(muster_state_new(&state));
  OK(muster_state_add(state, tensor, sizeof tensor));
  OK(muster_broadcast_state(world, state, NULL));
  OK(muster_synchronize(world, NULL));
  CHECK(tensor[2] == 3);
  OK(muster_state_add_sized(state, &data, &length));
  FAILS(muster_broadcast_state(world, state, NULL), MUSTER_USAGE, MUSTER_ERROR_USAGE,
        "every part is GPU memory");
  CHECK(data == NULL && length == 0);
  muster_state_free(state);
  FAILS(muster_weighted_average(world, 1, 1, &mean), MUSTER_USAGE, MUSTER_ERROR_USAGE, "on NCCL");
}

int main(void) {
  muster_join_options options = MUSTER_JOIN_OPTIONS_DEFAULT;
  muster_timings timings = {0};
  muster_job* job = NULL;
  muster_communicator* world = NULL;
  options.device = MUSTER_DEVICE_CUDA;
  OK(muster_join(&options, &job));
  OK(muster_world(job, &world));
  CHECK(strcmp(muster_backend(world), "nccl") == 0 && muster_on_gpu(job) == 1);
  check_reducer(world);
  check_state(world);
  timings.size = sizeof timings;
  OK(muster_read_timings(job, &timings));
  CHECK(timings.gpu_ms > 0 && timings.nccl_id_ms > 0 && timings.nccl_init_ms > 0 && timings.world_ms > 0);
  CHECK(timings.first_collective_ms > 0 && timings.host_world_ms == 0);
  muster_communicator_free(world);
  OK(muster_leave(job));
  muster_job_free(job);
  return 0;
}
