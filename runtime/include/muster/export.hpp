// SPDX-License-Identifier: Apache-2.0
#pragma once

/// libmuster is built with hidden visibility; what a program may use is marked with this.
#define MUSTER_EXPORT __attribute__((visibility("default")))
