/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of a training loop to muster.h, from C99, on as many ranks as the launcher started: sampler,
 * state, averages, sections on rank 0, and the reducer in c_reducer.c. */
#include "checks.h"

#define SAMPLES 100

/* An epoch of batches of 8 for `ranks` ranks, from `position` on: each sample occurs once. */
static void check_epoch(int ranks, muster_sampler_position position) {
  int times[SAMPLES] = {0};
  muster_sampler* samplers[4];
  muster_batch batch = {sizeof batch, NULL, 0, 0, {0, 0, 0}};
  size_t i, taken = position.offset;
  int rank;
  for (rank = 0; rank < ranks; ++rank)
    OK(muster_sampler_new(SAMPLES, rank, ranks, &position, 1, &samplers[rank]));
  while (taken < SAMPLES) {
    size_t all = 0;
    for (rank = 0; rank < ranks; ++rank) {
      OK(muster_sampler_next(samplers[rank], 8, &batch));
      CHECK(batch.begin.offset == taken && batch.global == (taken == 96 ? 4 : 8));
      for (i = 0; i < batch.count; ++i) ++times[batch.samples[i]];
      all += batch.count;
    }
    CHECK(all == batch.global);
    taken += all;
  }
  OK(muster_sampler_tell(samplers[0], &position));
  CHECK(position.offset == SAMPLES && position.epoch == 2);
  for (rank = 0; rank < ranks; ++rank) muster_sampler_free(samplers[rank]);
  for (i = 0; i < SAMPLES; ++i) CHECK(times[i] <= 1);
}

static void check_sampler(void) {
  muster_sampler_position position = {7, 2, 0};
  muster_sampler* sampler = (muster_sampler*)&sampler;
  muster_batch batch = {0};
  uint64_t begin, end, sample;
  int ranks;
  OK(muster_share_of(10, 1, 3, &begin, &end));
  CHECK(begin == 4 && end == 7);
  FAILS(muster_share_of(10, 3, 3, &begin, &end), MUSTER_USAGE, MUSTER_ERROR_USAGE, "rank 3 is not in 0");
  FAILS(muster_share_of(10, 0, 0, &begin, &end), MUSTER_USAGE, MUSTER_ERROR_USAGE, "is not in 0");
  for (ranks = 1; ranks <= 4; ++ranks) {
    position.offset = 0;
    check_epoch(ranks, position);
    position.offset = 40; /* as from a checkpoint */
    check_epoch(ranks, position);
  }
  FAILS(muster_sampler_new(0, 0, 1, NULL, 1, &sampler), MUSTER_USAGE, MUSTER_ERROR_USAGE, "no samples");
  CHECK(sampler == NULL);
  FAILS(muster_sampler_new(5, 0, 1, NULL, 2, &sampler), MUSTER_USAGE, MUSTER_ERROR_USAGE, "shuffle is 2");
  OK(muster_sampler_new(5, 0, 1, NULL, 0, &sampler));
  FAILS(muster_sampler_next(sampler, 4, &batch), MUSTER_USAGE, MUSTER_ERROR_USAGE, "size is not set");
  batch.size = sizeof batch;
  FAILS(muster_sampler_next(sampler, 0, &batch), MUSTER_USAGE, MUSTER_ERROR_USAGE, "0 samples");
  OK(muster_sampler_next(sampler, 4, &batch));
  CHECK(batch.count == 4 && batch.samples[3] == 3 && batch.begin.offset == 0);
  OK(muster_sampler_at(sampler, 9, 4, &sample));
  CHECK(sample == 4);
  FAILS(muster_sampler_at(sampler, 0, 5, &sample), MUSTER_USAGE, MUSTER_ERROR_USAGE, "place 5");
  muster_sampler_free(sampler);
  FAILS(muster_sampler_next(NULL, 4, &batch), MUSTER_USAGE, MUSTER_ERROR_USAGE, "the sampler is null");
}

