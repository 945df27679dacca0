// SPDX-License-Identifier: Apache-2.0
#include "metrics.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "atomic_file.hpp"
#include "muster/error.hpp"

namespace muster {

Metrics::Metrics(std::filesystem::path path, bool resume, std::int64_t resumed_step)
    : path_(std::move(path)) {
  if (resume) keep_earlier(resumed_step);
  AtomicFile file(path_);
  file.write(pending_);
  file.commit();
  pending_.clear();
  open();
}

Metrics::~Metrics() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Metrics::keep_earlier(std::int64_t resumed_step) {
  std::ifstream earlier(path_);
  std::string line;
  while (std::getline(earlier, line)) {
    const auto record = nlohmann::json::parse(line, nullptr, false);
    if (!record.is_object() || !record.contains("step") || !record["step"].is_number_integer()) continue;
    const auto step = record["step"].get<std::int64_t>();
    if (step > resumed_step) continue;
    for (auto [key, losses] :
         {std::pair{"train_loss", &training_}, std::pair{"validation_loss", &validation_}}) {
      if (record.contains(key) && record[key].is_number())
        losses->push_back({step, record[key].get<double>()});
    }
    pending_ += line + '\n';
  }
}

void Metrics::open() {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (descriptor_ < 0)
    throw Error(Fault::system, fmt::format("cannot open {}: {}", path_.string(), std::strerror(errno)));
}

void Metrics::training(std::int64_t step, double loss, double learning_rate, double gradient_norm,
                       double tokens_per_second, double exposed_seconds) {
  training_.push_back({step, loss});
  pending_ += fmt::format(
      R"({{"step":{},"train_loss":{:.6f},"learning_rate":{:.6g},"gradient_norm":{:.6g},"tokens_per_second":{:.0f},"exposed_ms":{:.3f}}})"
      "\n",
      step, loss, learning_rate, gradient_norm, tokens_per_second,
      exposed_seconds * 1e3);
}

void Metrics::validation(std::int64_t step, double loss, std::int64_t bytes) {
  validation_.push_back({step, loss});
  pending_ += fmt::format(R"({{"step":{},"validation_loss":{:.6f},"validation_bytes":{}}})"
                          "\n",
                          step, loss, bytes);
}

void Metrics::flush() {
  std::size_t done = 0;
  while (done < pending_.size()) {
    const ssize_t count = ::write(descriptor_, pending_.data() + done, pending_.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      throw Error(Fault::system, fmt::format("cannot write {}: {}", path_.string(), std::strerror(errno)));
    done += static_cast<std::size_t>(count);
  }
  pending_.clear();
}

}  // namespace muster
