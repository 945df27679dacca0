// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/options.hpp"
#include "report/metrics.hpp"
#include "report/summary.hpp"

namespace muster {

/// Chart of the loss over steps, in nats per `unit`.
Chart loss_chart(const Metrics::History& history, const std::string& title, const std::string& subtitle,
                 const std::string& unit);

/// A self-contained HTML page: figures, charts of loss, speed and communication, placement, machine and
/// settings. Light or dark by the browser's preference.
std::string draw_report(const Summary& summary, const Metrics::History& history, const Options& options);

}  // namespace muster
