// SPDX-License-Identifier: Apache-2.0
// Causal attention of the heads that share keys and values, by bfloat16 products of tiles of 64 queries and
// 64 keys (FlashAttention-2, arXiv 2307.08691). Softmax and all sums are in float; probabilities and their
// gradients are rounded to bfloat16 for the next product. Compiled for processors with AVX-512 BF16 alone.
#include "compute/cpu/bfloat16_tiles.hpp"
#include "compute/cpu/kernel_dispatch.hpp"

namespace {

using muster::bfloat16;
using muster::compute::cpu::HeadGroup;

constexpr float log2_e = 1.44269504f;
constexpr double log_2 = 0.693147180559945309;

/// The sizes of a group of heads in tiles.
struct Sizes {
  int head_width, width, pairs, tiles;
  std::ptrdiff_t rows;
  explicit Sizes(const HeadGroup& group)
      : head_width(group.head_width),
        width(padded_width(group.head_width)),
        pairs((group.head_width + 1) / 2),
        tiles((group.length + tile - 1) / tile),
        rows(std::ptrdiff_t{tiles} * tile) {}
  /// Pairs of a packed tile.
  std::ptrdiff_t packed() const { return std::ptrdiff_t{tile} * width / 2; }
  /// Scores times this are exponents of two.
  float scale() const { return static_cast<float>(1 / __builtin_sqrt(double{1} * head_width)); }
};

/// The tile at row `first` of a [length, head width] matrix.
TileRows tile_rows(const bfloat16* data, std::ptrdiff_t row, int first, const HeadGroup& group) {
  const int left = group.length - first;
  return {data + first * row, row, left < tile ? left : tile, group.head_width};
}

/// Hands out parts of the scratch memory.
struct Workspace {
  float* next;
  float* floats(std::ptrdiff_t count) {
    float* const part = next;
    next += count;
    return part;
  }
  Pair* pairs(std::ptrdiff_t count) { return reinterpret_cast<Pair*>(floats(count)); }
};

/// Columns of a row that its query may see, of the 16 from `at` on.
__mmask16 visible(bool diagonal, int row, int at) {
  const int seen = row + 1 - at;
  if (!diagonal || seen >= lanes) return 0xffff;
  return static_cast<__mmask16>(seen <= 0 ? 0 : (1 << seen) - 1);
}

/// What a tile of queries has found among the keys so far.
struct OnlineSoftmax {
  float *largest, *sums, *out;  ///< [tile], [tile][lanes], [tile][width]

