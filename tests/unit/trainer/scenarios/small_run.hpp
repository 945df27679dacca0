// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>

#include "checkpoint/checkpoint_folder.hpp"
#include "content.hpp"
#include "run/trainer.hpp"
#include "temporary_folder.hpp"
#include "training/collective_errors.hpp"

/// The whole training loop as a job of one rank, on a few thousand bytes of text.
namespace small_run_of_one {

using namespace muster;

inline Options small_run(const TemporaryFolder& folder) {
  Options options;
  std::string text;
  for (int i = 0; i < 400; ++i) text += "the quick brown fox jumps over the lazy dog; ";
  write_file(folder / "text", text);
  options.data = (folder / "text").string();
  options.output = (folder / "run").string();
  options.model = {1, 2, 32, 24};
  options.batch = 5;
  options.steps = 60;
  options.warmup = 5;
  options.learning_rate = 1e-2;
  options.eval_every = 20;
  options.checkpoint_every = 20;
  options.log_every = 1000;
  options.device = Device::cpu;
  options.threads = 1;
  options.mfu = options.tensorboard = false;
  return options;
}

inline int train_alone(const Options& options) {
  Job job = Job::join({.device = Device::cpu});
  const int code = train(options, job);
  job.leave();
  return code;
}

inline std::filesystem::path checkpoint_folder(const Options& options, std::int64_t step) {
  return CheckpointFolder(std::filesystem::path(options.output) / "checkpoints", 1).checkpoint_path(step);
}

/// The bytes of both files of a checkpoint.
inline std::string read_checkpoint_bytes(const std::filesystem::path& checkpoint) {
  return content(checkpoint / "tensors.safetensors") + content(checkpoint / "state.json");
}

inline nlohmann::json last_line(const std::filesystem::path& path) {
  const std::string text = content(path);
  return nlohmann::json::parse(text.substr(text.rfind('\n', text.size() - 2) + 1));
}

/// Does this when the file options.status has the state "running", or after a minute.
inline std::thread when_training(const Options& options, std::function<void()> action) {
  return std::thread([status = options.status, action = std::move(action)] {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    const auto trains = [&] {
      return std::filesystem::exists(status) && last_line(status).at("state") == "running";
    };
    while (!trains() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    action();
  });
}

inline std::thread signal_during_training(const Options& options, int signal) {
  return when_training(options, [signal] { ::kill(::getpid(), signal); });
}

/// The exit code of the run, whether train() returns it or throws.
inline int run_exit_code(const Options& options) {
  try {
    return train_alone(options);
  } catch (const CollectiveAbort& ended) {
    return ended.exit_code();
  }
}

}  // namespace small_run_of_one
