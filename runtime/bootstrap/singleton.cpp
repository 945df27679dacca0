// SPDX-License-Identifier: Apache-2.0
#include "roster/bootstrap.hpp"

namespace muster::bootstrap {
namespace {

class SingletonBootstrap : public Bootstrap {
 public:
  const char* name() const noexcept override { return "alone"; }
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 1; }
  int local_rank() const noexcept override { return 0; }
  std::vector<JoinRecord> exchange(const JoinRecord& mine, const Deadline&) override { return {mine}; }
  void finalize() noexcept override {}
};

}  // namespace

std::unique_ptr<Bootstrap> make_singleton_bootstrap() { return std::make_unique<SingletonBootstrap>(); }

}  // namespace muster::bootstrap
