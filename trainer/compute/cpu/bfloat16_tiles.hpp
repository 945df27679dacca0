// SPDX-License-Identifier: Apache-2.0
// Packed bfloat16 matrices and their products by AVX-512 BF16: vdpbf16ps multiplies pairs of neighbours along
// the inner dimension and adds both products to a float. Included only by kernel sources (see kernels.hpp).
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "muster/types.hpp"

namespace {

/// Rows of a tile: of queries as of keys.
constexpr int tile = 64;
constexpr int lanes = 16;
/// Two neighbours along the inner dimension of a product.
typedef std::uint32_t Pair __attribute__((may_alias));

/// Head widths are padded with zeros to whole vectors of bfloat16.
constexpr int padded_width(int head_width) { return (head_width + 31) / 32 * 32; }

/// Up to `tile` rows of a strided matrix, which the functions below pad with zeros to `tile` rows of
/// padded_width(columns) elements.
struct TileRows {
  const muster::bfloat16* data;
  std::ptrdiff_t row;
  int rows, columns;

  /// 32 elements of row i, from column `at` on.
  __m512i load(int i, int at) const {
    const int left = i < rows ? columns - at : 0;
    const __mmask32 mask = left >= 32 ? ~__mmask32{0} : (__mmask32{1} << left) - 1;
    return _mm512_maskz_loadu_epi16(mask, data + i * row + at);
  }
};

/// to: [tile][width / 2] pairs along the columns.
inline void pack_rows(const TileRows& from, Pair* to) {
  const int width = padded_width(from.columns);
  for (int i = 0; i < tile; ++i) {
    for (int at = 0; at < width; at += 32, to += lanes) _mm512_storeu_si512(to, from.load(i, at));
  }
}

/// The places `even`, `odd`, `even` + 1, `odd` + 1 and so on, of 32 elements.
inline __m512i interleaved_places(unsigned even, unsigned odd) {
  const __m512i count = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  return _mm512_add_epi32(_mm512_or_si512(count, _mm512_slli_epi32(count, 16)),
                          _mm512_set1_epi32(static_cast<int>(odd << 16 | even)));
}

/// to: [tile / 2][width] pairs along the rows.
inline void pack_row_pairs(const TileRows& from, Pair* to) {
  const int width = padded_width(from.columns);
  const __m512i low = interleaved_places(0, 32), high = interleaved_places(16, 48);
  for (int i = 0; i < tile; i += 2) {
    for (int at = 0; at < width; at += 32, to += 2 * lanes) {
      const __m512i even = from.load(i, at), odd = from.load(i + 1, at);
      _mm512_storeu_si512(to, _mm512_permutex2var_epi16(even, low, odd));
      _mm512_storeu_si512(to + lanes, _mm512_permutex2var_epi16(even, high, odd));
    }
  }
}

/// Transposes 16 x 16 pairs: exchanges the bits of row and column numbers one by one.
inline void transpose_pairs(__m512i (&rows)[lanes]) {
  const __m512i column = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
#pragma GCC unroll 4
  for (int bit = 8; bit > 0; bit /= 2) {
    const __m512i flipped = _mm512_xor_si512(column, _mm512_set1_epi32(bit));
    const __mmask16 has_bit = _mm512_test_epi32_mask(column, _mm512_set1_epi32(bit));
    const __m512i second = _mm512_set1_epi32(lanes);
    const __m512i low = _mm512_mask_add_epi32(column, has_bit, flipped, second);
    const __m512i high = _mm512_mask_add_epi32(flipped, has_bit, column, second);
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) {
      if (i & bit) continue;
      const __m512i x = rows[i], y = rows[i + bit];
      rows[i] = _mm512_permutex2var_epi32(x, low, y);
      rows[i + bit] = _mm512_permutex2var_epi32(x, high, y);
    }
  }
}

