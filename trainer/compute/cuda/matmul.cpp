// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/matmul.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "muster/error.hpp"

namespace muster::compute::cuda {
namespace {

/// NVIDIA's recommendation for Hopper; other GPUs need less (cuBLAS documentation, cublasSetWorkspace).
constexpr std::uint64_t workspace_bytes = 32 << 20;
constexpr int max_algorithms = 8, timed_runs = 3;
/// Bytes, of all operands. Float tensors begin on cache lines, so their bfloat16 copies begin at multiples of
/// 32 bytes.
constexpr std::uint32_t min_alignment = 16;

cublasLtEpilogue_t to_cublas(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::bias_gelu:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::gelu_backward:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::bias_gradient:
      return CUBLASLT_EPILOGUE_BGRADB;
    case Epilogue::none:
      break;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

}  // namespace

/// cuBLASLt is column-major: our c[m, n] is its [n, m], so our b is its first operand and our a the second.
struct CublasMatmul::Plan {
  Plan(const CublasLibrary& library, const CublasMatmulShape& s) : cublas(library), shape(s) {
    cublas.require(cublas.product_create(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "a product");
    set(CUBLASLT_MATMUL_DESC_TRANSA, s.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, s.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, to_cublas(s.epilogue));
    if (s.epilogue == Epilogue::bias_gradient) set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_32F);
    if (s.epilogue == Epilogue::bias_gelu || s.epilogue == Epilogue::gelu_backward)
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, std::int64_t{s.n});
    first = matrix(s.transpose_b ? s.k : s.n, s.transpose_b ? s.n : s.k, CUDA_R_16BF);
    second = matrix(s.transpose_a ? s.m : s.k, s.transpose_a ? s.k : s.m, CUDA_R_16BF);
    result = matrix(s.n, s.m, s.float_result ? CUDA_R_32F : CUDA_R_16BF);
  }
  ~Plan() {
    for (cublasLtMatrixLayout_t each : {first, second, result}) {
      if (each != nullptr) cublas.matrix_destroy(each);
    }
    if (product != nullptr) cublas.product_destroy(product);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  template <typename Value>
  void set(cublasLtMatmulDescAttributes_t attribute, Value value) const {
    cublas.require(cublas.product_set(product, attribute, &value, sizeof value), "a product's attribute");
  }
  void set_memory(const CublasMatmulOperands& operands) const {
    if (shape.epilogue == Epilogue::none) return;
    if (operands.bias != nullptr) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
    if (operands.before_gelu != nullptr) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands.before_gelu);
  }
  cublasLtMatrixLayout_t matrix(int rows, int columns, cudaDataType type) const {
    cublasLtMatrixLayout_t layout = nullptr;
    cublas.require(cublas.matrix_create(&layout, type, static_cast<std::uint64_t>(rows),
                                        static_cast<std::uint64_t>(columns), rows),
                   "a matrix");
    return layout;
  }

  const CublasLibrary& cublas;
  CublasMatmulShape shape;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, result = nullptr;
  std::optional<cublasLtMatmulAlgo_t> algorithm;
};

CublasMatmul::CublasMatmul(Gpu& gpu, bool measure)
    : gpu_(gpu), measure_(measure), workspace_(gpu.allocate(workspace_bytes)) {
  cublas_.require(cublas_.create(&handle_), "starting it");
}

CublasMatmul::~CublasMatmul() {
  plans_.clear();
  gpu_.free(workspace_);
  cublas_.destroy(handle_);
}

std::string CublasMatmul::version() const {
  const std::size_t number = cublas_.get_version();
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

CublasMatmul::Plan& CublasMatmul::find_plan(const CublasMatmulShape& shape,
                                            const CublasMatmulOperands& operands) {
  for (const auto& plan : plans_) {
    if (plan->shape == shape) return *plan;
  }
  plans_.push_back(std::make_unique<Plan>(cublas_, shape));
  choose_algorithm(*plans_.back(), operands);
  return *plans_.back();
}

void CublasMatmul::choose_algorithm(Plan& plan, const CublasMatmulOperands& operands) {
  // cuBLASLt takes the alignment of these two from their addresses (cublasLt.h); this plan must suit every
  // layer's.
  void* const as_aligned = reinterpret_cast<void*>(std::uintptr_t{min_alignment});
  plan.set_memory({.bias = operands.bias != nullptr ? as_aligned : nullptr,
                   .before_gelu = operands.before_gelu != nullptr ? as_aligned : nullptr});
  cublasLtMatmulPreference_t preference = nullptr;
  cublas_.require(cublas_.preference_create(&preference), "a preference");
  const std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>,
                        decltype(cublas_.preference_destroy)>
      owner(preference, cublas_.preference_destroy);
  set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{workspace_bytes});
  // Partial sums are added in float32, never in the bfloat16 of the result.
  set_preference(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                 std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  for (const auto alignment :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set_preference(preference, alignment, min_alignment);
  std::array<cublasLtMatmulHeuristicResult_t, max_algorithms> found{};
  int count = 0;
  const cublasStatus_t status =
      cublas_.find_algorithms(handle_, plan.product, plan.first, plan.second, plan.result, plan.result,
                              preference, max_algorithms, found.data(), &count);
  if (status != CUBLAS_STATUS_SUCCESS) return;
  plan.set_memory(operands);
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < count; ++i) {
    const cublasLtMatmulHeuristicResult_t& proposed = found[static_cast<std::size_t>(i)];
    if (proposed.state != CUBLAS_STATUS_SUCCESS) continue;
    const cublasLtMatmulAlgo_t& algorithm = proposed.algo;
    // Do not try or time an accumulating product: each run would add to c.
    const bool runs = plan.shape.accumulate || run(plan, algorithm, operands) == CUBLAS_STATUS_SUCCESS;
    if (!runs) continue;
    const bool times = measure_ && !plan.shape.accumulate;
    const double seconds = times ? measure_seconds(plan, algorithm, operands) : 0;
    if (seconds < best) plan.algorithm = algorithm;
    best = std::min(best, seconds);
    if (!times) return;
  }
}

template <typename Value>
void CublasMatmul::set_preference(cublasLtMatmulPreference_t preference,
                                  cublasLtMatmulPreferenceAttributes_t attribute, Value value) {
  cublas_.require(cublas_.preference_set(preference, attribute, &value, sizeof value), "a preference");
}

double CublasMatmul::measure_seconds(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm,
                                     const CublasMatmulOperands& operands) {
  Event begin(gpu_), end(gpu_);
  begin.record();
  for (int i = 0; i < timed_runs; ++i) run(plan, algorithm, operands);
  end.record();
  end.synchronize();
  return end.elapsed_since(begin);
}

cublasStatus_t CublasMatmul::run(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm,
                                 const CublasMatmulOperands& operands) {
  const float one = 1, before = plan.shape.accumulate ? 1 : 0;
  return cublas_.multiply(handle_, plan.product, &one, operands.b, plan.first, operands.a, plan.second,
                          &before, operands.c, plan.result, operands.c, plan.result, &algorithm, workspace_,
                          workspace_bytes, gpu_.stream());
}

bool CublasMatmul::multiply(const CublasMatmulShape& shape, const CublasMatmulOperands& operands) {
  Plan& plan = find_plan(shape, operands);
  if (!plan.algorithm) return false;
  plan.set_memory(operands);
  const auto name = fmt::format("a product of {} x {} x {}", shape.m, shape.n, shape.k);
  cublas_.require(run(plan, *plan.algorithm, operands), name.c_str());
  gpu_.check(name);
  return true;
}

}  // namespace muster::compute::cuda