  void clear(int width) const {
    for (int i = 0; i < tile; ++i) largest[i] = -__builtin_inff();
    for (int i = 0; i < tile * lanes; ++i) sums[i] = 0;
    for (int i = 0; i < tile * width; ++i) out[i] = 0;
  }
  /// Scales row i to a new largest exponent.
  void rescale(int i, float now, int width) const {
    const __m512 factor = power_of_two(_mm512_set1_ps(largest[i] - now));
    largest[i] = now;
    for (float *at = sums + i * lanes, *end = at + lanes; at < end; at += lanes)
      _mm512_storeu_ps(at, _mm512_mul_ps(_mm512_loadu_ps(at), factor));
    for (float *at = out + i * width, *end = at + width; at < end; at += lanes)
      _mm512_storeu_ps(at, _mm512_mul_ps(_mm512_loadu_ps(at), factor));
  }
};

/// Turns scores into probabilities that lack a row's factor. probabilities: [tile][tile / 2].
void softmax_tile(const float* scores, Pair* probabilities, const OnlineSoftmax& softmax,
                  float exponent_scale, int width, bool diagonal) {
  const __m512 scale = _mm512_set1_ps(exponent_scale);
  for (int i = 0; i < tile; ++i, scores += tile, probabilities += tile / 2) {
    __m512 x[tile / lanes], largest = _mm512_set1_ps(softmax.largest[i]);
    for (int v = 0; v < tile / lanes; ++v) {
      x[v] = _mm512_mul_ps(_mm512_loadu_ps(scores + v * lanes), scale);
      largest = _mm512_mask_max_ps(largest, visible(diagonal, i, v * lanes), largest, x[v]);
    }
    const float now = _mm512_reduce_max_ps(largest);
    if (now > softmax.largest[i]) softmax.rescale(i, now, width);
    __m512 sum = _mm512_loadu_ps(softmax.sums + i * lanes);
    for (int v = 0; v < tile / lanes; ++v) {
      x[v] = _mm512_maskz_mov_ps(visible(diagonal, i, v * lanes),
                                 power_of_two(_mm512_sub_ps(x[v], _mm512_set1_ps(now))));
      sum = _mm512_add_ps(sum, x[v]);
    }
    _mm512_storeu_ps(softmax.sums + i * lanes, sum);
    for (int v = 0; v < tile / lanes; v += 2)
      _mm512_storeu_si512(probabilities + v * lanes / 2, rounded(x[v], x[v + 1]));
  }
}

/// Divides by the sums. Sets the log sums of the first `rows` queries.
void finish_tile(const OnlineSoftmax& softmax, float* log_sum, int rows, int width) {
  for (int i = 0; i < rows; ++i) {
    const float sum = _mm512_reduce_add_ps(_mm512_loadu_ps(softmax.sums + i * lanes));
    log_sum[i] = static_cast<float>(__builtin_log(double{sum}) + log_2 * double{softmax.largest[i]});
    const __m512 inverse = _mm512_set1_ps(1 / sum);
    for (float *at = softmax.out + i * width, *end = at + width; at < end; at += lanes)
      _mm512_storeu_ps(at, _mm512_mul_ps(_mm512_loadu_ps(at), inverse));
  }
}

void forward(const bfloat16* q, bfloat16* out, float* log_sum, float* from, const HeadGroup& group) {
  const Sizes size(group);
  Workspace scratch{from};
  Pair *keys = scratch.pairs(size.tiles * size.packed()), *values = scratch.pairs(size.tiles * size.packed()),
       *queries = scratch.pairs(size.packed()), *probabilities = scratch.pairs(tile * tile / 2);
  float* scores = scratch.floats(tile * tile);
  const OnlineSoftmax softmax{scratch.floats(tile), scratch.floats(tile * lanes),
                              scratch.floats(std::ptrdiff_t{tile} * size.width)};
  for (int k = 0; k < size.tiles; ++k) {
    pack_transposed(tile_rows(q + group.key, group.row, k * tile, group), keys + k * size.packed());
    pack_row_pairs(tile_rows(q + group.value, group.row, k * tile, group), values + k * size.packed());
  }
  for (int head = 0; head < group.heads; ++head, q += size.head_width, out += size.head_width) {
    for (int t = 0; t < size.tiles; ++t) {
      const TileRows rows = tile_rows(q, group.row, t * tile, group);
      pack_rows(rows, queries);
      softmax.clear(size.width);
      for (int k = 0; k <= t; ++k) {
        multiply(tile, size.pairs, {queries, size.width / 2, 1}, keys + k * size.packed(), scores, false);
        softmax_tile(scores, probabilities, softmax, size.scale() * log2_e, size.width, k == t);
        multiply(size.width, tile / 2, {probabilities, tile / 2, 1}, values + k * size.packed(), softmax.out,
                 true);
      }
      finish_tile(softmax, log_sum + std::ptrdiff_t{head} * group.length + t * tile, rows.rows, size.width);
      store_rows(softmax.out, size.width, out + std::ptrdiff_t{t} * tile * group.out_row, group.out_row,
                 rows.rows, size.head_width);
    }
  }
}

/// One tile's scores and the gradients of its probabilities, then what the next products read.
struct SoftmaxTile {
  float *scores, *d_probabilities;        ///< [tile][tile]
  Pair *probabilities, *d_scores_by_row;  ///< [tile / 2][tile], pairs along the queries
  Pair* d_scores;                         ///< [tile][tile / 2], pairs along the keys
  explicit SoftmaxTile(Workspace& scratch)
      : scores(scratch.floats(tile * tile)),
        d_probabilities(scratch.floats(tile * tile)),
        probabilities(scratch.pairs(tile * tile / 2)),
        d_scores_by_row(scratch.pairs(tile * tile / 2)),
        d_scores(scratch.pairs(tile * tile / 2)) {}

