/* SPDX-License-Identifier: Apache-2.0 */
/* Part of muster.h: versions, status and the last error. */
#ifndef MUSTER_STATUS_H
#define MUSTER_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#define MUSTER_API __attribute__((visibility("default")))

/* Changes when a program built with this header cannot use another libmuster any more. A linked program then
 * does not start (the symbols carry the version); a program that loads the library by dlopen gets an error
 * from muster_join(). */
#define MUSTER_ABI_VERSION 1
/* The ABI version of the loaded library. */
MUSTER_API int muster_abi_version(void);
/* "0.1.0" */
MUSTER_API const char* muster_version(void);

/* Status: exit codes of BSD's sysexits.h. 75 (EX_TEMPFAIL): a requeue makes sense. */
enum {
  MUSTER_OK = 0,
  MUSTER_USAGE = 64,  /* invalid arguments: bad rank, null handle, unknown type */
  MUSTER_DEVICE = 69, /* a GPU was placed but CUDA or NCCL cannot use it */
  MUSTER_SYSTEM = 71, /* the operating system or a library failed */
  MUSTER_TEMPORARY =
      75, /* a rank did not arrive before the deadline, or is lost: see muster_last_error_code() */
  MUSTER_ENVIRONMENT = 78 /* the job was started in a way that cannot work */
};
/* Values of muster_last_error_code(). */
enum {
  MUSTER_ERROR_USAGE = 0,
  MUSTER_ERROR_ENVIRONMENT = 1,
  MUSTER_ERROR_DEVICE = 2,
  MUSTER_ERROR_DEADLINE = 3,
  MUSTER_ERROR_LOST_RANK = 4,
  MUSTER_ERROR_SYSTEM = 5
};
/* The line of this thread's last failed call, "" when none has failed. Valid until this thread's next
 * failure.
 */
MUSTER_API const char* muster_last_error(void);
/* One of MUSTER_ERROR_…, -1 when no call has failed. */
MUSTER_API int muster_last_error_code(void);
/* 1 when another rank of the job has the same line and is the one that prints it, or the library has printed
 * it: this rank prints nothing. */
MUSTER_API int muster_last_error_reported_elsewhere(void);
/* Makes `text` this thread's last error, with one of MUSTER_ERROR_…, and returns the status of that code.
 * With it the section of muster_on_rank_0() reports its error. Newlines become spaces. For another code or
 * NULL it returns MUSTER_USAGE and sets an error that says so. */
MUSTER_API int muster_set_error(int code, const char* text);

#ifdef __cplusplus
}
#endif

#endif
