// SPDX-License-Identifier: Apache-2.0
// When the test double of CUDA does what it is asked for: at once, or, where FAKE_CUDA is "late", as late as
// a GPU may: when the host waits for it. What a host overwrites or reads too early is then wrong. For one
// rank, and one thread that enqueues.
#pragma once

#include <functional>

namespace late_gpu {

void enqueue(void* stream, std::function<void()> work);
void record(void* event, void* stream);
/// What is enqueued on `stream` from now on comes after the last record of `event`.
void hold(void* stream, void* event);

bool event_is_done(void* event);
/// Each does what is left to do, and returns false where nothing was: the host did not wait.
bool finish_stream(void* stream);
bool finish_event(void* event);
bool finish_all();

}  // namespace late_gpu
