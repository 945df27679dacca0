/* SPDX-License-Identifier: Apache-2.0 */
/* Joins, communicates and leaves from C99, on as many ranks as the launcher started. With "abandon", the last
 * rank ends for a reason of its own after the first all-reduce. */
#include "checks.h"

#define ELEMENTS 1000

struct longer_options {
  muster_join_options known;
  int64_t later;
};

static void check_refused_joins(void) {
  muster_job* job = (muster_job*)&job;
  muster_join_options options = MUSTER_JOIN_OPTIONS_DEFAULT;
  struct longer_options longer = {MUSTER_JOIN_OPTIONS_DEFAULT, 1};
  CHECK(muster_last_error_code() == -1 && strcmp(muster_last_error(), "") == 0);
  FAILS(muster_join_abi(MUSTER_ABI_VERSION + 1, NULL, &job), MUSTER_ENVIRONMENT, MUSTER_ERROR_ENVIRONMENT,
        "build the program again");
  CHECK(job == NULL);
  FAILS(muster_join(NULL, NULL), MUSTER_USAGE, MUSTER_ERROR_USAGE, "null");
  options.size = 0;
  FAILS(muster_join(&options, &job), MUSTER_USAGE, MUSTER_ERROR_USAGE, "size is not set");
  options.size = sizeof options;
  options.device = 7;
  FAILS(muster_join(&options, &job), MUSTER_USAGE, MUSTER_ERROR_USAGE, "device 7");
  options.device = MUSTER_DEVICE_CPU;
  options.tolerate_rank_loss = 2;
  FAILS(muster_join(&options, &job), MUSTER_USAGE, MUSTER_ERROR_USAGE, "tolerate_rank_loss is 2");
  options.tolerate_rank_loss = 0;
  options.cpu_ranks = -1;
  FAILS(muster_join(&options, &job), MUSTER_USAGE, MUSTER_ERROR_USAGE, "cpu_ranks is -1, not 0 or more");
  longer.known.size = sizeof longer;
  FAILS(muster_join(&longer.known, &job), MUSTER_USAGE, MUSTER_ERROR_USAGE, "does not know");
}

static void check_null_handles(void) {
  float value = 0;
  CHECK(muster_rank(NULL) == -1 && muster_size(NULL) == -1 && muster_local_rank(NULL) == -1);
  CHECK(muster_local_size(NULL) == -1 && muster_host_index(NULL) == -1 && muster_host_count(NULL) == -1);
  CHECK(muster_on_gpu(NULL) == -1 && muster_bootstrap(NULL) == NULL && muster_backend(NULL) == NULL);
  CHECK(muster_communicator_rank(NULL) == -1 && muster_communicator_size(NULL) == -1);
  FAILS(muster_leave(NULL), MUSTER_USAGE, MUSTER_ERROR_USAGE, "muster_leave: the job is null");
  FAILS(muster_all_reduce(NULL, &value, &value, 1, MUSTER_FLOAT32, MUSTER_SUM, NULL), MUSTER_USAGE,
        MUSTER_ERROR_USAGE, "muster_all_reduce: the communicator is null");
  muster_abort(NULL);
  muster_job_free(NULL);
  muster_communicator_free(NULL);
}

