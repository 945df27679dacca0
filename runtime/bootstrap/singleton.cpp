// SPDX-License-Identifier: Apache-2.0
#include "roster/bootstrap.hpp"

namespace muster::bootstrap {
namespace {

class Alone : public Bootstrap {
 public:
  const char* name() const noexcept override { return "alone"; }
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 1; }
  int local_rank() const noexcept override { return 0; }
  std::vector<JoinRecord> exchange(const JoinRecord& mine, const Deadline&) override { return {mine}; }
  void finish() noexcept override {}
};

}  // namespace

std::unique_ptr<Bootstrap> alone() { return std::make_unique<Alone>(); }

}  // namespace muster::bootstrap
