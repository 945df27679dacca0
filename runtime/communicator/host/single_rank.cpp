// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <utility>

#include "communicator/backend.hpp"
#include "communicator/host/premul_sum.hpp"
#include "communicator/pending_work.hpp"

namespace muster::detail {
namespace {

// A world of one rank on host memory: the reduction of one operand is that operand.
class SingleRank : public CommunicatorBackend {
 public:
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 1; }
  const char* backend() const noexcept override { return "alone"; }

  // Communicator rejects messages, since there is no other rank.
  void run(const CollectiveCall& given, Stream) override {
    PremulSum const scaled(given, 0, 1);
    const auto& call = scaled.call();
    auto const bytes = call.in_count(1) * size_of(call.type);
    if (call.in != call.out && bytes > 0) std::memcpy(call.out, call.in, bytes);
  }
  std::shared_ptr<CommunicatorBackend> split(int, int) override { return std::make_shared<SingleRank>(); }
  void synchronize(Stream) override {}
  std::vector<std::vector<std::uint64_t>> host_all_gather(const char*,
                                                          const std::vector<std::uint64_t>& mine) override {
    return {mine};
  }

  void run_group(GroupedCalls::Calls calls) override {
    for (const auto& recorded : calls.collectives) run(recorded.call, recorded.stream);
  }
  std::unique_ptr<PendingWork> start_group(GroupedCalls::Calls calls) override {
    run_group(std::move(calls));
    return nullptr;
  }
};

}  // namespace

std::shared_ptr<CommunicatorBackend> make_single_rank() { return std::make_shared<SingleRank>(); }

}  // namespace muster::detail
