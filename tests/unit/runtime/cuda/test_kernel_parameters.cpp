// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernel_parameters.hpp"
#include "runtime/fakes/fakes.hpp"

using namespace muster;
using detail::KernelParameters;

namespace {

struct FakeKernelOf {
  explicit FakeKernelOf(const char* name) { cuda.module_get_function(&function, nullptr, name); }
  detail::CudaLibrary cuda;
  CUfunction function = nullptr;
};

std::string difference(const KernelParameters& parameters, const std::vector<std::size_t>& bytes) {
  return parameters.difference(bytes);
}

}  // namespace

TEST_CASE("a launch whose arguments differ from its kernel's parameters in number or size is found") {
  Fakes const fakes;
  FakeKernelOf const divide("muster_divide");  // (size_t, float*, float)
  KernelParameters const parameters(divide.cuda, divide.function);
  CHECK(difference(parameters, {8, 8, 4}).empty());
  CHECK(difference(parameters, {8, 8, 8}) ==
        "its 3 parameters have 8, 8, 4 bytes, and the 3 arguments of its launch 8, 8, 8: its code is from "
        "another version of Muster; build all of it again");
  CHECK(has(difference(parameters, {8, 8}), "and the 2 arguments of its launch 8, 8:"));
  CHECK(has(difference(parameters, {8, 8, 4, 4}), "and the 4 arguments"));
}

TEST_CASE("a driver that does not say what a kernel's parameters are takes any launch") {
  Fakes const fakes;
  FakeKernelOf divide("muster_divide");
  divide.cuda.function_get_param_info = nullptr;
  CHECK(difference(KernelParameters(divide.cuda, divide.function), {1}).empty());
}