static void check_store(muster_job* job) {
  char key[32], value[MUSTER_STORE_VALUE_BYTES];
  size_t bytes, count;
  int64_t sum;
  int found;
  sprintf(key, "rank %d", muster_rank(job));
  OK(muster_store_put(job, key, "abc", 3));
  OK(muster_store_get(job, "rank 0", value, sizeof value, &bytes, 10000));
  CHECK(bytes == 3 && memcmp(value, "abc", 3) == 0);
  OK(muster_store_add(job, "sum", 2, &sum));
  OK(muster_store_append(job, "text", "d", 1));
  OK(muster_barrier(job, "store", 60000));
  OK(muster_store_add(job, "sum", 0, &sum));
  CHECK(sum == 2 * muster_size(job));
  OK(muster_store_get(job, "text", value, 1, &bytes, 0));
  CHECK(bytes == (size_t)muster_size(job) && value[0] == 'd');
  OK(muster_store_compare_set(job, "none", "x", 1, "y", 1, value, sizeof value, &bytes, &found));
  CHECK(found == 0 && bytes == 0);
  OK(muster_store_compare_set(job, "rank 0", "x", 1, NULL, 0, value, sizeof value, &bytes, &found));
  CHECK(found == 1 && bytes == 3);
  OK(muster_store_num_keys(job, &count));
  CHECK(count == (size_t)muster_size(job) + 2);
  OK(muster_barrier(job, "stored", 60000));
  OK(muster_store_delete_key(job, key, &found));
  CHECK(found == 1);
  OK(muster_store_check(job, key, &found));
  CHECK(found == 0);
  FAILS(muster_store_get(job, "none", value, sizeof value, &bytes, 1), MUSTER_TEMPORARY,
        MUSTER_ERROR_DEADLINE, "no rank put 'none'");
  FAILS(muster_store_put(job, NULL, "", 0), MUSTER_USAGE, MUSTER_ERROR_USAGE, "the key is null");
  FAILS(muster_store_put(job, "x", NULL, 1), MUSTER_USAGE, MUSTER_ERROR_USAGE, "the value is null");
}

static void check_roster(const muster_job* job) {
  muster_hello hello = {0};
  int rank;
  FAILS(muster_roster_entry(job, 0, &hello), MUSTER_USAGE, MUSTER_ERROR_USAGE, "size is not set");
  hello.size = sizeof hello;
  FAILS(muster_roster_entry(job, muster_size(job), &hello), MUSTER_USAGE, MUSTER_ERROR_USAGE, "is not in 0");
  for (rank = 0; rank < muster_size(job); ++rank) {
    OK(muster_roster_entry(job, rank, &hello));
    CHECK(hello.rank == rank && hello.pid > 0 && strlen(hello.host) > 0 && hello.gpu != NULL);
    CHECK(strcmp(hello.muster_version, muster_version()) == 0);
  }
  /* A program that knows fewer members than the library. */
  hello.size = offsetof(muster_hello, pid);
  hello.pid = -5;
  OK(muster_roster_entry(job, 0, &hello));
  CHECK(hello.rank == 0 && hello.pid == -5);
}

static void check_timings(const muster_job* job) {
  muster_timings timings = {0};
  FAILS(muster_read_timings(job, &timings), MUSTER_USAGE, MUSTER_ERROR_USAGE, "size is not set");
  timings.size = sizeof timings;
  FAILS(muster_read_timings(NULL, &timings), MUSTER_USAGE, MUSTER_ERROR_USAGE, "the job is null");
  OK(muster_read_timings(job, &timings));
  CHECK(timings.join_ms > 0 && timings.bootstrap_ms > 0 && timings.join_ms >= timings.bootstrap_ms);
  CHECK(timings.nccl_id_ms == 0 && timings.nccl_init_ms == 0);
  CHECK(timings.size == sizeof timings && timings.host_world_ms > 0);
  timings.size = offsetof(muster_timings, bootstrap_ms);
  timings.bootstrap_ms = -5;
  OK(muster_read_timings(job, &timings));
  CHECK(timings.bootstrap_ms == -5 && timings.size == offsetof(muster_timings, bootstrap_ms));
}

