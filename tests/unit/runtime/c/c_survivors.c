/* SPDX-License-Identifier: Apache-2.0 */
/* c_survivors RANK: this rank kills itself while all reduce; the other ranks save and continue without it.
 * Rank 0 of the survivors prints "going on with N on BACKEND, saved after the loss of rank RANK". Before
 * that, a stall is warned of, and one rank calls nothing for longer than the default of abort_grace_ms. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <time.h>

#include "checks.h"

#define PARAMETERS 2

struct saved {
  int calls;
  int lost;
  size_t text;
};

static void save(const muster_loss* loss, void* context) {
  struct saved* saved = context;
  ++saved->calls;
  CHECK(loss->size >= sizeof(muster_loss) && loss->rank_count == 1);
  saved->lost = loss->ranks[0];
  saved->text = strlen(loss->what);
}

static void sleep_ms(long ms) {
  struct timespec const time = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&time, NULL);
}

/* Runs on all ranks; returns the status of the first call that fails. */
static int reduce(muster_communicator* world, muster_reducer* reducer) {
  int const ranks = muster_communicator_size(world);
  int64_t sum = 1;
  size_t i;
  int status = muster_all_reduce(world, &sum, &sum, 1, MUSTER_INT64, MUSTER_SUM, NULL);
  if (status == MUSTER_OK) CHECK(sum == ranks);
  for (i = 0; i < PARAMETERS && status == MUSTER_OK; ++i) {
    void* memory;
    float* gradient;
    OK(muster_reducer_gradient(reducer, i, &memory, NULL));
    gradient = memory;
    gradient[9] = 1;
    status = muster_reducer_ready(reducer, i, NULL);
  }
  if (status == MUSTER_OK) status = muster_reducer_finish(reducer, NULL);
  return status;
}

static muster_reducer* make_reducer(muster_communicator* world) {
  size_t const sizes[PARAMETERS] = {10, 20};
  muster_reducer_options options = MUSTER_REDUCER_OPTIONS_DEFAULT;
  muster_reducer* reducer = NULL;
  options.bucket_bytes = 64; /* a measurement takes long over the control plane */
  OK(muster_reducer_new(world, PARAMETERS, sizes, NULL, &options, &reducer));
  return reducer;
}

static muster_job* join(struct saved* saved) {
  muster_join_options options = MUSTER_JOIN_OPTIONS_DEFAULT;
  muster_job* job = NULL;
  options.device = MUSTER_DEVICE_CPU;
  options.tolerate_rank_loss = 1;
  options.operation_timeout_ms = 60000;
  options.stall_warning_ms = 250;
  options.abort_grace_ms = 0;
  OK(muster_join(&options, &job));
  FAILS(muster_on_rank_lost(job, NULL, NULL, 1000), MUSTER_USAGE, MUSTER_ERROR_USAGE, "the function is null");
  FAILS(muster_on_rank_lost(NULL, save, saved, 1000), MUSTER_USAGE, MUSTER_ERROR_USAGE, "the job is null");
  FAILS(muster_shrink(NULL, 1000), MUSTER_USAGE, MUSTER_ERROR_USAGE, "the job is null");
  OK(muster_on_rank_lost(job, save, saved, 1000));
  return job;
}

int main(int argc, char** argv) {
  struct saved saved = {0, -1, 0};
  muster_job* const job = join(&saved);
  int const lost = argc > 1 ? atoi(argv[1]) : 1, ranks = muster_size(job), rank = muster_rank(job);
  muster_communicator* world = NULL;
  muster_reducer* reducer;
  int step, status = MUSTER_OK;
  if (ranks > 1) FAILS(muster_shrink(job, 1000), MUSTER_USAGE, MUSTER_ERROR_USAGE, "no rank was lost");
  OK(muster_world(job, &world));
  reducer = make_reducer(world);
  for (step = 0; status == MUSTER_OK; ++step) {
    if (step == 5 && rank == lost) {
      sleep_ms(3000);
      raise(SIGKILL);
    }
    if (step == 5 && rank == (lost + 1) % ranks) sleep_ms(6000);
    CHECK(step < 20);
    status = reduce(world, reducer);
  }
  CHECK(status == MUSTER_TEMPORARY && muster_last_error_code() == MUSTER_ERROR_LOST_RANK);
  CHECK(saved.calls == 1 && saved.lost == lost && saved.text > 0);
  muster_reducer_free(reducer);
  muster_communicator_free(world);
  OK(muster_shrink(job, 60000));
  CHECK(muster_size(job) == ranks - 1 && muster_rank(job) == (rank > lost ? rank - 1 : rank));
  OK(muster_world(job, &world));
  reducer = make_reducer(world);
  for (step = 0; step < 5; ++step) OK(reduce(world, reducer));
  if (muster_rank(job) == 0) {
    printf("going on with %d on %s, saved after the loss of rank %d\n", muster_communicator_size(world),
           muster_backend(world), saved.lost);
  }
  muster_reducer_free(reducer);
  muster_communicator_free(world);
  OK(muster_leave(job));
  muster_job_free(job);
  return 0;
}
