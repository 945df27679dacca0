// SPDX-License-Identifier: Apache-2.0
// Loaded before libpmix: on the node LATE_NODE a process learns a second late that its first fence is over,
// that by which MPI_Init exchanges addresses. The process goes on with what it does while it waits, as one
// does that gets no core just then.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pmix.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
  pmix_op_cbfunc_t function;
  void* data;
  pmix_status_t status;
} waiting;

static void* deliver_late(void* unused) {
  sleep(1);
  waiting.function(waiting.status, waiting.data);
  return unused;
}

// On libpmix's thread, which must go on.
static void deliver(pmix_status_t status, void* unused) {
  (void)unused;
  pthread_t thread;
  waiting.status = status;
  pthread_create(&thread, NULL, deliver_late, NULL);
}

pmix_status_t PMIx_Fence_nb(const pmix_proc_t processes[], size_t count, const pmix_info_t info[],
                            size_t infos, pmix_op_cbfunc_t function, void* data) {
  pmix_status_t (*fence)(const pmix_proc_t[], size_t, const pmix_info_t[], size_t, pmix_op_cbfunc_t, void*) =
      dlsym(RTLD_NEXT, "PMIx_Fence_nb");
  static int fences = 0;
  char node[256] = "";
  const char* late = getenv("LATE_NODE");
  gethostname(node, sizeof node - 1);
  if (fences++ != 0 || late == NULL || strcmp(node, late) != 0)
    return fence(processes, count, info, infos, function, data);
  waiting.function = function;
  waiting.data = data;
  return fence(processes, count, info, infos, deliver, NULL);
}