static void check_collectives(muster_communicator* world) {
  int const rank = muster_communicator_rank(world), ranks = muster_communicator_size(world);
  size_t const all_count = (size_t)ranks * ELEMENTS;
  float* all = malloc(all_count * sizeof *all);
  double values[ELEMENTS], more[ELEMENTS];
  float mine[ELEMENTS];
  int64_t largest = rank, product;
  size_t i;
  CHECK(all != NULL);
  for (i = 0; i < ELEMENTS; ++i) {
    values[i] = rank + (double)i;
    mine[i] = (float)(rank * 1000) + (float)i;
  }
  OK(muster_all_reduce(world, values, values, ELEMENTS, MUSTER_FLOAT64, MUSTER_SUM, NULL));
  for (i = 0; i < ELEMENTS; ++i) CHECK(values[i] == ranks * (ranks - 1) / 2 + ranks * (double)i);
  OK(muster_all_reduce(world, &largest, &largest, 1, MUSTER_INT64, MUSTER_MAX, NULL));
  CHECK(largest == ranks - 1);
  OK(muster_all_reduce(world, values, more, ELEMENTS, MUSTER_FLOAT64, MUSTER_MIN, NULL));
  CHECK(memcmp(values, more, sizeof values) == 0);
  product = rank + 1;
  OK(muster_all_reduce(world, &product, &product, 1, MUSTER_INT64, MUSTER_PRODUCT, NULL));
  CHECK(product == (ranks == 1 ? 1 : 2));
  product = rank + 1;
  OK(muster_reduce(world, &product, 1, MUSTER_INT64, MUSTER_SUM, ranks - 1, NULL));
  CHECK(product == (rank == ranks - 1 ? ranks * (ranks + 1) / 2 : rank + 1));
  OK(muster_all_gather(world, mine, ELEMENTS, all, MUSTER_FLOAT32, NULL));
  for (i = 0; i < all_count; ++i) CHECK(all[i] == (float)(i / ELEMENTS * 1000 + i % ELEMENTS));
  OK(muster_reduce_scatter(world, all, mine, ELEMENTS, MUSTER_FLOAT32, MUSTER_AVERAGE, NULL));
  for (i = 0; i < ELEMENTS; ++i) CHECK(mine[i] == (float)(rank * 1000) + (float)i);
  OK(muster_broadcast(world, mine, ELEMENTS, MUSTER_FLOAT32, ranks - 1, NULL));
  CHECK(mine[5] == (float)((ranks - 1) * 1000 + 5));
  if (ranks > 1 && rank == 0) OK(muster_send(world, values, ELEMENTS, MUSTER_FLOAT64, 1, NULL));
  if (rank == 1) OK(muster_recv(world, values, ELEMENTS, MUSTER_FLOAT64, 0, NULL));
  OK(muster_communicator_barrier(world, NULL));
  OK(muster_synchronize(world, NULL));
  FAILS(muster_broadcast(world, mine, 1, MUSTER_FLOAT32, ranks, NULL), MUSTER_USAGE, MUSTER_ERROR_USAGE,
        "is not in 0");
  FAILS(muster_all_reduce(world, mine, mine, 1, 99, MUSTER_SUM, NULL), MUSTER_USAGE, MUSTER_ERROR_USAGE,
        "not an element type");
  FAILS(muster_all_reduce(world, mine, mine, 1, MUSTER_FLOAT32, 99, NULL), MUSTER_USAGE, MUSTER_ERROR_USAGE,
        "not a reduction");
  FAILS(muster_all_reduce(world, NULL, NULL, 1, MUSTER_FLOAT32, MUSTER_SUM, NULL), MUSTER_USAGE,
        MUSTER_ERROR_USAGE, "null");
  CHECK(muster_last_error_reported_elsewhere() == 0);
  free(all);
}

