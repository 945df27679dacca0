/* SPDX-License-Identifier: Apache-2.0 */
/* The reducer of muster.h from C99: part of c_training. */
#include "checks.h"

#define PARAMETERS 3

static const size_t sizes[PARAMETERS] = {700, 1, 40};

/* A backward pass over this rank's chunks: gradient i of chunk c is c + i in every element. */
static void step(muster_reducer* reducer) {
  uint64_t chunk, end;
  OK(muster_reducer_chunks(reducer, &chunk, &end));
  for (; chunk < end; ++chunk) {
    size_t i = PARAMETERS;
    while (i-- > 0) {
      void* memory;
      float* gradient;
      size_t count, k;
      OK(muster_reducer_gradient(reducer, i, &memory, &count));
      gradient = memory;
      CHECK(count == sizes[i]);
      for (k = 0; k < count; ++k) gradient[k] = (float)chunk + (float)i;
      OK(muster_reducer_ready(reducer, i, NULL));
    }
  }
  OK(muster_reducer_finish(reducer, NULL));
}

/* Every gradient i is `first` + i times `each`. */
static void check_gradients(muster_reducer* reducer, float first, float each) {
  size_t i, k;
  for (i = 0; i < PARAMETERS; ++i) {
    void* memory;
    float* gradient;
    OK(muster_reducer_gradient(reducer, i, &memory, NULL));
    gradient = memory;
    for (k = 0; k < sizes[i]; ++k) CHECK(gradient[k] == first + each * (float)i);
  }
}

static void check_statistics(const muster_reducer* reducer, size_t bytes) {
  muster_reducer_statistics last = {0};
  FAILS(muster_reducer_last_step(reducer, &last), MUSTER_USAGE, MUSTER_ERROR_USAGE, "size is not set");
  last.size = sizeof last;
  OK(muster_reducer_last_step(reducer, &last));
  CHECK(last.step == 2 && last.buckets == muster_reducer_buckets(reducer) && last.bytes == bytes);
  CHECK(last.communication_seconds >= 0 && last.exposed_seconds >= 0);
}

static void check_reducer(muster_communicator* world) {
  int const ranks = muster_communicator_size(world);
  float const of_ranks = (float)(ranks - 1) / 2;
  muster_reducer_options options = MUSTER_REDUCER_OPTIONS_DEFAULT;
  muster_reducer* reducer = NULL;
  float arena[741];
  void* gradients[PARAMETERS];
  int k;
  options.bucket_bytes = 100;
  OK(muster_reducer_new(world, PARAMETERS, sizes, NULL, &options, &reducer));
  CHECK(muster_reducer_parameters(reducer) == PARAMETERS && muster_reducer_bucket_bytes(reducer) == 100);
  CHECK(muster_reducer_buckets(reducer) == 2);
  for (k = 0; k < 2; ++k) {
    step(reducer);
    check_gradients(reducer, of_ranks, 1);
  }
  check_statistics(reducer, 741 * sizeof(float));
  muster_reducer_free(reducer);

  gradients[0] = arena;
  gradients[1] = arena + 700;
  gradients[2] = arena + 701;
  options.reduction = MUSTER_SUM;
  options.overlap = 0;
  OK(muster_reducer_new(world, PARAMETERS, sizes, gradients, &options, &reducer));
  step(reducer);
  check_gradients(reducer, of_ranks * (float)ranks, (float)ranks);
  CHECK(arena[740] == of_ranks * (float)ranks + 2 * (float)ranks);
  muster_reducer_free(reducer);

  options.chunks = 5; /* for any number of ranks */
  OK(muster_reducer_new(world, PARAMETERS, sizes, NULL, &options, &reducer));
  step(reducer);
  check_gradients(reducer, 10, 5);
  muster_reducer_free(reducer);

  options.chunks = 0;
  options.bfloat16 = 1;
  OK(muster_reducer_new(world, PARAMETERS, sizes, NULL, &options, &reducer));
  step(reducer);
  check_gradients(reducer, of_ranks * (float)ranks, (float)ranks);
  muster_reducer_free(reducer);
}

/* Gradients of float64, and of bfloat16: 0x3f80 is 1, 0x4040 is 3. */
static void check_other_types(muster_communicator* world) {
  int const ranks = muster_communicator_size(world);
  muster_reducer_options options = MUSTER_REDUCER_OPTIONS_DEFAULT;
  muster_reducer* reducer = NULL;
  double value = 1.0 + 1e-12 * muster_communicator_rank(world);
  double difference;
  uint16_t const one = 0x3f80;
  size_t const size = 1;
  void* gradient = &value;
  size_t count;
  options.type = MUSTER_FLOAT64;
  OK(muster_reducer_new(world, 1, &size, &gradient, &options, &reducer));
  OK(muster_reducer_ready(reducer, 0, NULL));
  OK(muster_reducer_finish(reducer, NULL));
  difference = value - 1 - 1e-12 * (ranks - 1) / 2; /* far below what float32 has */
  CHECK(difference < 1e-14 && difference > -1e-14);
  muster_reducer_free(reducer);

  options.type = MUSTER_BFLOAT16;
  options.reduction = MUSTER_SUM;
  OK(muster_reducer_new(world, 1, &size, NULL, &options, &reducer));
  OK(muster_reducer_gradient(reducer, 0, &gradient, &count));
  CHECK(count == 1);
  *(uint16_t*)gradient = one;
  OK(muster_reducer_ready(reducer, 0, NULL));
  OK(muster_reducer_finish(reducer, NULL));
  CHECK(*(uint16_t*)gradient == (ranks == 1 ? one : ranks == 2 ? 0x4000 : ranks == 3 ? 0x4040 : 0x4080));
  muster_reducer_free(reducer);
}

