// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "random_calls.hpp"

namespace muster::chaos {

/// What the ranks do in the fault `mismatch`, and what their line must have.
struct Mismatch {
  enum class Form { alone, grouped, async };
  struct CountedCall {
    CollectiveCall call;
    std::vector<std::size_t> counts = {}, recv_counts = {};
  };

  std::string kind;
  std::vector<int> colors, keys;  ///< by rank in the job, of the split that makes the communicator
  bool is_part = false;           ///< it is made by a split
  std::string communicator;       ///< its name
  std::vector<int> members;       ///< ranks in the job, by rank in the communicator
  std::size_t culprit = 0;        ///< rank in the communicator
  bool culprit_on_world = false;  ///< it makes its calls there
  Form form = Form::alone;        ///< of all calls of a rank
  std::vector<std::vector<CountedCall>> calls;  ///< by rank in the communicator
  std::string wrong, right;
};

/// The same on every rank of a job of at least two. `culprit`: its rank in the job.
Mismatch draw_mismatch(std::uint64_t seed, int ranks, int culprit);
/// "shares on 'host/N.0' (0 2 4), calls A|B": the kind, the communicator, its ranks in the job, the culprit's
/// call and the others' call; of messages and slices, what the line has of the receiver and of the sender.
std::string describe(const Mismatch& mismatch);
void run(const Mismatch& mismatch, Communicator& world);

}  // namespace muster::chaos
