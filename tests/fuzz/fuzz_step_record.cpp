// SPDX-License-Identifier: Apache-2.0
// A planned step as the tasks read it: writing an accepted record and reading it again changes nothing.
#include <cstdint>
#include <cstdlib>
#include <stdexcept>

#include "step/step_record.hpp"

using namespace muster::spank;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string const bytes(reinterpret_cast<const char*>(data), size);
  for (std::size_t const tasks : {0, 1, 2}) try {
      auto const record = write_record(read_record(bytes, tasks));
      if (write_record(read_record(record, tasks)) != record) std::abort();
    } catch (const std::runtime_error&) {
    }
  return 0;
}
