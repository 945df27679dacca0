// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "muster/export.hpp"

namespace muster {

/// A span of this thread's time in the job's timeline (MUSTER_TIMELINE), from here to the end of the scope:
///
///     muster::Span const span("forward");
///
/// Names are cut to 46 bytes. Spans of a thread are nested, at most 32 deep together with the runtime's own;
/// deeper ones are counted as dropped. A span ends on the thread that began it. Without a timeline it costs
/// one comparison. Thread-safe. May be used before join() and after leave(), where it does nothing.
class MUSTER_EXPORT Span {
 public:
  explicit Span(std::string_view name) noexcept;
  ~Span();
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  bool recorded_;
};

}  // namespace muster
