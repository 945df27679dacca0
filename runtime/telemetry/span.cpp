// SPDX-License-Identifier: Apache-2.0
#include "muster/span.hpp"

#include "telemetry/event_log.hpp"

namespace muster {

Span::Span(std::string_view name) noexcept
    : recorded_(observe::event_log().begin(observe::Category::user, name)) {}

Span::~Span() {
  if (recorded_) observe::event_log().end();
}

}  // namespace muster
