// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/options.hpp"
#include "report/metrics.hpp"
#include "report/summary.hpp"

namespace muster {

/// The loss over steps, in nats per `unit`.
Chart loss_chart(const Metrics::History& history, const std::string& title, const std::string& subtitle,
                 const std::string& unit);

/// One HTML page that needs nothing else: the figures, loss, speed and communication over steps, who ran
/// where, the machine and the settings. Light or dark as the reader's browser wants it.
std::string draw_report(const Summary& summary, const Metrics::History& history, const Options& options);

}  // namespace muster
