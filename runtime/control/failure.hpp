// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "control/channel.hpp"
#include "muster/error.hpp"

namespace muster::control {

/// What ended the job, the same on every rank. Only the speaker says it; the others end without a word.
struct Failure {
  Fault fault = Fault::system;
  int speaker = 0;
  std::string text;
};

Message to_message(const Failure& failure);
Failure failure_from(const Message& message);

}  // namespace muster::control
