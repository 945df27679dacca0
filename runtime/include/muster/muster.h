/* SPDX-License-Identifier: Apache-2.0 */
/* The C interface of libmuster, for C99 and newer, Fortran (iso_c_binding) and ctypes. C++ programs include
 * muster.hpp; its documentation of the operations applies here too.
 *
 * Functions that can fail return a status: MUSTER_OK, or a value that can be used as the process's exit code.
 * muster_last_error() then returns one line: what happened, where, and what to do about it. No exception
 * leaves the library, and a null handle gives MUSTER_USAGE. Plain getters (such as muster_rank) return the
 * value itself, -1 or NULL for a null handle.
 *
 * Structures begin with `size`, which their owner sets to their sizeof, so that the library sees which
 * members the program knows. New members are only added at the end. In a structure from the program, members
 * that the program does not know have their defaults. In a structure from the library, only the members that
 * the program knows are filled in.
 *
 * A handle is used by one thread at a time. The last error belongs to the calling thread. */
#ifndef MUSTER_MUSTER_H
#define MUSTER_MUSTER_H

#include "muster/communicator.h"
#include "muster/job.h"
#include "muster/observe.h"
#include "muster/parameter_server.h"
#include "muster/reducer.h"
#include "muster/sampler.h"
#include "muster/state.h"
#include "muster/status.h"
#include "muster/store.h"

#endif
