// SPDX-License-Identifier: Apache-2.0
#include "runtime_versions.hpp"

#include <fmt/format.h>
#include <hwloc.h>

#include <array>
#include <cstdio>
#include <functional>
#include <memory>
#include <string_view>

#include "muster/error.hpp"
#include "shared_object.hpp"

#ifdef MUSTER_HAVE_PMIX
#include <pmix.h>
#endif

namespace muster::cli::found {
namespace {

// The first version number in a text: "Open MPI v4.1.4, …" → "4.1.4".
[[maybe_unused]] std::string extract_version(std::string_view text) {
  auto const first = text.find_first_of("0123456789");
  if (first == std::string_view::npos) return "";
  text.remove_prefix(first);
  text = text.substr(0, text.find_first_not_of("0123456789."));
  while (text.ends_with('.')) text.remove_suffix(1);
  return std::string(text);
}

// The version that function `name` of a library returns; empty when either is missing.
std::string query_version(const char* variable, const char* file, const char* name,
                          const std::function<std::string(int)>& text) {
  try {
    detail::SharedObject const library(variable, file, "");
    int (*const get)(int*) = library.find(name);
    int code = 0;
    return get(&code) == 0 && code > 0 ? text(code) : "";
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

std::string slurm() {
  auto const close = [](FILE* pipe) { pclose(pipe); };
  // srun prints its version only where there is a slurm.conf.
  std::unique_ptr<FILE, decltype(close)> const pipe(
      popen("PATH=$PATH:/usr/sbin; slurmd -V 2>/dev/null || srun --version 2>/dev/null", "r"), close);
  std::array<char, 128> line{};
  if (!pipe || fgets(line.data(), static_cast<int>(line.size()), pipe.get()) == nullptr) return "";
  return extract_version(line.data());
}

std::string hwloc() {
  unsigned const code = hwloc_get_api_version();
  return fmt::format("API {}.{}", code >> 16, code >> 8 & 0xff);  // hwloc reports no release
}

std::string pmix() {
#ifdef MUSTER_HAVE_PMIX
  return extract_version(PMIx_Get_version());
#else
  return "";
#endif
}

std::string open_mpi() {
#ifdef MUSTER_MPI_FILE
  try {
    detail::SharedObject const library("MUSTER_MPI_LIBRARY", MUSTER_MPI_FILE, "");
    int (*const get)(char* text, int* length) = library.find("MPI_Get_library_version");
    std::array<char, 4096> text{};  // more than MPI_MAX_LIBRARY_VERSION_STRING
    int length = 0;
    return get(text.data(), &length) == 0 ? extract_version(text.data()) : "";  // allowed before MPI_Init
  } catch (const Error&) {
  }
#endif
  return "";
}

std::string cuda() {
  return query_version("MUSTER_CUDA_LIBRARY", "libcuda.so.1", "cuDriverGetVersion",
                       [](int code) { return fmt::format("{}.{}", code / 1000, code / 10 % 100); });
}

std::string nccl() {
  return query_version("MUSTER_NCCL_LIBRARY", "libnccl.so.2", "ncclGetVersion", [](int code) {
    return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
  });
}

}  // namespace muster::cli::found
