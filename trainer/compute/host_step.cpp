// SPDX-License-Identifier: Apache-2.0
// UpdateCompute's default: finite checks and the decision about an update on the host.
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "compute/compute.hpp"

namespace muster::compute {

template <typename Real>
void UpdateCompute<Real>::begin_step(std::size_t chunks, std::size_t) {
  step_ = {};
  step_.chunk_is_finite.assign(chunks, true);
  chunk_is_finite_ = true;
}

template <typename Real>
void UpdateCompute<Real>::check_finite(const Real* gradient, std::size_t count, std::size_t position,
                                       double* squares) {
  const double sum = sum_of_squares(gradient, count, position);
  chunk_is_finite_ = chunk_is_finite_ && std::isfinite(sum);
  if (squares) *squares = sum;
}

template <typename Real>
void UpdateCompute<Real>::end_chunk(std::size_t chunk, double scale, bool stop, bool failed, Real* slots) {
  const bool finite = chunk_is_finite_ && std::isfinite(loss());
  slots[loss_slot] = static_cast<Real>(loss() * scale);
  slots[non_finite_slot] = finite ? Real(0) : Real(1);
  slots[stop_slot] = stop ? Real(1) : Real(0);
  slots[failed_slot] = failed ? Real(1) : Real(0);
  step_.chunk_is_finite[chunk] = finite;
  chunk_is_finite_ = true;
}

template <typename Real>
std::optional<double> UpdateCompute<Real>::decide(const Real* slots, const Real* gradients,
                                                  std::span<const std::size_t> ends, double clip) {
  std::vector<double> squares;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    squares.push_back(sum_of_squares(gradients + begin, end - begin, begin));
    begin = end;
  }
  return UpdateCompute::decide_from_squares(slots, squares, clip);
}

template <typename Real>
std::optional<double> UpdateCompute<Real>::decide_from_squares(const Real* slots,
                                                               std::span<const double> squares, double) {
  step_.loss = static_cast<double>(slots[loss_slot]);
  step_.any_stop = slots[stop_slot] > 0;
  step_.any_failed = slots[failed_slot] > 0;
  step_.gradient_norm = std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
  step_.finite =
      slots[non_finite_slot] == 0 && std::isfinite(step_.gradient_norm) && std::isfinite(step_.loss);
  if (!step_.finite) return std::nullopt;
  return step_.gradient_norm;
}

template <typename Real>
void UpdateCompute<Real>::write_square_sum(const Real* x, std::size_t count, std::size_t position,
                                           double* sum) {
  *sum = sum_of_squares(x, count, position);
}

template <typename Real>
void UpdateCompute<Real>::clear(void* memory, std::size_t bytes) {
  std::memset(memory, 0, bytes);
}

template <typename Real>
void UpdateCompute<Real>::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

template <typename Real>
StepOutcome UpdateCompute<Real>::outcome() {
  return step_;
}

template <typename Real>
void UpdateCompute<Real>::move_statistics(Real* statistic, const Real* batch, std::size_t count,
                                          double momentum) {
  for (std::size_t i = 0; i < count; ++i)
    statistic[i] = Real(1 - momentum) * statistic[i] + Real(momentum) * batch[i];
}

template class UpdateCompute<float>;
template class UpdateCompute<double>;

}  // namespace muster::compute
