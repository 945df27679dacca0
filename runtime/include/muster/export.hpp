// SPDX-License-Identifier: Apache-2.0
#pragma once

// The other C++ headers include this one.
#if __cplusplus < 202002L
#error "muster needs C++20: compile with -std=c++20"
#endif

/// libmuster is built with hidden visibility; this marks what a program may use.
#define MUSTER_EXPORT __attribute__((visibility("default")))
