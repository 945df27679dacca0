/* SPDX-License-Identifier: Apache-2.0 */
/* On four ranks, of which rank 0 is a parameter server: rank 3 kills itself, and the others go on without it.
 * Rank 0 prints "sum N, lost rank 3". */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <time.h>

#include "checks.h"

#define ELEMENTS 20
#define CLOCKS 6

static int add(const muster_parameter_update* update, void* context) {
  float* const slice = context;
  size_t i;
  CHECK(update->size >= sizeof *update && update->argument_count == 1 && update->arguments[0] == 0.5);
  for (i = 0; i < update->elements; ++i) slice[i] += update->gradient[i];
  return MUSTER_OK;
}

static muster_job* join(void) {
  muster_join_options options = MUSTER_JOIN_OPTIONS_DEFAULT;
  muster_job* job = NULL;
  int const workers[] = {1, 2, 3};
  int const none = 9;
  options.device = MUSTER_DEVICE_CPU;
  options.tolerate_rank_loss = 1;
  OK(muster_join(&options, &job));
  FAILS(muster_survive_loss_of(job, &none, 1, 1000), MUSTER_USAGE, MUSTER_ERROR_USAGE, "rank 9 is not in 1");
  OK(muster_survive_loss_of(job, workers, 3, 60000));
  return job;
}

/* Until rank 3 is lost, which by then has a task of the clock. */
static void wait_for_loss(muster_job* job) {
  struct timespec const moment = {0, 1000000};
  int lost, waits;
  size_t count = 0;
  for (waits = 0; count == 0 && waits < 60000; ++waits) {
    nanosleep(&moment, NULL);
    OK(muster_lost_ranks(job, &lost, 1, &count));
  }
}

static void work(muster_job* job, muster_parameter_client* client) {
  int const rank = muster_rank(job);
  float parameters[ELEMENTS], gradient[ELEMENTS];
  double const argument = 0.5, one = 1;
  uint64_t clock;
  size_t i;
  for (i = 0; i < ELEMENTS; ++i) gradient[i] = 1;
  for (clock = 0; clock < CLOCKS; ++clock) {
    muster_parameter_task task;
    int found = 0, complete = 0;
    double sum = 0;
    if (rank != 3 && clock == 2) wait_for_loss(job);
    while (!complete) {
      OK(muster_parameter_take(client, clock, &found, &task));
      if (found && rank == 3 && clock == 2) raise(SIGKILL);
      if (found) {
        OK(muster_parameter_pull(client, task.clock, parameters));
        CHECK(parameters[0] == (float)(4 * clock));
        OK(muster_parameter_push(client, task, gradient, &argument, 1, &one, 1));
        OK(muster_parameter_flush(client));
      } else {
        OK(muster_parameter_wait_for(client, clock, &complete, &sum, 1));
      }
    }
    CHECK(sum == 4);
  }
}

/* Rank 1 reads ahead of its own push, and the next pull takes that. A pull after it has the push. */
static void check_prefetch(muster_job* job) {
  muster_parameter_server_options options = MUSTER_PARAMETER_SERVER_OPTIONS_DEFAULT;
  muster_parameter_server* server = NULL;
  muster_parameter_client* client = NULL;
  float slice[ELEMENTS] = {0}, parameters[ELEMENTS], gradient[ELEMENTS] = {1};
  float* const arrays[] = {slice};
  muster_parameter_task const task = {0, 0};
  double const argument = 0.5;
  options.staleness = MUSTER_UNBOUNDED;
  options.name = "read ahead";
  if (muster_rank(job) == 0)
    OK(muster_parameter_server_new(job, ELEMENTS, arrays, 1, add, slice, &options, &server));
  OK(muster_parameter_client_new(job, ELEMENTS, &options, &client));
  FAILS(muster_parameter_prefetch(NULL, 0), MUSTER_USAGE, MUSTER_ERROR_USAGE, "the client is null");
  if (muster_rank(job) == 1) {
    OK(muster_parameter_prefetch(client, 1));
    OK(muster_parameter_push(client, task, gradient, &argument, 1, NULL, 0));
    OK(muster_parameter_flush(client));
    OK(muster_parameter_pull(client, 1, parameters));
    CHECK(parameters[0] == 0);
    OK(muster_parameter_pull(client, 1, parameters));
    CHECK(parameters[0] == 1);
  }
  muster_parameter_client_free(client);
  OK(muster_barrier(job, "read ahead", 60000));
  muster_parameter_server_free(server);
}

int main(void) {
  muster_parameter_server_options options = MUSTER_PARAMETER_SERVER_OPTIONS_DEFAULT;
  muster_job* const job = join();
  muster_parameter_server* server = NULL;
  muster_parameter_client* client = NULL;
  float slice[ELEMENTS] = {0}, values[ELEMENTS] = {0};
  float* const arrays[] = {slice};
  size_t begin = 1, end = 1;
  int lost[4], i;
  size_t lost_count = 0;
  check_prefetch(job);
  options.tasks_per_clock = 4;
  FAILS(muster_parameter_client_new(job, ELEMENTS, &options, &client), MUSTER_USAGE, MUSTER_ERROR_USAGE,
        "need deals_tasks");
  options.deals_tasks = 1;
  OK(muster_parameter_slice(ELEMENTS, &options, 0, &begin, &end));
  CHECK(begin == 0 && end == ELEMENTS);
  if (muster_rank(job) == 0)
    OK(muster_parameter_server_new(job, ELEMENTS, arrays, 1, add, slice, &options, &server));
  OK(muster_parameter_client_new(job, ELEMENTS, &options, &client));
  CHECK(muster_parameter_worker(client) == muster_rank(job) - 1);
  if (muster_rank(job) == 0) OK(muster_parameter_write(client, 0, values));
  OK(muster_barrier(job, "begin", 60000));
  if (muster_rank(job) > 0) work(job, client);
  OK(muster_barrier(job, "end", 60000));
  OK(muster_parameter_read(client, 0, values));
  for (i = 0; i < ELEMENTS; ++i) CHECK(values[i] == 4 * CLOCKS);
  muster_parameter_client_free(client);
  OK(muster_barrier(job, "freed", 60000));
  if (server != NULL) OK(muster_parameter_server_check(server));
  muster_parameter_server_free(server);
  OK(muster_lost_ranks(job, lost, 4, &lost_count));
  CHECK(lost_count == 1);
  if (muster_rank(job) == 0) printf("sum %g, lost rank %d\n", values[0], lost[0]);
  OK(muster_leave(job));
  muster_job_free(job);
  return 0;
}
