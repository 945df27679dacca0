/* SPDX-License-Identifier: Apache-2.0 */
/* The program of spirals.cpp in C: same model, same numbers, same checkpoint. It explains the model.
 * Usage: spirals_c CHECKPOINT [EPOCHS] */
#include <math.h>
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { hidden = 32, spirals = 3, samples = 3000, batch_samples = 100 };
static const float learning_rate = 0.5f;
static const size_t sizes[4] = {2 * hidden, hidden, hidden* spirals, spirals};

typedef struct network {
  struct {
    float weight1[hidden][2], bias1[hidden], weight2[spirals][hidden], bias2[spirals];
  } values;
  float activations[hidden], probabilities[spirals];
} network;

typedef struct run {
  const char* path;
  network model;
  muster_sampler_position position;
} run;

/* Leaves the running function with the status of a call that failed. */
#define TRY(call)                                   \
  do {                                              \
    int const try_status = (call);                  \
    if (try_status != MUSTER_OK) return try_status; \
  } while (0)

static void forward(network* model, float x, float y) {
  float sum = 0;
  for (int h = 0; h < hidden; ++h)
    model->activations[h] =
        tanhf(model->values.weight1[h][0] * x + model->values.weight1[h][1] * y + model->values.bias1[h]);
  for (int s = 0; s < spirals; ++s) {
    float logit = model->values.bias2[s];
    for (int h = 0; h < hidden; ++h) logit += model->values.weight2[s][h] * model->activations[h];
    sum += model->probabilities[s] = expf(logit);
  }
  for (int s = 0; s < spirals; ++s) model->probabilities[s] /= sum;
}

static void add_gradients(network* model, uint64_t number, float global, float* const gradients[4],
                          muster_average* loss) {
  int const spiral = (int)(number % spirals);
  float const radius = 0.1f + 0.9f * (float)number / samples;
  float const angle = 4 * radius + 2.0943951f * (float)spiral;
  float const x = radius * cosf(angle), y = radius * sinf(angle);
  float back[hidden] = {0};
  forward(model, x, y);
  loss->sum -= logf(model->probabilities[spiral]);
  loss->weight += 1;
  for (int s = 0; s < spirals; ++s) {
    float const error = (model->probabilities[s] - (s == spiral ? 1 : 0)) / global;
    gradients[3][s] += error;
    for (int h = 0; h < hidden; ++h) {
      gradients[2][s * hidden + h] += error * model->activations[h];
      back[h] += error * model->values.weight2[s][h];
    }
  }
  for (int h = 0; h < hidden; ++h) {
    float const error = back[h] * (1 - model->activations[h] * model->activations[h]);
    gradients[0][2 * h] += error * x;
    gradients[0][2 * h + 1] += error * y;
    gradients[1][h] += error;
  }
}

static int step(network* model, const muster_batch* batch, muster_reducer* reducer, muster_average* loss) {
  float* gradients[4];
  float* value = (float*)&model->values;
  for (size_t i = 0; i < 4; ++i) {
    void* memory;
    TRY(muster_reducer_gradient(reducer, i, &memory, NULL));
    gradients[i] = memset(memory, 0, sizes[i] * sizeof(float));
  }
  for (size_t i = 0; i < batch->count; ++i)
    add_gradients(model, batch->samples[i], (float)batch->global, gradients, loss);
  for (size_t i = 4; i-- > 0;) TRY(muster_reducer_ready(reducer, i, NULL));
  TRY(muster_reducer_finish(reducer, NULL));
  for (size_t i = 0; i < 4; ++i)
    for (size_t k = 0; k < sizes[i]; ++k) *value++ -= learning_rate * gradients[i][k];
  return MUSTER_OK;
}

static int file_error(int code, const char* path, const char* what) {
  char line[4200];
  snprintf(line, sizeof line, "%s %s", path, what);
  return muster_set_error(code, line);
}

