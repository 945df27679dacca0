// SPDX-License-Identifier: Apache-2.0
// When the fake CUDA does enqueued work. Each stream is a queue; only a stream's order, events and waits of
// the host order work.
//   by default            each call does its work at once
//   FAKE_CUDA=late        as late as a GPU may: when the host waits for it, and NCCL's work last
//   FAKE_CUDA_SEED=N      in a random order that N decides: each stream has a random speed, which changes;
//                         each call that enqueues does some work, and a host that waits does work of all
//                         streams until its own is done
// A GPU also works while its host waits for another rank without CUDA, which may need this work. So a rank
// that is a process of its own does work when its host has not called for a while. With several ranks the
// order depends on when they meet, too, so a seed does not repeat it exactly. So with some seeds a program
// gives a wrong result if it lacks an event or a wait. The streams that a program creates are non-blocking,
// so nothing orders them and the default stream. Ranks may be threads: each thread has a default stream of
// its own. Thread-safe.
#pragma once

#include <functional>

namespace stream_queues {

void enqueue(void* stream, std::function<void()> work);
/// Work that other ranks take part in. `poll` is called until it returns true, and must not wait. Returns
/// false, and enqueues nothing, where calls do their work at once.
bool enqueue_polled(void* stream, std::function<bool()> poll);
void record(void* event, void* stream);
/// Later work on `stream` runs after the last record of `event`.
void wait_event(void* stream, void* event);
/// The handle's memory may be used again; what a stream has enqueued still runs.
void destroy(void* handle);

bool event_is_done(void* event);
/// As the host's repeated queries would: does some work of random streams first, or late work when the last
/// query was of the same event.
bool query_event(void* event);
/// Does work while some can run. Returns whether the stream was empty before.
bool query_stream(void* stream);
/// Each waits until the work is done, and returns false if there was none, so that the host did not wait.
bool finish_stream(void* stream);
/// All work that this thread has enqueued.
bool finish_all();

}  // namespace stream_queues
