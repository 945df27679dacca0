// SPDX-License-Identifier: Apache-2.0
// Preloaded before libpmix: on the node LATE_NODE a process gets the end of its first fence a second late,
// the one by which MPI_Init exchanges addresses. Meanwhile the process goes on waiting, like one that gets no
// core.
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

// Runs on libpmix's thread, which must not block.
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
