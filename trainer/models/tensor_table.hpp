// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace muster::models {

enum class Distribution { normal, uniform };

/// One tensor of a parameter arena. Checkpoints have the same names, order and shapes.
struct Tensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::size_t offset = 0;  ///< in elements; tensors start on cache lines, the gaps hold zeros
  std::size_t count = 0;
  bool decay = false;  ///< weight decay applies (matrices and embeddings, not gains and biases)
  /// Standard deviation of the initial elements, or the bound of their size for a uniform distribution; 0:
  /// every element is initial_value.
  double initial_spread = 0;
  double initial_value = 0;
  Distribution distribution = Distribution::normal;
  /// False for a statistic of the batches, for example a running mean: no optimizer updates it. Its
  /// "gradient" is the batch's value times the batch's share of the global batch
  /// (ModelTensors::update_statistics()).
  bool is_trained = true;
  std::size_t number = 0;  ///< in the whole model's table: chooses its random initial elements
};

struct TensorTable {
  std::vector<Tensor> tensors;
  std::size_t arena_size = 0;       ///< elements with gaps
  std::size_t trained_size = 0;     ///< elements with gaps before the statistics, which come last
  std::size_t parameter_count = 0;  ///< trained elements without gaps

  /// Appends tensors [begin, end) of another table with the gaps behind them; either all are trained, or
  /// none.
  void append(const TensorTable& whole, std::size_t begin, std::size_t end);
  /// Where each trained tensor ends, with the gap behind it.
  std::vector<std::size_t> trained_ends() const;
};

/// Builds a table of tensors, one after the other in the arena.
class TableBuilder {
 public:
  void add(std::string name, std::vector<std::int64_t> shape, bool decay, double deviation, double value = 0,
           Distribution distribution = Distribution::normal);
  /// Adds a statistic that starts at `value`; after all trained tensors.
  void add_statistic(std::string name, std::size_t count, double value);
  /// Pads the last tensor with a gap, up to `count` elements.
  void pad_last_to(std::size_t count);
  TensorTable take() { return std::move(table_); }

 private:
  TensorTable table_;
};

}  // namespace muster::models
