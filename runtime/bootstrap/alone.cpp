// SPDX-License-Identifier: Apache-2.0
#include "roster/membership.hpp"

namespace muster::bootstrap {
namespace {

class Alone : public Membership {
 public:
  const char* name() const noexcept override { return "alone"; }
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 1; }
  int local_rank() const noexcept override { return 0; }
  std::vector<Record> exchange(const Record& mine, const Deadline&) override { return {mine}; }
  void finish() noexcept override {}
};

}  // namespace

std::unique_ptr<Membership> alone() { return std::make_unique<Alone>(); }

}  // namespace muster::bootstrap
