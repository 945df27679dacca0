// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "files/append_file.hpp"
#include "report/metrics.hpp"

namespace muster {

/// A file of scalars for TensorBoard, one per start of a run. A record is: length, masked CRC32C of the
/// length, an Event message (tensorflow/core/util/event.proto), masked CRC32C of the message. Rank 0 only.
class EventFile {
 public:
  /// Creates `folder`/events.out.tfevents.TIME.HOST.PID. Marks the events after `first_step` in the folder's
  /// earlier files as obsolete: TensorBoard drops them.
  /// @throws muster::Error(ErrorCode::system), as flush() does.
  EventFile(const std::filesystem::path& folder, std::int64_t first_step);

  void training(const StepRecord& record);
  /// `accuracy`: share of right predictions, when the model counts them.
  void validation(std::int64_t step, double loss, std::optional<double> accuracy = {});
  /// Writes what was added since the last flush.
  void flush() { file_.flush(); }

 private:
  void record(const std::string& event);

  AppendFile file_;
};

}  // namespace muster
