// SPDX-License-Identifier: Apache-2.0
#include "training/throughput.hpp"

#include <algorithm>

namespace muster {
namespace {

constexpr double weight_a_step_later = 0.95;  // decay per step of the recent averages

}  // namespace

void Throughput::add(std::int64_t tokens, double seconds, double exposed_seconds) {
  recent_weight_ = weight_a_step_later * recent_weight_ + 1;
  recent_tokens_ = weight_a_step_later * recent_tokens_ + static_cast<double>(tokens);
  recent_seconds_ = weight_a_step_later * recent_seconds_ + seconds;
  recent_exposed_ = weight_a_step_later * recent_exposed_ + exposed_seconds;
  tokens_ += tokens;
  seconds_ += seconds;
  exposed_ += exposed_seconds;
  durations_.push_back(static_cast<float>(seconds));
  if (seconds > 0) rates_.push_back(static_cast<float>(static_cast<double>(tokens) / seconds));
}

std::optional<double> Throughput::mfu(double tokens_per_second) const {
  if (peak_flops_ <= 0 || flops_per_token_ <= 0) return std::nullopt;
  return tokens_per_second * flops_per_token_ / peak_flops_;
}

double Throughput::recent_tokens_per_second() const {
  return recent_seconds_ > 0 ? recent_tokens_ / recent_seconds_ : 0;
}
double Throughput::recent_exposed_share() const {
  return recent_seconds_ > 0 ? recent_exposed_ / recent_seconds_ : 0;
}
double Throughput::recent_step_seconds() const {
  return recent_weight_ > 0 ? recent_seconds_ / recent_weight_ : 0;
}

double Throughput::median(std::vector<float> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return static_cast<double>(*middle);
}

}  // namespace muster