/* Rank r has r + 1 elements of the value r. */
static void check_shares(muster_communicator* world) {
  int const rank = muster_communicator_rank(world), ranks = muster_communicator_size(world);
  size_t const all_count = (size_t)(ranks * (ranks + 1) / 2);
  size_t* counts = malloc((size_t)ranks * sizeof *counts);
  int32_t* mine = malloc((size_t)(rank + 1) * sizeof *mine);
  int32_t* all = malloc(all_count * sizeof *all);
  int32_t* to_all = malloc((size_t)ranks * sizeof *to_all);
  int32_t* from_all = malloc((size_t)ranks * sizeof *from_all);
  size_t* recv_counts = malloc((size_t)ranks * sizeof *recv_counts);
  int32_t* slices = malloc((size_t)(ranks * (rank + 1)) * sizeof *slices);
  size_t at = 0, i;
  int r;
  CHECK(counts != NULL && mine != NULL && all != NULL && to_all != NULL && from_all != NULL);
  CHECK(recv_counts != NULL && slices != NULL);
  for (r = 0; r < ranks; ++r) {
    counts[r] = (size_t)r + 1;
    to_all[r] = rank * 100 + r;
  }
  for (r = 0; r <= rank; ++r) mine[r] = rank;
  OK(muster_all_gather_v(world, mine, all, counts, MUSTER_INT32, NULL));
  for (r = 0; r < ranks; ++r)
    for (i = 0; i < counts[r]; ++i) CHECK(all[at++] == r);
  OK(muster_all_to_all(world, to_all, from_all, 1, MUSTER_INT32, NULL));
  for (r = 0; r < ranks; ++r) CHECK(from_all[r] == r * 100 + rank);
  /* Every rank's `all` is the same. */
  OK(muster_reduce_scatter_v(world, all, mine, counts, MUSTER_INT32, MUSTER_SUM, NULL));
  for (r = 0; r <= rank; ++r) CHECK(mine[r] == rank * ranks);
  /* Rank r sends its number to every rank s as often as s says. */
  for (r = 0; r < ranks; ++r) {
    recv_counts[r] = (size_t)rank + 1;
    for (i = 0; i < counts[r]; ++i) all[r * (r + 1) / 2 + (int)i] = rank;
  }
  OK(muster_all_to_all_v(world, all, slices, counts, recv_counts, MUSTER_INT32, NULL));
  for (r = 0; r < ranks; ++r)
    for (i = 0; i < recv_counts[r]; ++i) CHECK(slices[(size_t)r * recv_counts[r] + i] == r);
  FAILS(muster_all_to_all_v(world, all, slices, counts, NULL, MUSTER_INT32, NULL), MUSTER_USAGE,
        MUSTER_ERROR_USAGE, "list of counts is null");
  ++recv_counts[rank];
  FAILS(muster_all_to_all_v(world, all, slices, counts, recv_counts, MUSTER_INT32, NULL), MUSTER_USAGE,
        MUSTER_ERROR_USAGE, "sends itself");
  free(recv_counts);
  free(slices);
  FAILS(muster_all_gather_v(world, mine, all, NULL, MUSTER_INT32, NULL), MUSTER_USAGE, MUSTER_ERROR_USAGE,
        "null");
  free(counts);
  free(mine);
  free(all);
  free(to_all);
  free(from_all);
}

/* Each rank sends to the next and receives from the previous one; in this order only grouped calls can. */
static void check_group(muster_communicator* world) {
  int const rank = muster_communicator_rank(world), ranks = muster_communicator_size(world);
  int64_t mine = rank, before = -1, sum = 1;
  muster_group* group = NULL;
  OK(muster_group_begin(world, &group));
  if (ranks > 1) {
    OK(muster_send(world, &mine, 1, MUSTER_INT64, (rank + 1) % ranks, NULL));
    OK(muster_recv(world, &before, 1, MUSTER_INT64, (rank + ranks - 1) % ranks, NULL));
  }
  OK(muster_all_reduce(world, &sum, &sum, 1, MUSTER_INT64, MUSTER_SUM, NULL));
  FAILS(muster_communicator_barrier(world, NULL), MUSTER_USAGE, MUSTER_ERROR_USAGE, "grouped");
  OK(muster_group_issue(group));
  CHECK(sum == ranks && (ranks == 1 || before == (rank + ranks - 1) % ranks));
  OK(muster_group_begin(world, &group));
  OK(muster_all_reduce(world, &sum, &sum, 1, MUSTER_INT64, MUSTER_SUM, NULL));
  muster_group_drop(group);
  OK(muster_communicator_barrier(world, NULL));
  CHECK(sum == ranks);
  FAILS(muster_group_issue(NULL), MUSTER_USAGE, MUSTER_ERROR_USAGE, "null");
}