  /// log_sum: to the base of two; dot: of each query's output and its gradient.
  void softmax_backward(const float* log_sum, const float* dot, float scale, bool diagonal) const {
    for (int i = 0; i < tile; i += 2) {
      for (int at = 0; at < tile; at += 2 * lanes) {
        __m512 p[2][2], d[2][2];
        for (int row = 0; row < 2; ++row) {
          for (int v = 0; v < 2; ++v) {
            const int from = (i + row) * tile + at + v * lanes;
            const __mmask16 mask = visible(diagonal, i + row, at + v * lanes);
            p[row][v] = _mm512_maskz_mov_ps(
                mask,
                power_of_two(_mm512_fmsub_ps(_mm512_loadu_ps(scores + from), _mm512_set1_ps(scale * log2_e),
                                             _mm512_set1_ps(log_sum[i + row]))));
            const __m512 above =
                _mm512_sub_ps(_mm512_loadu_ps(d_probabilities + from), _mm512_set1_ps(dot[i + row]));
            d[row][v] = _mm512_maskz_mul_ps(mask, p[row][v], _mm512_mul_ps(above, _mm512_set1_ps(scale)));
          }
          _mm512_storeu_si512(d_scores + ((i + row) * tile + at) / 2, rounded(d[row][0], d[row][1]));
        }
        for (int v = 0; v < 2; ++v) {
          const int to = i / 2 * tile + at + v * lanes;
          _mm512_storeu_si512(probabilities + to, by_turns(p[0][v], p[1][v]));
          _mm512_storeu_si512(d_scores_by_row + to, by_turns(d[0][v], d[1][v]));
        }
      }
    }
  }

 private:
  static __m512i by_turns(__m512 x, __m512 y) {
    return _mm512_permutexvar_epi16(interleaved_places(0, lanes), rounded(x, y));
  }
};

/// A head's queries and gradients of outputs, packed in both ways, and the gradients of its queries.
struct Head {
  Pair *queries, *query_pairs, *d_out, *d_out_pairs;
  float *d_query, *log_sum, *dot;
  Head(Workspace& scratch, const Sizes& size)
      : queries(scratch.pairs(size.tiles * size.packed())),
        query_pairs(scratch.pairs(size.tiles * size.packed())),
        d_out(scratch.pairs(size.tiles * size.packed())),
        d_out_pairs(scratch.pairs(size.tiles * size.packed())),
        d_query(scratch.floats(size.rows * size.width)),
        log_sum(scratch.floats(size.rows)),
        dot(scratch.floats(size.rows)) {}

  void begin(const bfloat16* q, const bfloat16* out, const bfloat16* d_outputs, const float* log_sums,
             const HeadGroup& group, const Sizes& size) const {
    for (int t = 0; t < size.tiles; ++t) {
      const TileRows rows = tile_rows(q, group.row, t * tile, group),
                     above = tile_rows(d_outputs, group.out_row, t * tile, group),
                     outputs = tile_rows(out, group.out_row, t * tile, group);
      pack_rows(rows, queries + t * size.packed());
      pack_row_pairs(rows, query_pairs + t * size.packed());
      pack_rows(above, d_out + t * size.packed());
      pack_row_pairs(above, d_out_pairs + t * size.packed());
      for (int i = 0; i < tile; ++i) {
        // Rows behind the last are zero, and so are their gradients: any finite log sum will do.
        log_sum[t * tile + i] = i < rows.rows ? log_sums[t * tile + i] * log2_e : 0;
        dot[t * tile + i] = product(outputs, above, i, size.width);
      }
    }
    for (std::ptrdiff_t i = 0; i < size.rows * size.width; ++i) d_query[i] = 0;
  }

