/* SPDX-License-Identifier: Apache-2.0 */
/* Part of muster.h: servers that hold a program's parameters, and their clients. */
#ifndef MUSTER_PARAMETER_SERVER_H
#define MUSTER_PARAMETER_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "muster/communicator.h"
#include "muster/job.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MUSTER_UNBOUNDED (-1)

/* As muster::ParameterServerOptions, which explains each member; equal on all ranks. */
typedef struct muster_parameter_server_options {
  size_t size;              /* sizeof(muster_parameter_server_options) */
  int64_t staleness;        /* clocks; 0: synchronous; MUSTER_UNBOUNDED */
  uint64_t tasks_per_clock; /* 0: one for each worker */
  uint64_t alignment;       /* of slices, in elements */
  int64_t deadline_ms;      /* of every wait */
  const char* name;         /* NULL: "parameters" */
  int32_t servers;          /* ranks 0 to servers-1 */
  int32_t deals_tasks;      /* 1: workers take tasks */
  int32_t wire_type;        /* MUSTER_FLOAT32 or MUSTER_BFLOAT16 */
  int32_t reserved;         /* 0 */
} muster_parameter_server_options;
#define MUSTER_PARAMETER_SERVER_OPTIONS_DEFAULT \
  { sizeof(muster_parameter_server_options), 0, 0, 16, 600000, NULL, 1, 0, MUSTER_FLOAT32, 0 }

/* As muster::ParameterTask. */
typedef struct muster_parameter_task {
  uint64_t clock;
  uint64_t index;
} muster_parameter_task;

/* As muster::ParameterUpdate: the argument of the update function. Valid until it returns. */
typedef struct muster_parameter_update {
  size_t size; /* sizeof(muster_parameter_update) */
  muster_parameter_task task;
  const float* gradient; /* of the server's slice */
  size_t elements;
  const double* arguments;
  size_t argument_count;
} muster_parameter_update;
/* Called in the server's thread. Returns MUSTER_OK, or a status whose reason is muster_set_error()'s. */
typedef int (*muster_update)(const muster_parameter_update* update, void* context);

/* As muster::ParameterServer: this rank's slice, in a thread of its own. */
typedef struct muster_parameter_server muster_parameter_server;
/* Sets [*begin, *end) to the elements of a vector of `elements` that `server` holds. */
MUSTER_API int muster_parameter_slice(size_t elements, const muster_parameter_server_options* options,
                                      int server, size_t* begin, size_t* end);
/* arrays[i] points to this rank's slice of array i, of which the first are the parameters; they must outlive
 * the server. `options` may be NULL: the defaults. Sets *server, to NULL on failure. */
MUSTER_API int muster_parameter_server_new(muster_job* job, size_t elements, float* const* arrays,
                                           size_t array_count, muster_update update, void* context,
                                           const muster_parameter_server_options* options,
                                           muster_parameter_server** server);
/* Closes the connections; after the clients are freed, and before the job is left. NULL is allowed. */
MUSTER_API void muster_parameter_server_free(muster_parameter_server* server);
/* The error of the update function, if there is one. */
MUSTER_API int muster_parameter_server_check(const muster_parameter_server* server);

/* As muster::ParameterClient: this rank's connections to the servers. */
typedef struct muster_parameter_client muster_parameter_client;
MUSTER_API int muster_parameter_client_new(muster_job* job, size_t elements,
                                           const muster_parameter_server_options* options,
                                           muster_parameter_client** client);
/* Waits for the last push. NULL is allowed. */
MUSTER_API void muster_parameter_client_free(muster_parameter_client* client);
/* This rank's number among the workers; -1 on a rank that is only a server, and for NULL. */
MUSTER_API int64_t muster_parameter_worker(const muster_parameter_client* client);
/* Sets *found to 1, and *task to the lowest task that nobody has taken, of clock `last` at most; or *found to
 * 0. */
MUSTER_API int muster_parameter_take(muster_parameter_client* client, uint64_t last, int* found,
                                     muster_parameter_task* task);
/* Waits as the staleness demands, then replaces `parameters`, an array of all elements. */
MUSTER_API int muster_parameter_pull(muster_parameter_client* client, uint64_t clock, float* parameters);
/* Starts to read the parameters while the program computes: the next pull at `clock` or before takes them.
 * They need not have this worker's push after this call. Does nothing with a staleness of 0. */
MUSTER_API int muster_parameter_prefetch(muster_parameter_client* client, uint64_t clock);
/* Starts to send a gradient of all elements; the memory is free when it returns. `arguments` go to the update
 * function, `sums` are added over a clock's tasks; both may be NULL with a count of 0. */
MUSTER_API int muster_parameter_push(muster_parameter_client* client, muster_parameter_task task,
                                     const float* gradient, const double* arguments, size_t argument_count,
                                     const double* sums, size_t sum_count);
/* Waits until the last push has been applied. */
MUSTER_API int muster_parameter_flush(muster_parameter_client* client);
/* Waits until all tasks of the clock are applied. Writes the totals of the first `sum_count` sums. Sets
 * *complete, which may be NULL, to 0 when a lost worker's task is to be taken first. */
MUSTER_API int muster_parameter_wait_for(muster_parameter_client* client, uint64_t clock, int* complete,
                                         double* sums, size_t sum_count);
/* Copies array number `array`, all elements, as float32. */
MUSTER_API int muster_parameter_read(muster_parameter_client* client, size_t array, float* values);
/* Replaces it. No push or pull may be in flight on any rank. */
MUSTER_API int muster_parameter_write(muster_parameter_client* client, size_t array, const float* values);

#ifdef __cplusplus
}
#endif

#endif
