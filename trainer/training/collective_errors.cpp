// SPDX-License-Identifier: Apache-2.0
#include "training/collective_errors.hpp"

#include <fmt/format.h>
#include <sysexits.h>

#include <cstdio>
#include <new>
#include <span>
#include <system_error>

#include "text/printable.hpp"

namespace muster {
namespace {

/// True when there is no memory, or no thread can be started.
bool is_exhausted(const std::exception& error) noexcept {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  const auto* const system = dynamic_cast<const std::system_error*>(&error);
  return system != nullptr && system->code() == std::errc::resource_unavailable_try_again;
}

}  // namespace

int exit_code_for(const std::exception& error) noexcept {
  if (const auto* ended = dynamic_cast<const CollectiveAbort*>(&error)) return ended->exit_code();
  if (const auto* code = dynamic_cast<const Error*>(&error)) return code->exit_code();
  return is_exhausted(error) ? EX_OSERR : 1;
}

std::string describe_error(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return "out of memory: use a smaller model, --batch or --context";
  if (is_exhausted(error)) {
    return fmt::format(
        "cannot start a thread: {}: raise the limit of processes (ulimit -u) or of the address "
        "space (ulimit -v)",
        error.what());
  }
  return error.what();
}

void print_error(const std::string& text) {
  std::fflush(stdout);
  fmt::print(stderr, "muster-train: {}\n", printable(text));
}

void CollectiveErrors::run_on_all(const std::function<void()>& action) {
  std::string failure;
  int code = 0;
  try {
    action();
  } catch (const std::exception& error) {
    code = exit_code_for(error);
    failure = describe_error(error);
  }
  const auto codes = gather(static_cast<std::uint64_t>(code));
  for (std::size_t rank = 0; rank < codes.size(); ++rank) {
    if (codes[rank] == 0) continue;
    if (static_cast<int>(rank) == world_.rank()) print_error(failure);
    // A launcher may kill the whole job when the first rank exits: no rank exits before the line is printed.
    world_.barrier();
    throw CollectiveAbort(static_cast<int>(codes[rank]));
  }
}

void CollectiveErrors::run_on_rank0(const std::function<void()>& action) {
  run_on_all([&] {
    if (world_.rank() == 0) action();
  });
}

std::vector<std::uint64_t> CollectiveErrors::gather(std::uint64_t mine, std::uint64_t lost) {
  std::vector<std::uint64_t> all(static_cast<std::size_t>(world_.size()), lost);
  world_.all_gather(std::span<const std::uint64_t>(&mine, 1), std::span(all));
  return all;
}

std::vector<int> CollectiveErrors::differing_ranks(std::uint64_t mine) {
  const auto all = gather(mine, mine);
  std::vector<int> differing;
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all[0]) differing.push_back(static_cast<int>(rank));
  }
  return differing;
}

}  // namespace muster