static void check_premul_sum(muster_communicator* world) {
  int const rank = muster_communicator_rank(world), ranks = muster_communicator_size(world);
  float value = 2;
  int32_t integer = 1;
  FAILS(muster_all_reduce(world, &value, &value, 1, MUSTER_FLOAT32, MUSTER_PREMUL_SUM, NULL), MUSTER_USAGE,
        MUSTER_ERROR_USAGE, "muster_premul_factor() was not called");
  OK(muster_premul_factor(world, rank + 1));
  OK(muster_all_reduce(world, &value, &value, 1, MUSTER_FLOAT32, MUSTER_PREMUL_SUM, NULL));
  CHECK(value == (float)(ranks * (ranks + 1)));
  FAILS(muster_all_reduce(world, &integer, &integer, 1, MUSTER_INT32, MUSTER_PREMUL_SUM, NULL), MUSTER_USAGE,
        MUSTER_ERROR_USAGE, "for floats");
  FAILS(muster_premul_factor(NULL, 1), MUSTER_USAGE, MUSTER_ERROR_USAGE, "null");
}

static void check_async(muster_communicator* world) {
  int const ranks = muster_communicator_size(world);
  int64_t sum = 1, largest = muster_communicator_rank(world);
  int complete = 0;
  muster_group* group = NULL;
  muster_work *first = NULL, *second = NULL;
  OK(muster_all_reduce_async(world, &sum, &sum, 1, MUSTER_INT64, MUSTER_SUM, NULL, &first));
  OK(muster_group_begin(world, &group));
  OK(muster_all_reduce(world, &largest, &largest, 1, MUSTER_INT64, MUSTER_MAX, NULL));
  OK(muster_broadcast(world, &largest, 1, MUSTER_INT64, 0, NULL));
  OK(muster_group_issue_async(group, &second));
  OK(muster_work_wait_for(second, 60000, &complete));
  CHECK(complete == 1);
  OK(muster_work_wait(second));
  CHECK(sum == ranks && largest == ranks - 1);
  OK(muster_work_test(first, &complete));
  CHECK(complete == 1);
  muster_work_free(second);
  muster_work_free(first);
  OK(muster_all_reduce_async(world, &sum, &sum, 1, MUSTER_INT64, MUSTER_SUM, NULL, &first));
  muster_work_free(first);
  CHECK(sum == ranks * ranks);
  FAILS(muster_all_reduce_async(world, &sum, &sum, 1, 99, MUSTER_SUM, NULL, &first), MUSTER_USAGE,
        MUSTER_ERROR_USAGE, "not an element type");
  CHECK(first == NULL);
  FAILS(muster_work_wait(NULL), MUSTER_USAGE, MUSTER_ERROR_USAGE, "the work is null");
  FAILS(muster_work_wait_for(NULL, 0, &complete), MUSTER_USAGE, MUSTER_ERROR_USAGE, "the work is null");
  OK(muster_communicator_barrier(world, NULL));
}

static void check_split(muster_communicator* world) {
  muster_communicator* part = NULL;
  OK(muster_split(world, muster_communicator_rank(world) % 2, 0, &part));
  CHECK(muster_communicator_size(part) ==
        (muster_communicator_size(world) + (muster_communicator_rank(world) % 2 == 0)) / 2);
  check_collectives(part);
  muster_communicator_free(part);
  FAILS(muster_split(world, -1, 0, &part), MUSTER_USAGE, MUSTER_ERROR_USAGE, "negative");
  CHECK(part == NULL);
}

static void check_metrics(const muster_job* job) {
  int const span = muster_span_begin("metrics");
  size_t length = 0;
  char* text;
  char few[8];
  OK(muster_metrics_text(job, muster_size(job) - 1, 20000, NULL, 0, &length));
  CHECK(length > 100);
  text = malloc(length + 100);
  CHECK(text != NULL);
  OK(muster_metrics_text(job, muster_rank(job), 20000, text, length + 100, &length));
  CHECK(strlen(text) == length && strstr(text, "muster_operations_total{") != NULL);
  OK(muster_metrics_text(job, muster_rank(job), 20000, few, sizeof few, NULL));
  CHECK(strcmp(few, "# HELP ") == 0);
  FAILS(muster_metrics_text(job, muster_size(job), 0, few, sizeof few, NULL), MUSTER_USAGE,
        MUSTER_ERROR_USAGE, "is not in 0");
  free(text);
  muster_span_end(span);
  muster_span_end(muster_span_begin(NULL));
}

