// SPDX-License-Identifier: Apache-2.0
// A planned step as the tasks read it: writing an accepted record and reading it again changes nothing.
#include <cstdint>
#include <cstdlib>
#include <stdexcept>

#include "step/step.hpp"

using namespace muster::spank;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  NodeRoot const root;
  std::string const bytes(reinterpret_cast<const char*>(data), size);
  for (std::size_t const tasks : {0, 1, 2}) try {
      auto const step = Step::from_record(bytes, RowClaims(tasks), root);
      auto const copy = Step::from_record(step->to_record(), RowClaims(tasks), root);
      if (copy->to_record() != step->to_record()) std::abort();
    } catch (const std::runtime_error&) {
    }
  return 0;
}