/// to: [width / 2][tile] pairs along the columns.
inline void pack_transposed(const TileRows& from, Pair* to) {
  const int width = padded_width(from.columns);
  for (int first = 0; first < tile; first += lanes) {
    for (int at = 0; at < width; at += 32) {
      __m512i rows[lanes];
      for (int i = 0; i < lanes; ++i) rows[i] = from.load(first + i, at);
      transpose_pairs(rows);
      for (int i = 0; i < lanes; ++i) _mm512_storeu_si512(to + (at / 2 + i) * tile + first, rows[i]);
    }
  }
}

/// A product's left operand: the pair (i, p) is data[i * row + p * column].
struct Pairs {
  const Pair* data;
  std::ptrdiff_t row, column;
};

/// c[tile, columns] (+)= a·b of `pairs` pairs; b: [pairs][columns]; columns: a multiple of 32.
inline void multiply(int columns, int pairs, Pairs a, const Pair* b, float* c, bool accumulate) {
  constexpr int rows = 8;  // 16 registers of sums, two of b, one of a
  for (int at = 0; at < columns; at += 2 * lanes) {
    for (int first = 0; first < tile; first += rows) {
      float* out = c + first * columns + at;
      __m512 sum[rows][2];
      for (int i = 0; i < rows; ++i) {
        sum[i][0] = accumulate ? _mm512_loadu_ps(out + i * columns) : _mm512_setzero_ps();
        sum[i][1] = accumulate ? _mm512_loadu_ps(out + i * columns + lanes) : _mm512_setzero_ps();
      }
      for (int p = 0; p < pairs; ++p) {
        const Pair *left = a.data + first * a.row + p * a.column, *right = b + p * columns + at;
        const auto b0 = reinterpret_cast<__m512bh>(_mm512_loadu_si512(right)),
                   b1 = reinterpret_cast<__m512bh>(_mm512_loadu_si512(right + lanes));
        for (int i = 0; i < rows; ++i) {
          const auto pair = reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(left[i * a.row])));
          sum[i][0] = _mm512_dpbf16_ps(sum[i][0], pair, b0);
          sum[i][1] = _mm512_dpbf16_ps(sum[i][1], pair, b1);
        }
      }
      for (int i = 0; i < rows; ++i) {
        _mm512_storeu_ps(out + i * columns, sum[i][0]);
        _mm512_storeu_ps(out + i * columns + lanes, sum[i][1]);
      }
    }
  }
}

/// Rounded to bfloat16: x's 16 elements, then y's.
inline __m512i rounded(__m512 x, __m512 y) { return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(y, x)); }

/// 2^x for x <= 126, with a relative error below 2e-7; below -126 as at -126; NaN stays NaN. The polynomial
/// is that of Cephes' exp2f (S. Moshier).
inline __m512 power_of_two(__m512 x) {
  x = _mm512_max_ps(_mm512_set1_ps(-126.0f), x);
  const __m512 whole = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 r = _mm512_sub_ps(x, whole);
  __m512 p = _mm512_set1_ps(1.535336188319500e-4f);
  for (const float coefficient : {1.339887440266574e-3f, 9.618437357674640e-3f, 5.550332471162809e-2f,
                                  2.402264791363012e-1f, 6.931472028550421e-1f, 1.0f})
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(coefficient));
  return _mm512_scalef_ps(p, whole);
}

/// Writes `count` elements of each row, rounded.
inline void store_rows(const float* from, int from_row, muster::bfloat16* to, std::ptrdiff_t to_row, int rows,
                       int count) {
  for (int i = 0; i < rows; ++i) {
    for (int at = 0; at < count; at += lanes) {
      const int left = count - at;
      const auto mask = static_cast<__mmask16>(left >= lanes ? 0xffff : (1 << left) - 1);
      _mm256_mask_storeu_epi16(
          to + i * to_row + at, mask,
          reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_loadu_ps(from + i * from_row + at))));
    }
  }
}

}  // namespace
