// SPDX-License-Identifier: Apache-2.0
// When the fake CUDA does enqueued work: at once, or, if FAKE_CUDA is "late", as late as a GPU may: when the
// host waits for it. Then a host that overwrites or reads data too early gives wrong results. For one rank,
// and one enqueuing thread.
#pragma once

#include <functional>

namespace late_gpu {

void enqueue(void* stream, std::function<void()> work);
void record(void* event, void* stream);
/// Later work on `stream` runs after the last record of `event`.
void wait_event(void* stream, void* event);

bool event_is_done(void* event);
/// Each does the pending work, and returns false if there was none, so that the host did not wait.
bool finish_stream(void* stream);
bool finish_event(void* event);
bool finish_all();

}  // namespace late_gpu
