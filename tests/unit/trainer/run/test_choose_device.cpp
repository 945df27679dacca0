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

TEST_CASE("a setting without a GPU's code computes on the CPU, and refuses a GPU", "[options]") {
  const std::string option = "--dtype=fp32";
  CHECK(choose_device(parse(option)).device == Device::cpu);
  CHECK(choose_device(parse(option, "--device=cpu")).no_gpu_reason.empty());
  const std::string refusal = usage_error_text([&] { choose_device(parse(option, "--device=cuda")); });
  CHECK(refusal == "the GPU computes in bf16, and not in --dtype=fp32: pass --device=cpu");
}

TEST_CASE("parameter servers take the GPUs that are there", "[options][strategies]") {
  if (describe_missing_kernels().empty())
    CHECK(choose_device(parse("--strategy=parameter-server", "--device=cuda")).device == Device::cuda);
}

TEST_CASE("a GPT whose sizes the GPU's kernels do not have is computed on the CPU, with the reason",
          "[options]") {
  using models::GptConfig;
  using models::LlamaConfig;
  if (describe_missing_kernels().empty()) {
    CHECK(describe_missing_kernels(GptConfig{2, 2, 128, 64, 256}).empty());
    CHECK(describe_missing_kernels(GptConfig{2, 32, 2048, 64, 128256, LlamaConfig{8, 8192}}).empty());
    for (const int width : {32, 96, 128})
      CHECK(describe_missing_kernels(GptConfig{2, 2, 2 * width, 64, 256}).empty());
    CHECK(describe_missing_kernels(GptConfig{2, 4, 320, 64, 256}) ==
          "the GPU's attention heads are 32, 64, 96 or 128 wide, and 4 of --width 320 are 80");
    CHECK(describe_missing_kernels(GptConfig{2, 33, 2112, 64, 256}) ==
          "the GPU's kernels take widths up to 2048, and --width is 2112");
    CHECK(describe_missing_kernels(GptConfig{2, 2, 128, 64, 256, LlamaConfig{2, 100}}) ==
          "the GPU's kernels take MLPs of a multiple of 8, and not 100");
  }
  const ChosenDevice on_cpu = choose_device(Device::automatic, "so");
  CHECK(on_cpu.device == Device::cpu);
  CHECK(on_cpu.no_gpu_reason == "so");
  CHECK(choose_device(Device::cuda, "").device == Device::cuda);
  CHECK(usage_error_text([] { choose_device(Device::cuda, "so"); }) == "so: pass --device=cpu");
}
