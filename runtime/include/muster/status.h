/* SPDX-License-Identifier: Apache-2.0 */
/* Part of muster.h: versions, status and the last error. */
#ifndef MUSTER_STATUS_H
#define MUSTER_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#define MUSTER_API __attribute__((visibility("default")))

/* Changes when a program built with this header can no longer use another libmuster. Such a program does not
 * start (the symbols carry the version), and where it comes to the library by dlopen, muster_join() refuses
 * it. */
#define MUSTER_ABI_VERSION 1
/* The library's own. */
MUSTER_API int muster_abi_version(void);
/* "0.1.0" */
MUSTER_API const char* muster_version(void);

/* Status: exit codes of BSD's sysexits.h. 75 (EX_TEMPFAIL): a requeue makes sense. */
enum {
  MUSTER_OK = 0,
  MUSTER_USAGE = 64,  /* asked for something that makes no sense: bad rank, null handle, unknown type */
  MUSTER_DEVICE = 69, /* a GPU was placed but CUDA or NCCL cannot use it */
  MUSTER_SYSTEM = 71, /* the operating system or a library refused */
  MUSTER_TEMPORARY =
      75, /* a rank did not come before the deadline, or is lost: see muster_last_error_code() */
  MUSTER_ENVIRONMENT = 78 /* the job was started in a way that cannot work */
};
/* What muster_last_error_code() tells apart. */
enum {
  MUSTER_ERROR_USAGE = 0,
  MUSTER_ERROR_ENVIRONMENT = 1,
  MUSTER_ERROR_DEVICE = 2,
  MUSTER_ERROR_DEADLINE = 3,
  MUSTER_ERROR_LOST_RANK = 4,
  MUSTER_ERROR_SYSTEM = 5
};
/* Of this thread's last call that failed: its line, "" when none has; valid until this thread's next failure.
 */
MUSTER_API const char* muster_last_error(void);
/* One of MUSTER_ERROR_…, -1 when no call has failed. */
MUSTER_API int muster_last_error_code(void);
/* 1 when another rank of the job has the same line and was chosen to say it: this one then says nothing. */
MUSTER_API int muster_last_error_reported_elsewhere(void);
/* Makes `text` this thread's last error, with one of MUSTER_ERROR_…, and returns that code's status: how the
 * section of muster_on_rank_0() says why it failed. One line: newlines become spaces. MUSTER_USAGE, and an
 * error that says so, for another code or NULL. */
MUSTER_API int muster_set_error(int code, const char* text);

#ifdef __cplusplus
}
#endif

#endif
