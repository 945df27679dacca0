// SPDX-License-Identifier: Apache-2.0
#pragma once

/// libmuster is built with hidden visibility; this marks what a program may use.
#define MUSTER_EXPORT __attribute__((visibility("default")))
