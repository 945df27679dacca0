// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::pipeline {

/// The order of a pipeline's operations, named as in torch.distributed.pipelining.
enum class ScheduleKind {
  gpipe,             ///< all forwards, then all backwards (Huang et al., arXiv 1811.06965)
  one_f_one_b,       ///< 1f1b: a backward as soon as there is one (Narayanan et al., arXiv 2006.09503)
  interleaved_1f1b,  ///< 1f1b with several stages on each rank (Narayanan et al., arXiv 2104.04473)
  zero_bubble_h1,    ///< 1f1b with weight gradients moved into the gaps (Qi et al., arXiv 2401.10241)
};

/// "gpipe", "1f1b", "interleaved-1f1b" or "zb-h1".
std::string_view to_string(ScheduleKind kind);
std::optional<ScheduleKind> parse_schedule_kind(std::string_view name);

/// A forward pass, a backward pass, or the two halves of a backward pass: gradients of the inputs and of the
/// weights.
enum class OperationKind : char {
  forward = 'F',
  backward = 'B',
  backward_input = 'I',
  backward_weight = 'W'
};

struct Operation {
  OperationKind kind = OperationKind::forward;
  int stage = 0;
  int micro_batch = 0;
  bool operator==(const Operation&) const = default;
};

/// What one rank does in a step, in this order.
using OperationList = std::vector<Operation>;

/// "0F0 0F1 2F0": stage, operation, micro-batch.
std::string to_string(const OperationList& operations);

struct ScheduleShape {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  int ranks = 1;           ///< of one pipeline
  int micro_batches = 1;   ///< in a step
  int virtual_stages = 1;  ///< stages on each rank; above 1 for interleaved_1f1b only

  int stages() const { return ranks * virtual_stages; }
  /// Rank r has the stages r, r + ranks, …
  int rank_of(int stage) const { return stage % ranks; }
};

/// Why there is no such schedule, as "1f1b needs at least as many micro-batches as stages, and 3 are fewer
/// than 4"; empty: there is one.
std::string schedule_problem(const ScheduleShape& shape);

/// The operations of `rank`. For every stage, both the forwards and the backwards are in the order of
/// micro-batches. `shape` has no problem.
OperationList make_operations(const ScheduleShape& shape, int rank);
/// Those of every rank.
std::vector<OperationList> make_schedule(const ScheduleShape& shape);

/// The most micro-batches whose forward pass of `stage` has begun and whose backward pass has not ended.
int most_in_flight(const OperationList& operations, int stage);
/// The most micro-batches whose input gradients of `stage` are computed and whose weight gradients are not; 0
/// where a backward pass computes both.
int most_weights_put_off(const OperationList& operations, int stage);

/// The idle share of the makespan that the literature gives for equal stages and no latency: (p-1)/(v m+p-1),
/// and for zb-h1 b/(m(F+I+W)+b) with b = (p-1)(F+I-W), which holds for W up to F.
double idle_share_formula(const ScheduleShape& shape, double forward = 1, double input = 1,
                          double weight = 1);

}  // namespace muster::pipeline