static void check_refused_reducers(muster_communicator* world) {
  int const rank = muster_communicator_rank(world);
  muster_reducer_options options = MUSTER_REDUCER_OPTIONS_DEFAULT;
  muster_reducer* reducer = (muster_reducer*)&reducer;
  void* gradients[PARAMETERS] = {NULL, NULL, NULL};
  size_t other[PARAMETERS] = {700, 1, 40};
  FAILS(muster_reducer_new(NULL, PARAMETERS, sizes, NULL, NULL, &reducer), MUSTER_USAGE, MUSTER_ERROR_USAGE,
        "the communicator is null");
  CHECK(reducer == NULL);
  FAILS(muster_reducer_new(world, PARAMETERS, NULL, NULL, NULL, &reducer), MUSTER_USAGE, MUSTER_ERROR_USAGE,
        "the list of sizes is null");
  FAILS(muster_reducer_new(world, PARAMETERS, sizes, gradients, NULL, &reducer), MUSTER_USAGE,
        MUSTER_ERROR_USAGE, "the gradient of parameter 0 is null");
  FAILS(muster_reducer_new(world, 0, NULL, NULL, NULL, &reducer), MUSTER_USAGE, MUSTER_ERROR_USAGE,
        "no parameters");
  options.reduction = MUSTER_MAX;
  FAILS(muster_reducer_new(world, PARAMETERS, sizes, NULL, &options, &reducer), MUSTER_USAGE,
        MUSTER_ERROR_USAGE, "summed or averaged");
  options.reduction = MUSTER_SUM;
  options.type = MUSTER_INT32;
  FAILS(muster_reducer_new(world, PARAMETERS, sizes, gradients, &options, &reducer), MUSTER_USAGE,
        MUSTER_ERROR_USAGE, "float32, float64 or bfloat16, not int32");
  options.type = 77;
  FAILS(muster_reducer_new(world, PARAMETERS, sizes, NULL, &options, &reducer), MUSTER_USAGE,
        MUSTER_ERROR_USAGE, "type is 77");
  options.type = MUSTER_FLOAT32;
  options.overlap = -1;
  FAILS(muster_reducer_new(world, PARAMETERS, sizes, NULL, &options, &reducer), MUSTER_USAGE,
        MUSTER_ERROR_USAGE, "overlap is -1");
  if (muster_communicator_size(world) > 1) {
    other[2] += (size_t)(rank == 1);
    FAILS(muster_reducer_new(world, PARAMETERS, other, NULL, NULL, &reducer), MUSTER_USAGE,
          MUSTER_ERROR_USAGE, "elements on rank 1 (");
    CHECK(muster_last_error_reported_elsewhere() == (rank != 0));
  }
}

/* Calls in a wrong order, and an aborted step. */
static void check_misused_reducer(muster_communicator* world) {
  muster_reducer* reducer = NULL;
  void* gradient;
  OK(muster_reducer_new(world, PARAMETERS, sizes, NULL, NULL, &reducer));
  FAILS(muster_reducer_gradient(reducer, PARAMETERS, &gradient, NULL), MUSTER_USAGE, MUSTER_ERROR_USAGE,
        "parameter 3 is not in 0");
  FAILS(muster_reducer_ready(reducer, PARAMETERS, NULL), MUSTER_USAGE, MUSTER_ERROR_USAGE,
        "parameter 3 is not in 0");
  OK(muster_reducer_ready(reducer, 2, NULL));
  FAILS(muster_reducer_ready(reducer, 2, NULL), MUSTER_USAGE, MUSTER_ERROR_USAGE, "ready already");
  FAILS(muster_reducer_finish(reducer, NULL), MUSTER_USAGE, MUSTER_ERROR_USAGE, "parameter 0 is not ready");
  FAILS(muster_reducer_finish(NULL, NULL), MUSTER_USAGE, MUSTER_ERROR_USAGE, "the reducer is null");
  CHECK(muster_reducer_parameters(NULL) == 0 && muster_reducer_buckets(NULL) == 0);
  CHECK(muster_reducer_bucket_bytes(NULL) == 0);
  muster_reducer_free(reducer);
  muster_reducer_free(NULL);
  muster_reducer_drop(NULL);
}

/* Rank 0 starts a step that the other ranks do not start: freeing its reducer would wait for them. */
static void check_dropped_reducer(muster_communicator* world) {
  muster_reducer* reducer = NULL;
  size_t i;
  OK(muster_reducer_new(world, PARAMETERS, sizes, NULL, NULL, &reducer));
  for (i = 0; i < PARAMETERS && muster_communicator_rank(world) == 0; ++i)
    OK(muster_reducer_ready(reducer, i, NULL));
  muster_reducer_drop(reducer);
}

void check_reducers(muster_communicator* world) {
  check_reducer(world);
  check_other_types(world);
  check_refused_reducers(world);
  check_misused_reducer(world);
  check_dropped_reducer(world);
}
