// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "launcher/launcher_detection.hpp"
#include "transport/handshake.hpp"

namespace muster::bootstrap {

/// The user's key of a job: a hash of MUSTER_KEY, or of the content of the file MUSTER_KEY_FILE without white
/// space at its end, and of the job's name. Nothing when neither is set.
/// A key has 32 or more hexadecimal digits, which do not repeat themselves: whoever listens on the network
/// could find a phrase by trying. The file belongs to this user and nobody else may open it; or to root, and
/// then its group may read it (a Kubernetes secret).
/// @param rank an error is this rank's to report if it is 0.
/// @throws Error(ErrorCode::environment) for another key, another file, or when both variables are set.
std::optional<control::Key> read_user_key(const GetEnv& get_env, const std::string& job, int rank);

}  // namespace muster::bootstrap