/* The last rank aborts; the others notice and print nothing. */
static int abort_job(muster_job* job, muster_communicator* world) {
  int status = MUSTER_OK;
  if (muster_rank(job) == muster_size(job) - 1) {
    fprintf(stderr, "c_program: rank %d ends for a reason of its own\n", muster_rank(job));
    muster_communicator_free(world);
    muster_abort(job);
    muster_job_free(job);
    return 1;
  }
  status = muster_communicator_barrier(world, NULL);
  CHECK(status == MUSTER_TEMPORARY && muster_last_error_code() == MUSTER_ERROR_LOST_RANK);
  if (!muster_last_error_reported_elsewhere())
    fprintf(stderr, "c_program: rank %d: %s\n", muster_rank(job), muster_last_error());
  muster_communicator_free(world);
  muster_job_free(job);
  return status;
}

/* Each rank reduces another number of elements. */
static int disagree(muster_job* job, muster_communicator* world) {
  double values[2] = {1, 1};
  const size_t count = muster_rank(job) == 0 ? 1 : 2;
  const int status = muster_all_reduce(world, values, values, count, MUSTER_FLOAT64, MUSTER_SUM, NULL);
  CHECK(status == MUSTER_USAGE);
  if (!muster_last_error_reported_elsewhere())
    fprintf(stderr, "c_program: rank %d: %s\n", muster_rank(job), muster_last_error());
  muster_communicator_free(world);
  muster_job_free(job);
  return status;
}

int main(int argc, char** argv) {
  muster_join_options options = MUSTER_JOIN_OPTIONS_DEFAULT;
  muster_job* job = NULL;
  muster_communicator *world = NULL, *host = NULL;
  int status;
  CHECK(muster_abi_version() == MUSTER_ABI_VERSION);
  check_refused_joins();
  check_null_handles();
  options.device = MUSTER_DEVICE_CPU;
  /* A program built before later members were added. */
  options.size = offsetof(muster_join_options, stall_warning_ms);
  options.stall_warning_ms = options.abort_grace_ms = options.cpu_ranks = INT64_MIN;
  if (argc == 1) options.heartbeat_timeout_ms = INT64_MAX;
  status = muster_join(&options, &job);
  if (status != MUSTER_OK) {
    if (!muster_last_error_reported_elsewhere()) fprintf(stderr, "c_program: %s\n", muster_last_error());
    return status;
  }
  CHECK(muster_rank(job) >= 0 && muster_rank(job) < muster_size(job) && muster_on_gpu(job) == 0);
  CHECK(muster_local_rank(job) < muster_local_size(job) && muster_host_index(job) < muster_host_count(job));
  CHECK(strlen(muster_bootstrap(job)) > 0);
  OK(muster_world(job, &world));
  CHECK(strlen(muster_backend(world)) > 0);
  if (argc > 1 && strcmp(argv[1], "abort") == 0) return abort_job(job, world);
  if (argc > 1 && strcmp(argv[1], "disagree") == 0) return disagree(job, world);
  check_roster(job);
  check_store(job);
  check_timings(job);
  check_collectives(world);
  check_shares(world);
  check_group(world);
  check_premul_sum(world);
  check_async(world);
  check_split(world);
  check_metrics(job);
  OK(muster_intra_node(job, &host));
  CHECK(muster_communicator_rank(host) == muster_local_rank(job));
  CHECK(muster_communicator_size(host) == muster_local_size(job));
  muster_communicator_free(host);
  OK(muster_inter_node(job, &host));
  CHECK(muster_communicator_rank(host) == muster_host_index(job));
  muster_communicator_free(host);
  OK(muster_host_world(job, &host));
  CHECK(muster_communicator_rank(host) == muster_rank(job));
  muster_communicator_free(host);
  OK(muster_barrier(job, "done", 60000));
  FAILS(muster_barrier(job, NULL, 0), MUSTER_USAGE, MUSTER_ERROR_USAGE, "name is null");
  muster_communicator_free(world);
  OK(muster_leave(job));
  FAILS(muster_world(job, &world), MUSTER_USAGE, MUSTER_ERROR_USAGE, "left already");
  muster_job_free(job);
  return 0;
}
