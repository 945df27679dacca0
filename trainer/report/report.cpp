// SPDX-License-Identifier: Apache-2.0
#include "report/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <set>

#include "config/settings.hpp"
#include "muster/version.hpp"
#include "report/format_bytes.hpp"
#include "report/placement_svg.hpp"
#include "report/progress.hpp"
#include "svg/svg.hpp"
#include "text/plural.hpp"

namespace muster {
namespace {

constexpr const char* page_style =
    ":root{color-scheme:light dark}"
    "body{margin:0;background:#f4f5f7;color:#222;font:15px/1.5 system-ui,'DejaVu Sans',sans-serif}"
    "main{max-width:944px;margin:0 auto;padding:28px 16px 48px}"
    "h1{font-size:26px;margin:0 0 2px}h2{font-size:18px;margin:34px 0 10px}p{margin:0 0 18px;color:#555}"
    ".tiles{display:grid;grid-auto-flow:column;grid-auto-columns:auto;gap:12px}.tile b{white-space:nowrap}"
    "@media (max-width:760px){.tiles{grid-auto-flow:row;grid-template-columns:repeat(3,1fr)}}"
    ".tile,.card{background:#fff;border:1px solid #e1e4e8;border-radius:8px}"
    ".tile{padding:12px}.tile b{display:block;font-size:20px;font-weight:600}.tile "
    "span{font-size:13px;color:#666}"
    ".card{padding:10px;margin-bottom:14px;overflow-x:auto}svg{display:block;width:100%;height:auto}"
    "table{border-collapse:collapse;width:100%;font-size:14px}"
    "th,td{text-align:left;padding:4px 10px;border-bottom:1px solid #e8eaed;vertical-align:top}"
    "tr.group "
    "th{padding-top:14px;color:#777;font-size:13px}th{font-weight:600}td{overflow-wrap:anywhere}td.from{"
    "color:#777}\n"
    "@media (prefers-color-scheme:dark){body{background:#0f1115;color:#e4e7eb}p,.tile "
    "span,td.from,tr.group th{color:#9aa2ad}"
    ".tile,.card{background:#171a1f;border-color:#2b3038}th,td{border-color:#262b33}}\n";

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string tile(const std::string& value, const std::string& name) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", xml_text(value), xml_text(name));
}

std::string format_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[32] = "";
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &utc);
  return text;
}

std::string row(const std::string& name, const std::string& value) {
  return fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", xml_text(name), xml_text(value));
}

std::string unit_name(const Summary& s) { return s.unit == "image" ? "images" : "tokens"; }

std::string tiles(const Summary& s) {
  std::string out = "<div class=\"tiles\">\n";
  if (s.validation_accuracy) out += tile(percent(*s.validation_accuracy), "validation accuracy");
  if (s.validation_loss) out += tile(format_loss(*s.validation_loss), "validation loss");
  if (s.training_loss) out += tile(fmt::format("{:.4f}", *s.training_loss), "training loss");
  out += tile(fmt::format("{} / {}", s.steps, s.wanted_steps), "steps");
  out += tile(fmt::format("{:.0f}", s.tokens_per_second), unit_name(s) + "/s (median)");
  if (s.mfu) out += tile(percent(*s.mfu), "MFU");
  if (s.world_size > 1) out += tile(percent(s.exposed_share), "exposed communication");
  if (s.unit == "image") out += tile(percent(s.loading_share), "waiting for data");
  if (s.skipped_updates > 0) out += tile(fmt::format("{}", s.skipped_updates), "updates skipped");
  out += tile(format_duration(s.wall_seconds), "wall time");
  return out + "</div>\n";
}

Chart speed_chart(const Metrics::History& history, const std::string& unit_name) {
  return {"Throughput",
          "each step, and smoothed",
          "step",
          unit_name + "/s",
          {{unit_name + "/s", history.tokens_per_second}},
          true,
          320};
}

Chart communication_chart(const Metrics::History& history) {
  return {"Exposed communication",
          "part of a step that waited for gradients after its backward pass",
          "step",
          "per cent",
          {{"exposed", history.exposed_share, Series::Style::smoothed, 2}},
          true,
          280,
          100};
}

std::string card(const std::string& content) { return "<div class=\"card\">\n" + content + "</div>\n"; }

std::string machine(const Summary& s) {
  std::set<std::string> processors, kernels;
  for (const RankInfo& rank : s.ranks) {
    if (!rank.processor.empty()) processors.insert(rank.processor);
    kernels.insert(rank.kernel);
  }
  std::string out = "<table>\n";
  out += row("ranks", fmt::format("{} on {}, over {}", plural(s.world_size, "rank"), plural(s.hosts, "host"),
                                  s.backend));
  out += row("each rank computes on", s.device);
  for (const std::string& name : processors) out += row("processor", name);
  for (const std::string& name : kernels) out += row("system", name);
  if (s.peak_flops > 0) {
    out += row("measured peak", fmt::format("{} in {} matrix products, all ranks together",
                                            format_flops(s.peak_flops), s.dtype));
    out += row("model's need", fmt::format("{:.4g} MFLOP for each of the {} it trains on",
                                           s.flops_per_token / 1e6, unit_name(s)));
  }
  if (s.world_size > 1 && s.strategy == "local-sgd") {
    out += row("averaged parameters",
               fmt::format("{}, {:.3g} MB a step, {:.2f} ms of a step; {} of a step waited for it",
                           plural(s.synchronizations, "time"), static_cast<double>(s.gradient_bytes) / 1e6,
                           1e3 * s.communication_seconds, percent(s.exposed_share)));
  } else if (s.world_size > 1) {
    out += row("gradients", fmt::format("{:.1f} MB a step, reduced in {:.2f} ms; {} of a step waited for it",
                                        static_cast<double>(s.gradient_bytes) / 1e6,
                                        1e3 * s.communication_seconds, percent(s.exposed_share)));
  }
  for (const std::string& lost : s.lost_ranks) out += row("went on without", lost);
  for (const std::string& joined : s.joined_ranks) out += row("joined", joined);
  if (!s.checkpoint.empty()) out += row("checkpoint", s.checkpoint);
  return out + "</table>\n";
}

