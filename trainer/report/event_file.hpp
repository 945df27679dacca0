// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "files/append_file.hpp"
#include "report/metrics.hpp"

namespace muster {

/// A file of scalars for TensorBoard, one for each start of a run: records of a length, its masked CRC32C, an
/// Event message (tensorflow/core/util/event.proto) and that one's. Rank 0 only.
class EventFile {
 public:
  /// Creates `folder`/events.out.tfevents.TIME.HOST.PID. What earlier files of the folder hold after
  /// `first_step` is taken back: TensorBoard drops it.
  /// @throws muster::Error(ErrorCode::system), as flush() does.
  EventFile(const std::filesystem::path& folder, std::int64_t first_step);

  void training(const StepRecord& record);
  /// `accuracy`: the share that was right, where the model counts that.
  void validation(std::int64_t step, double loss, std::optional<double> accuracy = {});
  /// Writes what was added since the last flush.
  void flush() { file_.flush(); }

 private:
  void record(const std::string& event);

  AppendFile file_;
};

}  // namespace muster
