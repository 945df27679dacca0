// SPDX-License-Identifier: Apache-2.0
// The kernels of generation on the fake GPU, against the CPU's in double.
#include "compute/cuda/kernels/decode.cuh"
#include "compute/cuda/kernels/launch_sizes.hpp"
#include "trainer/fakes/on_emulated_gpu.hpp"

using namespace fake_gpu;
using namespace muster::compute::cuda;
using muster::compute::CacheShape;

static_assert(sizes::append_threads == append_threads);
static_assert(sizes::decode_threads == decode_threads);
static_assert(sizes::decode_bytes == decode_bytes);
static_assert(sizes::head_widths.back() == widest_head);

namespace {

std::size_t elements_of(int rows, int width) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(width);
}

/// One layer's cache on the fake GPU.
struct GpuCache {
  CacheShape s;
  std::vector<Bf16> keys = std::vector<Bf16>(elements_of(s.context, s.kv_width())), values = keys;

  void append(int past, int rows, const Bf16* qkv) {
    const auto threads = static_cast<unsigned>(rows * s.kv_width() / 8);
    run(muster_append_to_cache, {{(threads + append_threads - 1) / append_threads}, append_threads}, rows,
        past, s.context, s.head_width, s.kv_width(), s.qkv_width(), qkv, keys, values);
  }
  std::vector<Bf16> attend(int past, int rows, const Bf16* qkv) const {
    std::vector<Bf16> out(elements_of(rows, s.heads * s.head_width), rounded(777));
    const auto factor = static_cast<float>(1.4426950408889634 / std::sqrt(static_cast<double>(s.head_width)));
    run(muster_cached_attention,
        {{static_cast<unsigned>(s.heads), static_cast<unsigned>(rows)}, decode_threads, decode_bytes}, past,
        s.context, s.heads / s.kv_heads, s.head_width, s.qkv_width(), factor, qkv, keys.data(), values.data(),
        out);
    return out;
  }
};

/// What attention finds for the rows from `past` on, in double.
std::vector<double> exact_attention(const CacheShape& s, int past, int rows, const std::vector<double>& qkv) {
  muster::compute::cpu::CpuCompute<double> cpu({1, false, nullptr});
  std::vector<double> keys(elements_of(s.context, s.kv_width())),
      values = keys, out(elements_of(rows, s.heads * s.head_width));
  cpu.decode()->append_to_cache(s, 0, past + rows, qkv.data(), keys.data(), values.data());
  cpu.decode()->cached_attention(s, past, rows, qkv.data() + elements_of(past, s.qkv_width()), keys.data(),
                                 values.data(), out.data());
  return out;
}

struct Text {
  CacheShape shape;
  int past, rows;
};

}  // namespace

TEST_CASE("attention to a cache agrees with the CPU's in double", "[gpu kernels]") {
  // 16 warps take 64 keys at a time.
  for (const Text& t : {Text{{2, 1, 64, 80}, 65, 2}, Text{{2, 2, 32, 9}, 1, 2}, Text{{4, 2, 96, 20}, 17, 1},
                        Text{{2, 1, 128, 20}, 18, 1}}) {
    CAPTURE(t.shape.head_width, t.past, t.rows);
    const std::size_t width = static_cast<std::size_t>(t.shape.qkv_width());
    const auto qkv = random_bf16(elements_of(t.past + t.rows, t.shape.qkv_width()), 1, 1.5);
    const Bf16* const last = qkv.data() + static_cast<std::size_t>(t.past) * width;
    GpuCache cache{t.shape};
    cache.append(0, t.past, qkv.data());
    cache.append(t.past, t.rows, last);
    const auto found = cache.attend(t.past, t.rows, last);
    const auto inputs = exact(qkv);
    // Results are rounded once: the error is half a unit of the sum of |weight * value|.
    auto positive = inputs;
    for (std::size_t i = 0; i < positive.size(); ++i) {
      if (i % width >= width - static_cast<std::size_t>(t.shape.kv_width()))
        positive[i] = std::abs(positive[i]);
    }
    const auto sizes = exact_attention(t.shape, t.past, t.rows, positive);
    CHECK(worst_ratio(found, exact_attention(t.shape, t.past, t.rows, inputs),
                      bounds(sizes, 1.05 * half_unit, 1e-6)) < 1);
  }
}