 private:
  static float product(const TileRows& x, const TileRows& y, int row, int width) {
    __m512 even = _mm512_setzero_ps(), odd = even;
    const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
    for (int at = 0; at < width; at += 32) {
      const __m512i a = x.load(row, at), b = y.load(row, at);
      even = _mm512_fmadd_ps(reinterpret_cast<__m512>(_mm512_slli_epi32(a, 16)),
                             reinterpret_cast<__m512>(_mm512_slli_epi32(b, 16)), even);
      odd = _mm512_fmadd_ps(reinterpret_cast<__m512>(_mm512_and_si512(a, high)),
                            reinterpret_cast<__m512>(_mm512_and_si512(b, high)), odd);
    }
    return _mm512_reduce_add_ps(_mm512_add_ps(even, odd));
  }
};

/// The keys and values that the heads share, packed, and their gradients.
struct KeyValue {
  Pair *keys, *key_pairs, *values;
  float *d_key, *d_value;
  KeyValue(Workspace& scratch, const Sizes& size)
      : keys(scratch.pairs(size.tiles * size.packed())),
        key_pairs(scratch.pairs(size.tiles * size.packed())),
        values(scratch.pairs(size.tiles * size.packed())),
        d_key(scratch.floats(size.rows * size.width)),
        d_value(scratch.floats(size.rows * size.width)) {}

  void begin(const bfloat16* q, const HeadGroup& group, const Sizes& size) const {
    for (int k = 0; k < size.tiles; ++k) {
      const TileRows rows = tile_rows(q + group.key, group.row, k * tile, group);
      pack_transposed(rows, keys + k * size.packed());
      pack_row_pairs(rows, key_pairs + k * size.packed());
      pack_transposed(tile_rows(q + group.value, group.row, k * tile, group), values + k * size.packed());
    }
    for (std::ptrdiff_t i = 0; i < size.rows * size.width; ++i) d_key[i] = d_value[i] = 0;
  }
};

/// Adds to the gradients what the queries of tile t and the keys of tile k give.
void backward_tile(const Head& head, const KeyValue& kv, const SoftmaxTile& score, int t, int k,
                   const Sizes& size) {
  const std::ptrdiff_t query = t * size.packed(), key = k * size.packed();
  const int half = size.width / 2;
  multiply(tile, size.pairs, {head.queries + query, half, 1}, kv.keys + key, score.scores, false);
  multiply(tile, size.pairs, {head.d_out + query, half, 1}, kv.values + key, score.d_probabilities, false);
  score.softmax_backward(head.log_sum + t * tile, head.dot + t * tile, size.scale(), k == t);
  multiply(size.width, tile / 2, {score.probabilities, 1, tile}, head.d_out_pairs + query,
           kv.d_value + 2 * key, true);
  multiply(size.width, tile / 2, {score.d_scores_by_row, 1, tile}, head.query_pairs + query,
           kv.d_key + 2 * key, true);
  multiply(size.width, tile / 2, {score.d_scores, tile / 2, 1}, kv.key_pairs + key, head.d_query + 2 * query,
           true);
}

void backward(const bfloat16* q, const bfloat16* out, const float* log_sum, const bfloat16* d_out,
              bfloat16* d_q, float* from, const HeadGroup& group) {
  const Sizes size(group);
  Workspace scratch{from};
  const SoftmaxTile score(scratch);
  const KeyValue kv(scratch, size);
  const Head head(scratch, size);
  kv.begin(q, group, size);
  for (int h = 0; h < group.heads; ++h) {
    const int at = h * size.head_width;
    head.begin(q + at, out + at, d_out + at, log_sum + std::ptrdiff_t{h} * group.length, group, size);
    for (int k = 0; k < size.tiles; ++k) {
      for (int t = k; t < size.tiles; ++t) backward_tile(head, kv, score, t, k, size);
    }
    store_rows(head.d_query, size.width, d_q + at, group.row, group.length, size.head_width);
  }
  store_rows(kv.d_key, size.width, d_q + group.key, group.row, group.length, size.head_width);
  store_rows(kv.d_value, size.width, d_q + group.value, group.row, group.length, size.head_width);
}

/// The backward pass needs more than the forward pass: a SoftmaxTile, KeyValue and a Head.
std::size_t scratch_size(const HeadGroup& group) {
  const Sizes size(group);
  const std::ptrdiff_t score = tile * tile * 7 / 2, rows = size.rows * size.width;
  return static_cast<std::size_t>(score + 7 * size.tiles * size.packed() + 3 * rows + 2 * size.rows);
}

}  // namespace

namespace muster::compute::cpu::avx512_bf16 {
const AttentionKernels<bfloat16> bfloat16_attention{scratch_size, forward, backward};
}  // namespace muster::compute::cpu::avx512_bf16
