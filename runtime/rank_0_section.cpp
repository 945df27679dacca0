// SPDX-License-Identifier: Apache-2.0
#include "rank_0_section.hpp"

#include <fmt/format.h>

#include <numeric>
#include <optional>
#include <thread>

#include "cbor.hpp"
#include "muster/error.hpp"

namespace muster {
namespace {

// Rank 0 says it; the others end later, since some launchers end a job with its first process.
constexpr std::chrono::milliseconds quiet_time{500};

std::optional<Error> error_of(const std::string& name, const std::function<void()>& section) {
  try {
    section();
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return Error(Fault::system, fmt::format("{}: {}", name, error.what()));
  }
  return std::nullopt;
}

}  // namespace

void run_on_rank_0(control::Plane* plane, int rank, int ranks, const std::string& name,
                   const std::function<void()>& section, std::chrono::milliseconds deadline) {
  auto const failed = rank == 0 ? error_of(name, section) : std::nullopt;
  if (plane != nullptr) {
    control::Blob outcome;
    if (failed) outcome = write_cbor(nlohmann::json{static_cast<int>(failed->fault()), failed->what()});
    std::vector<int> everyone(static_cast<std::size_t>(ranks));
    std::iota(everyone.begin(), everyone.end(), 0);
    outcome = plane->broadcast("section '" + name + "'", everyone, 0, outcome, deadline);
    if (rank != 0 && !outcome.empty()) {
      auto const told = read_cbor(outcome, "what rank 0 threw");
      std::this_thread::sleep_for(quiet_time);
      throw Error(static_cast<Fault>(told.at(0).get<int>()), told.at(1).get<std::string>(), true);
    }
  }
  if (failed) throw *failed;
}

}  // namespace muster
