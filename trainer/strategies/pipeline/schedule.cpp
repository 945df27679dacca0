// SPDX-License-Identifier: Apache-2.0
#include "strategies/pipeline/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace muster::pipeline {
namespace {

constexpr std::array names{std::pair{ScheduleKind::gpipe, std::string_view("gpipe")},
                           std::pair{ScheduleKind::one_f_one_b, std::string_view("1f1b")},
                           std::pair{ScheduleKind::interleaved_1f1b, std::string_view("interleaved-1f1b")},
                           std::pair{ScheduleKind::zero_bubble_h1, std::string_view("zb-h1")}};

OperationList make_gpipe(const ScheduleShape& shape, int rank) {
  OperationList list;
  for (const OperationKind kind : {OperationKind::forward, OperationKind::backward})
    for (int i = 0; i < shape.micro_batches; ++i) list.push_back({kind, rank, i});
  return list;
}

OperationList make_one_f_one_b(const ScheduleShape& shape, int rank) {
  OperationList list;
  int forwards = std::min(shape.micro_batches, shape.ranks - rank);
  for (int i = 0; i < forwards; ++i) list.push_back({OperationKind::forward, rank, i});
  for (int i = 0; i < shape.micro_batches; ++i) {
    list.push_back({OperationKind::backward, rank, i});
    if (forwards < shape.micro_batches) list.push_back({OperationKind::forward, rank, forwards++});
  }
  return list;
}

/// Stage s computes weight gradients s micro-batches after input gradients, so that it does not keep more
/// micro-batches than the first stage.
OperationList make_zero_bubble_h1(const ScheduleShape& shape, int rank) {
  OperationList list;
  int forwards = std::min(shape.micro_batches, shape.ranks - rank), weights = 0;
  for (int i = 0; i < forwards; ++i) list.push_back({OperationKind::forward, rank, i});
  for (int i = 0; i < shape.micro_batches; ++i) {
    list.push_back({OperationKind::backward_input, rank, i});
    if (i >= rank) list.push_back({OperationKind::backward_weight, rank, weights++});
    if (forwards < shape.micro_batches) list.push_back({OperationKind::forward, rank, forwards++});
  }
  while (weights < shape.micro_batches) list.push_back({OperationKind::backward_weight, rank, weights++});
  return list;
}

/// Groups of `ranks` micro-batches go through a rank's stages one after the other.
OperationList make_interleaved(const ScheduleShape& shape, int rank) {
  const int p = shape.ranks, v = shape.virtual_stages, total = shape.micro_batches * v;
  const auto operation = [&](OperationKind kind, int number) {
    const int group = number / (p * v), chunk = number % (p * v) / p;
    const int local = kind == OperationKind::forward ? chunk : v - 1 - chunk;
    return Operation{kind, local * p + rank, group * p + number % p};
  };
  OperationList list;
  int forwards = std::min(2 * (p - 1 - rank) + (v - 1) * p, total);
  for (int i = 0; i < forwards; ++i) list.push_back(operation(OperationKind::forward, i));
  for (int i = 0; i < total; ++i) {
    if (forwards < total) list.push_back(operation(OperationKind::forward, forwards++));
    list.push_back(operation(OperationKind::backward, i));
  }
  return list;
}

/// The most micro-batches of which `stage` has begun the one operation and not ended the other.
int most_between(const OperationList& operations, int stage, OperationKind first, OperationKind last) {
  int now = 0, most = 0;
  for (const Operation& operation : operations) {
    if (operation.stage != stage) continue;
    if (operation.kind == first) most = std::max(most, ++now);
    if (operation.kind == last) --now;
  }
  return most;
}

}  // namespace

std::string_view to_string(ScheduleKind kind) {
  return std::find_if(names.begin(), names.end(), [&](const auto& name) { return name.first == kind; })
      ->second;
}

std::optional<ScheduleKind> parse_schedule_kind(std::string_view text) {
  for (const auto& [kind, name] : names)
    if (name == text) return kind;
  return std::nullopt;
}

std::string to_string(const OperationList& operations) {
  std::string text;
  for (const Operation& operation : operations) {
    text += fmt::format("{}{}{}{}", text.empty() ? "" : " ", operation.stage,
                        static_cast<char>(operation.kind), operation.micro_batch);
  }
  return text;
}

std::string schedule_problem(const ScheduleShape& shape) {
  const std::string_view name = to_string(shape.kind);
  const bool interleaved = shape.kind == ScheduleKind::interleaved_1f1b;
  if (interleaved && shape.micro_batches % shape.ranks != 0) {
    return fmt::format("{} needs a multiple of {} micro-batches, the ranks of a pipeline, and {} is none",
                       name, shape.ranks, shape.micro_batches);
  }
  if (shape.kind != ScheduleKind::gpipe && shape.micro_batches < shape.ranks) {
    return fmt::format("{} needs at least as many micro-batches as stages, and {} is fewer than {}", name,
                       shape.micro_batches, shape.ranks);
  }
  return "";
}

OperationList make_operations(const ScheduleShape& shape, int rank) {
  switch (shape.kind) {
    case ScheduleKind::gpipe:
      return make_gpipe(shape, rank);
    case ScheduleKind::one_f_one_b:
      return make_one_f_one_b(shape, rank);
    case ScheduleKind::interleaved_1f1b:
      return make_interleaved(shape, rank);
    case ScheduleKind::zero_bubble_h1:
      return make_zero_bubble_h1(shape, rank);
  }
  return {};
}

std::vector<OperationList> make_schedule(const ScheduleShape& shape) {
  std::vector<OperationList> lists;
  for (int rank = 0; rank < shape.ranks; ++rank) lists.push_back(make_operations(shape, rank));
  return lists;
}

int most_in_flight(const OperationList& operations, int stage) {
  const bool split = most_weights_put_off(operations, stage) > 0;
  return most_between(operations, stage, OperationKind::forward,
                      split ? OperationKind::backward_weight : OperationKind::backward);
}

int most_weights_put_off(const OperationList& operations, int stage) {
  return most_between(operations, stage, OperationKind::backward_input, OperationKind::backward_weight);
}

double idle_share_formula(const ScheduleShape& shape, double forward, double input, double weight) {
  const double others = shape.ranks - 1, steps = shape.micro_batches;
  if (shape.kind == ScheduleKind::zero_bubble_h1) {
    const double idle = others * (forward + input - weight);
    return idle / (steps * (forward + input + weight) + idle);
  }
  return others / (shape.virtual_stages * steps + others);
}

}  // namespace muster::pipeline
