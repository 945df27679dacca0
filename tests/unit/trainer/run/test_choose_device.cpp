// SPDX-License-Identifier: Apache-2.0
// Which settings keep a run on the CPU.
#include <string>
#include <vector>

#include "catch.hpp"
#include "run/choose_device.hpp"
#include "trainer/data/refusal.hpp"

using namespace muster;

namespace {

Options parse(const std::string& option, const char* device = nullptr) {
  std::vector<const char*> arguments{"muster-train", option.c_str()};
  if (device != nullptr) arguments.push_back(device);
  return *parse_options(static_cast<int>(arguments.size()), arguments.data());
}

}  // namespace

TEST_CASE("strategies without a GPU's code compute on the CPU, and refuse a GPU", "[options][strategies]") {
  for (const std::string option : {"--strategy=central-storage", "--strategy=parameter-server"}) {
    CAPTURE(option);
    CHECK(choose_device(parse(option)).device == Device::cpu);
    CHECK(choose_device(parse(option, "--device=cpu")).no_gpu_reason.empty());
    const std::string refusal = usage_error_text([&] { choose_device(parse(option, "--device=cuda")); });
    CHECK(refusal == option + " computes on the CPU: pass --device=cpu");
  }
}