static void check_state(muster_communicator* world) {
  int const rank = muster_communicator_rank(world);
  size_t const floats = 50000; /* more than is sent together with other parts */
  float* parameters = malloc(floats * sizeof *parameters);
  int64_t step = rank == 0 ? 42 : 0;
  char* text = NULL;
  void* data = NULL;
  size_t length = 0, i;
  muster_state* state = NULL;
  CHECK(parameters != NULL);
  for (i = 0; i < floats; ++i) parameters[i] = (float)rank + (float)i;
  if (rank == 0) {
    data = malloc(9);
    CHECK(data != NULL);
    memcpy(data, "cosine, 3", length = 9);
  }
  OK(muster_state_new(&state));
  OK(muster_state_add(state, parameters, floats * sizeof *parameters));
  OK(muster_state_add(state, &step, sizeof step));
  OK(muster_state_add_sized(state, &data, &length));
  OK(muster_broadcast_state(world, state, NULL));
  OK(muster_broadcast_state(world, state, NULL)); /* into the memory that the other ranks have now */
  text = data;
  CHECK(step == 42 && parameters[49999] == 49999.0f && length == 9 && memcmp(text, "cosine, 3", 9) == 0);
  CHECK(rank == 0 || text[9] == '\0');
  FAILS(muster_state_add(state, NULL, 1), MUSTER_USAGE, MUSTER_ERROR_USAGE, "the part is null");
  FAILS(muster_broadcast_state(world, NULL, NULL), MUSTER_USAGE, MUSTER_ERROR_USAGE, "the state is null");
  if (muster_communicator_size(world) > 1) {
    if (rank == 1) OK(muster_state_add(state, &step, sizeof step));
    FAILS(muster_broadcast_state(world, state, NULL), MUSTER_USAGE, MUSTER_ERROR_USAGE,
          "rank 1 has other parts");
    CHECK(muster_last_error_reported_elsewhere() == (rank != 0));
  }
  muster_state_free(state);
  free(parameters);
  free(data);
}

static void check_averages(muster_communicator* world) {
  int const rank = muster_communicator_rank(world), ranks = muster_communicator_size(world);
  muster_average averages[2] = {{0, 0}, {0, 0}};
  double mean = 0, expected = 0;
  int r;
  for (r = 0; r < ranks; ++r) expected += r * (r + 1);
  expected /= ranks * (ranks + 1) / 2;
  averages[0].sum = rank * (rank + 1);
  averages[0].weight = rank + 1;
  OK(muster_average_over_ranks(world, averages, 2));
  CHECK(averages[0].sum / averages[0].weight == expected && averages[1].weight == 0);
  OK(muster_weighted_average(world, rank, rank + 1, &mean));
  CHECK(mean == expected);
  OK(muster_average_over_ranks(world, NULL, 0));
  FAILS(muster_average_over_ranks(world, NULL, 1), MUSTER_USAGE, MUSTER_ERROR_USAGE, "averages is null");
  FAILS(muster_weighted_average(NULL, 1, 1, &mean), MUSTER_USAGE, MUSTER_ERROR_USAGE, "communicator is null");
}

static int count_up(void* count) {
  ++*(int*)count;
  return 0;
}
static int no_room(void* unused) {
  (void)unused;
  return muster_set_error(MUSTER_ERROR_SYSTEM, "save: no room on /data\nfor 3 GB");
}
static int misuse(void* unused) {
  (void)unused;
  return muster_sampler_new(0, 0, 1, NULL, 1, NULL);
}
static int other_number(void* unused) {
  (void)misuse(unused);
  return 7;
}

static void check_rank_0(muster_job* job) {
  int count = 0;
  OK(muster_on_rank_0(job, "count", count_up, &count, 60000));
  CHECK(count == (muster_rank(job) == 0));
  FAILS(muster_on_rank_0(job, "save", no_room, NULL, 60000), MUSTER_SYSTEM, MUSTER_ERROR_SYSTEM,
        "save: no room on /data for 3 GB");
  CHECK(muster_last_error_reported_elsewhere() == (muster_rank(job) != 0));
  FAILS(muster_on_rank_0(job, "sampler", misuse, NULL, 60000), MUSTER_USAGE, MUSTER_ERROR_USAGE,
        "place for the sampler is null");
  FAILS(muster_on_rank_0(job, "number", other_number, NULL, 60000), MUSTER_SYSTEM, MUSTER_ERROR_SYSTEM,
        "number: the section returned 7");
  FAILS(muster_on_rank_0(job, "none", NULL, NULL, 60000), MUSTER_USAGE, MUSTER_ERROR_USAGE,
        "the section is null");
  FAILS(muster_on_rank_0(job, NULL, no_room, NULL, 60000), MUSTER_USAGE, MUSTER_ERROR_USAGE,
        "the name is null");
  FAILS(muster_set_error(17, "text"), MUSTER_USAGE, MUSTER_ERROR_USAGE, "code 17");
  FAILS(muster_set_error(MUSTER_ERROR_DEVICE, NULL), MUSTER_USAGE, MUSTER_ERROR_USAGE, "the text is null");
  OK(muster_on_rank_0(job, "again", count_up, &count, 60000));
}

int main(void) {
  muster_join_options options = MUSTER_JOIN_OPTIONS_DEFAULT;
  muster_job* job = NULL;
  muster_communicator* world = NULL;
  check_sampler();
  options.device = MUSTER_DEVICE_CPU;
  options.stall_warning_ms = 20000;
  options.abort_grace_ms = 2000;
  OK(muster_join(&options, &job));
  OK(muster_world(job, &world));
  check_state(world);
  check_averages(world);
  check_rank_0(job);
  check_reducers(world);
  OK(muster_barrier(job, "done", 60000));
  muster_communicator_free(world);
  OK(muster_leave(job));
  muster_job_free(job);
  return 0;
}