std::string memory_table(const Summary& s) {
  const std::uint64_t total = total_bytes(s.memory), offloaded = offloaded_bytes(s.memory);
  std::string out = "<table>\n";
  for (const MemorySegment& segment : s.memory) {
    out += row(segment.name + (segment.is_offloaded ? ", on the host" : ""),
               fmt::format("{}, {}", format_bytes(segment.bytes),
                           percent(static_cast<double>(segment.bytes) / static_cast<double>(total))));
  }
  out += row("estimated before the first step, total", format_bytes(total));
  if (offloaded > 0 && s.on_gpu) {
    out += row("estimated on the GPU", format_bytes(total - offloaded));
    out += row("estimated on the host", format_bytes(offloaded));
  }
  if (s.on_gpu) out += row("measured on rank 0's GPU, allocated at the end", format_bytes(s.gpu_bytes));
  out += row("measured peak of rank 0's process, with program and libraries",
             format_bytes(s.peak_resident_bytes));
  out += row(s.on_gpu ? "free on its GPU at start" : "free on its host at start", format_bytes(s.free_bytes));
  return out + "</table>\n";
}

std::string left_out_list(const Summary& s) {
  std::string out = "<table>\n";
  for (const std::string& image : s.left_out_images) {
    const std::size_t reason = std::min(image.find(": "), image.size());
    out += row(image.substr(0, reason), image.substr(std::min(reason + 2, image.size())));
  }
  return out + "</table>\n";
}

std::string settings_table(const Options& options) {
  std::string out = "<table>\n<tr><th>setting</th><th>value</th><th>from</th></tr>\n";
  std::string group;
  for (const Setting& setting : list_settings(options)) {
    if (setting.group != group)
      out += fmt::format("<tr class=\"group\"><th colspan=\"3\">{}</th></tr>\n", setting.group);
    group = setting.group;
    const auto origin = options.origins.find(setting.name);
    out += fmt::format("<tr><td>{}</td><td>{}</td><td class=\"from\">{}</td></tr>\n", xml_text(setting.name),
                       setting.value.empty() ? "not set" : xml_text(setting.value),
                       origin == options.origins.end() ? "default" : xml_text(origin->second));
  }
  return out + "</table>\n";
}

}  // namespace

Chart loss_chart(const Metrics::History& history, const std::string& title, const std::string& subtitle,
                 const std::string& unit) {
  Chart chart{title, subtitle, "step", "loss (nats per " + unit + ")", {{"training", history.training_loss}}};
  if (!history.validation_loss.empty()) {
    chart.series.push_back(
        {fmt::format("validation (last {})", format_loss(history.validation_loss.back().y)),
         history.validation_loss, Series::Style::marked, 2});
  }
  if (!history.skipped.empty()) {
    chart.series.push_back({fmt::format("skipped updates ({})", history.skipped.size()), history.skipped,
                            Series::Style::events, 3});
  }
  return chart;
}

std::string draw_report(const Summary& s, const Metrics::History& history, const Options& options) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n";
  out += fmt::format("<title>muster-train: {}</title>\n<style>\n{}{}{}</style>\n</head>\n<body>\n<main>\n",
                     xml_text(s.model), page_style, svg_style(), placement_style());
  out += fmt::format("<h1>{}</h1>\n<p>{} parameters, trained on {} by muster-train {}; {}, {}</p>\n",
                     xml_text(s.model), s.parameters, xml_text(s.data), version, xml_text(s.ended),
                     format_now());
  out += tiles(s);
  out += "<h2>Loss and speed</h2>\n";
  out += card(draw_chart(loss_chart(history, "Loss", "training and held-out data", s.unit)));
  out += card(draw_chart(speed_chart(history, unit_name(s))));
  if (s.world_size > 1) out += card(draw_chart(communication_chart(history)));
  if (!s.step_picture.empty()) out += card(s.step_picture);
  out += "<h2>Placement</h2>\n" + card(draw_placement(s.ranks));
  out += "<h2>Machine</h2>\n" + card(machine(s));
  out += "<h2>Memory of rank 0</h2>\n" + card(memory_table(s));
  if (!s.left_out_images.empty()) {
    out += fmt::format("<h2>{} left out</h2>\n",
                       plural(static_cast<std::int64_t>(s.left_out_images.size()), "picture"));
    out += card(left_out_list(s));
  }
  out += "<h2>Settings</h2>\n" + card(settings_table(options));
  return out + "</main>\n</body>\n</html>\n";
}

}  // namespace muster
