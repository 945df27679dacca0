/* SPDX-License-Identifier: Apache-2.0 */
/* Assertions of the test programs in C. */
#ifndef MUSTER_TESTS_CHECKS_H
#define MUSTER_TESTS_CHECKS_H

#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char* file, int line, const char* what) {
  fprintf(stderr, "%s:%d: check failed: %s (last error: %s)\n", file, line, what, muster_last_error());
  exit(1);
}
#define CHECK(condition)                                    \
  do {                                                      \
    if (!(condition)) fail(__FILE__, __LINE__, #condition); \
  } while (0)
#define OK(call) CHECK((call) == MUSTER_OK)
/* Checks that the call fails with this status, error code and text. */
#define FAILS(call, status, code, text)               \
  do {                                                \
    CHECK((call) == (status));                        \
    CHECK(muster_last_error_code() == (code));        \
    CHECK(strstr(muster_last_error(), text) != NULL); \
    CHECK(strchr(muster_last_error(), '\n') == NULL); \
  } while (0)

/* Defined in c_reducer.c. */
void check_reducers(muster_communicator* world);

#endif
