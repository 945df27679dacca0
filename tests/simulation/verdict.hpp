// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "job_facts.hpp"

namespace simulator {

/// A finished job, what is known about it, and the rules that it broke.
class Verdict {
 protected:
  explicit Verdict(const JobResult& result) : result_(result), facts_(result) {}
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    violations_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  const JobResult& result_;
  JobFacts facts_;
  std::vector<std::string> violations_;
};

}  // namespace simulator
