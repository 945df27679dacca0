/* SPDX-License-Identifier: Apache-2.0 */
/* The C interface of libmuster, for C99 and newer, Fortran (iso_c_binding) and ctypes. C++ programs include
 * muster.hpp, whose documentation holds for the operations here too.
 *
 * Functions that can fail return a status: MUSTER_OK, or a value that is fit to be the process's exit code.
 * muster_last_error() then has one line on what happened, where, and what to do about it. No exception leaves
 * the library, and a null handle is MUSTER_USAGE. Plain questions (muster_rank and the like) return their
 * answer, -1 or NULL for a null handle.
 *
 * Structures begin with `size`, which their owner sets to their sizeof: it says which members the program
 * knows. Members are only ever added at the end. In structures that a program hands in, those that it does
 * not know have their defaults; of those that the library fills in, it fills in those that the program knows.
 *
 * A handle is used by one thread at a time; the last error belongs to the calling thread. */
#ifndef MUSTER_MUSTER_H
#define MUSTER_MUSTER_H

#include "muster/communicator.h"
#include "muster/job.h"
#include "muster/observe.h"
#include "muster/reducer.h"
#include "muster/sampler.h"
#include "muster/state.h"
#include "muster/status.h"

#endif
