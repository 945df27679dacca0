// SPDX-License-Identifier: Apache-2.0
#include "job/rank_0_section.hpp"

#include <fmt/format.h>

#include <numeric>
#include <optional>

#include "cbor.hpp"
#include "muster/error.hpp"
#include "repeat_error.hpp"

namespace muster {
namespace {

std::optional<Error> run_section(const std::string& name, const std::function<void()>& section) {
  try {
    section();
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return Error(ErrorCode::system, fmt::format("{}: {}", name, error.what()));
  } catch (...) {
    return Error(ErrorCode::system, name + ": the section threw something that is not a std::exception");
  }
  return std::nullopt;
}

}  // namespace

void run_on_rank_0(control::ControlPlane* plane, int rank, int ranks, const std::string& name,
                   const std::function<void()>& section, std::chrono::milliseconds deadline) {
  auto const what = "section '" + name + "'";
  auto const call = plane != nullptr ? plane->enter_call(what) : nullptr;
  auto const failed = rank == 0 ? run_section(name, section) : std::nullopt;
  if (plane != nullptr) {
    control::Blob outcome;
    if (failed) outcome = write_cbor(nlohmann::json{static_cast<int>(failed->code()), failed->what()});
    std::vector<int> everyone(static_cast<std::size_t>(ranks));
    std::iota(everyone.begin(), everyone.end(), 0);
    outcome = plane->broadcast(what, everyone, 0, outcome, deadline);
    if (rank != 0 && !outcome.empty()) {
      auto const remote_error = read_cbor(outcome, "what rank 0 threw");
      rethrow_remote_error(static_cast<ErrorCode>(remote_error.at(0).get<int>()),
                           remote_error.at(1).get<std::string>());
    }
  }
  if (failed) throw *failed;
}

}  // namespace muster