static int load(void* context) {
  run* const it = context;
  FILE* const file = fopen(it->path, "rb");
  if (file == NULL) return MUSTER_OK; /* a new run */
  int const complete = fread(&it->position, sizeof it->position, 1, file) == 1 &&
                       fread(&it->model.values, sizeof it->model.values, 1, file) == 1;
  fclose(file);
  return complete ? MUSTER_OK
                  : file_error(MUSTER_ERROR_USAGE, it->path, "is not a checkpoint of this program");
}

static int save(void* context) {
  run* const it = context;
  char path[4096];
  snprintf(path, sizeof path, "%s.new", it->path);
  FILE* const file = fopen(path, "wb");
  int written = file != NULL && fwrite(&it->position, sizeof it->position, 1, file) == 1 &&
                fwrite(&it->model.values, sizeof it->model.values, 1, file) == 1;
  if (file != NULL && fclose(file) != 0) written = 0;
  if (written && rename(path, it->path) == 0) return MUSTER_OK;
  return file_error(MUSTER_ERROR_SYSTEM, path, "cannot be written");
}

static int train_epochs(muster_job* job, muster_communicator* world, muster_sampler* sampler,
                        muster_reducer* reducer, run* it, uint64_t epochs) {
  muster_average loss = {0, 0};
  muster_batch batch = {sizeof batch};
  TRY(muster_sampler_tell(sampler, &it->position));
  while (it->position.epoch + (it->position.offset == samples) < epochs) {
    TRY(muster_sampler_next(sampler, batch_samples, &batch));
    TRY(step(&it->model, &batch, reducer, &loss));
    TRY(muster_sampler_tell(sampler, &it->position));
    if (it->position.offset < samples) continue;
    TRY(muster_average_over_ranks(world, &loss, 1));
    if (muster_rank(job) == 0)
      printf("epoch %d: loss %.4f\n", (int)it->position.epoch + 1, loss.sum / loss.weight);
    loss = (muster_average){0, 0};
  }
  return muster_on_rank_0(job, "save", save, it, 60000);
}

static int train(muster_job* job, run* it, uint64_t epochs) {
  muster_communicator* world;
  muster_state* state;
  muster_sampler* sampler;
  muster_reducer* reducer;
  muster_reducer_options options = MUSTER_REDUCER_OPTIONS_DEFAULT;
  options.reduction = MUSTER_SUM;
  TRY(muster_world(job, &world));
  TRY(muster_on_rank_0(job, "load", load, it, 60000));
  TRY(muster_state_new(&state));
  TRY(muster_state_add(state, &it->model.values, sizeof it->model.values));
  TRY(muster_state_add(state, &it->position, sizeof it->position));
  TRY(muster_broadcast_state(world, state, NULL));
  muster_state_free(state);
  TRY(muster_sampler_new(samples, muster_rank(job), muster_size(job), &it->position, 1, &sampler));
  TRY(muster_reducer_new(world, 4, sizes, NULL, &options, &reducer));
  TRY(train_epochs(job, world, sampler, reducer, it, epochs));
  muster_reducer_free(reducer);
  muster_sampler_free(sampler);
  muster_communicator_free(world);
  return muster_leave(job);
}

int main(int argc, char** argv) {
  muster_join_options options = MUSTER_JOIN_OPTIONS_DEFAULT;
  muster_job* job = NULL;
  run it = {.path = argv[1]};
  float* values = (float*)&it.model.values;
  if (argc < 2) {
    fprintf(stderr, "usage: spirals_c CHECKPOINT [EPOCHS]\n");
    return MUSTER_USAGE;
  }
  for (size_t i = 0; i < sizeof it.model.values / sizeof *values; ++i)
    values[i] = 0.5f * sinf(7.0f * (float)(i + 1));
  options.device = MUSTER_DEVICE_CPU;
  int status = muster_join(&options, &job);
  if (status == MUSTER_OK) status = train(job, &it, argc > 2 ? strtoull(argv[2], NULL, 10) : 100);
  if (status != MUSTER_OK) {
    muster_abort(job); /* the process ends, so it frees nothing */
    if (!muster_last_error_reported_elsewhere()) fprintf(stderr, "spirals_c: %s\n", muster_last_error());
    return status;
  }
  muster_job_free(job);
  return MUSTER_OK;
}
