// SPDX-License-Identifier: Apache-2.0
#include "reducer/bucket_size_agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <numeric>
#include <string_view>
#include <vector>

#include "hash/fnv1a.hpp"
#include "log.hpp"
#include "reducer/bucket_size.hpp"

namespace muster::detail {
namespace {

constexpr std::uint64_t unset = 0;
constexpr std::uint64_t not_a_number = ~std::uint64_t{0};

std::uint64_t bytes_from_environment() {
  const char* const value = std::getenv("MUSTER_BUCKET_BYTES");
  if (value == nullptr || *value == '\0') return unset;
  std::string_view const text(value);
  std::uint64_t bytes = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  return error != std::errc() || end != text.data() + text.size() || bytes == 0 ? not_a_number : bytes;
}

// The options that all ranks share, as list_layout() lists them.
constexpr std::array option_names{"reduction", "bucket_bytes", "bfloat16", "chunks", "type"};

// The options and the parameters' sizes.
std::vector<std::uint64_t> list_layout(std::span<const std::size_t> sizes, const ReducerOptions& options) {
  std::vector<std::uint64_t> words{static_cast<std::uint64_t>(options.reduction), options.bucket_bytes,
                                   std::uint64_t{options.bfloat16}, options.chunks,
                                   static_cast<std::uint64_t>(options.type)};
  words.insert(words.end(), sizes.begin(), sizes.end());
  return words;
}

std::uint64_t hash(const std::vector<std::uint64_t>& words) {
  return std::accumulate(words.begin(), words.end(), fnv1a_basis, fnv1a_add);
}

// How the layout of `rank` differs from rank 0's. Collective.
std::string describe_difference(CommunicatorBackend& comm, int rank, const std::vector<std::uint64_t>& mine) {
  bool const is_compared = comm.rank() == 0 || comm.rank() == rank;
  auto const all =
      comm.host_all_gather("reducer's layouts", is_compared ? mine : std::vector<std::uint64_t>{});
  auto const& first = all.front();
  auto const& other = all.at(static_cast<std::size_t>(rank));
  auto const at = static_cast<std::size_t>(
      std::mismatch(first.begin(), first.end(), other.begin(), other.end()).first - first.begin());
  auto const name = comm.describe_rank(rank);
  auto const name_0 = comm.describe_rank(0);
  auto const options = option_names.size();
  if (at < options)
    return fmt::format("{} has another ReducerOptions::{} than {}", name, option_names[at], name_0);
  if (first.size() != other.size())
    return fmt::format("{} has {} parameters, but {} has {}", name, other.size() - options, name_0,
                       first.size() - options);
  return fmt::format("parameter {} has {} elements on {}, but {} on {}", at - options, other[at], name,
                     first[at], name_0);
}

std::size_t measure_bucket_bytes(CommunicatorBackend& comm, CommStream* comm_stream, std::size_t total) {
  std::vector<float> on_host(comm_stream != nullptr ? 0 : max_measured_bytes / sizeof(float));
  void* const memory = comm_stream != nullptr ? comm_stream->allocate(max_measured_bytes) : on_host.data();
  Stream const stream = comm_stream != nullptr ? comm_stream->stream() : nullptr;
  auto const all_reduce = [&](std::size_t bytes) {
    comm.run(
        {OperationKind::all_reduce, memory, memory, bytes / sizeof(float), DataType::float32, Reduction::max},
        stream);
    comm.synchronize(stream);
  };
  auto const slowest = [&](double seconds) {
    double max_seconds = 0;
    for (const auto& theirs :
         comm.host_all_gather("reducer's measurement", {std::bit_cast<std::uint64_t>(seconds)}))
      max_seconds = std::max(max_seconds, std::bit_cast<double>(theirs.at(0)));
    return max_seconds;
  };
  auto const speed = measure_link_speed(all_reduce, slowest);
  auto const bytes = optimal_bucket_bytes(speed, total);
  log::debug("reducer: all-reduce takes {:.1f} us and {:.3f} GB/s: buckets of {} bytes", speed.latency * 1e6,
             speed.bandwidth / 1e9, bytes);
  return bytes;
}

}  // namespace

std::size_t agree_on_bucket_bytes(CommunicatorBackend& comm, CommStream* comm_stream,
                                  std::span<const std::size_t> sizes, const ReducerOptions& options) {
  auto const layout = list_layout(sizes, options);
  auto const all = comm.host_all_gather("reducer's options", {hash(layout), bytes_from_environment()});
  // Every rank gets the same data and throws the same error; rank 0 reports it.
  auto const throw_on_all_ranks = [&](const std::string& text) {
    throw Error(ErrorCode::usage, text, comm.rank() != 0);
  };
  for (std::size_t r = 1; r < all.size(); ++r) {
    if (all[r].at(0) != all[0].at(0))
      throw_on_all_ranks("reducer: " + describe_difference(comm, static_cast<int>(r), layout));
  }
  auto const requested = all[0].at(1);
  if (requested == not_a_number)
    throw_on_all_ranks("MUSTER_BUCKET_BYTES on rank 0 must be an integer of at least 1 (bytes), or unset");
  if (sizes.empty()) throw_on_all_ranks("reducer: there are no parameters");
  auto const total = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}) * size_of(options.type);
  if (requested != unset) return requested;
  if (options.bucket_bytes > 0) return options.bucket_bytes;
  return comm.size() == 1 ? std::max<std::size_t>(1, total) : measure_bucket_bytes(comm, comm_stream, total);
}

}  // namespace muster::detail
