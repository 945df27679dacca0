// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "communicator/backend.hpp"
#include "muster/error.hpp"

namespace muster::detail {
namespace {

// A world of one rank on host memory: the reduction of one operand is that operand.
class SingleRank : public CommunicatorBackend {
 public:
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 1; }
  const char* backend() const noexcept override { return "alone"; }

  void all_reduce(const void* in, void* out, std::size_t count, DataType type, Reduction, Stream) override {
    copy(in, out, count, type);
  }
  void reduce(void*, std::size_t, DataType, Reduction, int, Stream) override {}
  void broadcast(void*, std::size_t, DataType, int, Stream) override {}
  void all_gather(const void* in, void* out, std::size_t count, DataType type, Stream) override {
    copy(in, out, count, type);
  }
  void all_gather_v(const void* in, void* out, std::span<const std::size_t> counts, DataType type,
                    Stream) override {
    copy(in, out, counts.front(), type);
  }
  void reduce_scatter(const void* in, void* out, std::size_t count, DataType type, Reduction,
                      Stream) override {
    copy(in, out, count, type);
  }
  void all_to_all(const void* in, void* out, std::size_t count, DataType type, Stream) override {
    copy(in, out, count, type);
  }
  // Communicator rejects sends to and receives from the own rank, and there is no other.
  void send(const void*, std::size_t, DataType, int, Stream) override {
    throw Error(ErrorCode::usage, "send: there is no other rank");
  }
  void recv(void*, std::size_t, DataType, int, Stream) override {
    throw Error(ErrorCode::usage, "recv: there is no other rank");
  }
  void barrier(Stream) override {}
  std::shared_ptr<CommunicatorBackend> split(int, int) override { return std::make_shared<SingleRank>(); }
  void synchronize(Stream) override {}
  std::vector<std::vector<std::uint64_t>> host_all_gather(const char*,
                                                          const std::vector<std::uint64_t>& mine) override {
    return {mine};
  }

  // Calls run at once: they wait for no other rank, so grouping changes nothing.
  void begin_group() override { in_group_ = true; }
  void end_group() override { in_group_ = false; }
  void discard_group() noexcept override { in_group_ = false; }
  bool in_group() const noexcept override { return in_group_; }

 private:
  static void copy(const void* in, void* out, std::size_t count, DataType type) {
    if (in != out) std::memcpy(out, in, count * size_of(type));
  }

  bool in_group_ = false;
};

}  // namespace

std::shared_ptr<CommunicatorBackend> make_single_rank() { return std::make_shared<SingleRank>(); }

}  // namespace muster::detail
