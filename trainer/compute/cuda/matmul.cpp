// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/matmul.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <stdexcept>

#include "muster/error.hpp"

namespace muster::compute::cuda {
namespace {

/// NVIDIA's recommendation for Hopper; other GPUs need less (cuBLAS documentation, cublasSetWorkspace).
constexpr std::uint64_t workspace_bytes = 32 << 20;
constexpr int max_algorithms = 8, timed_runs = 5;
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

std::string name_of(const CublasMatmulShape& s) {
  return fmt::format("a product of {} x {} x {}", s.m, s.n, s.k);
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
    result_matrix = matrix(s.n, s.m, s.float_result ? CUDA_R_32F : CUDA_R_16BF);
  }
  ~Plan() {
    for (cublasLtMatrixLayout_t each : {first, second, result_matrix}) {
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
  // cuBLASLt takes the alignment of these two from their addresses (cublasLt.h); this plan must suit every
  // layer's.
  void set_alignment(const CublasMatmulOperands& operands) const {
    void* const as_aligned = reinterpret_cast<void*>(std::uintptr_t{min_alignment});
    set_memory({.bias = operands.bias != nullptr ? as_aligned : nullptr,
                .before_gelu = operands.before_gelu != nullptr ? as_aligned : nullptr});
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

  MatmulPlan describe() const {
    if (!result) return {shape, "first", first_proposal};
    const char* const choice = is_loaded ? "loaded" : "timed";
    if (result->separate || result->candidates.empty()) return {shape, choice, std::nullopt};
    return {shape, choice, result->candidates[result->chosen]};
  }

  const CublasLibrary& cublas;
  CublasMatmulShape shape;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, result_matrix = nullptr;
  std::optional<cublasLtMatmulAlgo_t> algorithm;
  /// When the algorithm was timed, in this run or the one whose results were loaded.
  std::optional<AutotunedMatmul> result;
  std::optional<MatmulCandidate> first_proposal;  ///< when it was not
  bool is_loaded = false;                         ///< the result
  bool is_used = false;                           ///< computed while timing was off
};

CublasMatmul::CublasMatmul(Gpu& gpu) : gpu_(gpu), workspace_(gpu.allocate(workspace_bytes)) {
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
  const auto found =
      std::find_if(plans_.begin(), plans_.end(), [&shape](const auto& plan) { return plan->shape == shape; });
  if (found != plans_.end() && ((*found)->result || !timing_)) return **found;
  const bool is_new = found == plans_.end();
  if (is_new) plans_.push_back(std::make_unique<Plan>(cublas_, shape));
  Plan& plan = is_new ? *plans_.back() : **found;
  if (use_result(plan, operands)) return plan;
  // Do not time an accumulating product: each run would add to c.
  if (timing_ && !shape.accumulate) {
    use_fastest(plan, operands);
  } else if (is_new) {
    use_first(plan, operands);
  }
  return plan;
}

bool CublasMatmul::use_result(Plan& plan, const CublasMatmulOperands& operands) {
  const auto found = std::find_if(loaded_.products.begin(), loaded_.products.end(),
                                  [&plan](const auto& product) { return product.shape == plan.shape; });
  if (found == loaded_.products.end()) return false;
  if (!found->candidates.empty()) {
    const auto algorithm = std::bit_cast<cublasLtMatmulAlgo_t>(found->algorithm);
    plan.set_alignment(operands);
    cublasLtMatmulHeuristicResult_t checked{};
    const cublasStatus_t status =
        cublas_.check_algorithm(handle_, plan.product, plan.first, plan.second, plan.result_matrix,
                                plan.result_matrix, &algorithm, &checked);
    if (status != CUBLAS_STATUS_SUCCESS || checked.workspaceSize > workspace_bytes) return false;
    plan.algorithm = algorithm;
  } else if (!found->separate) {
    return false;
  }
  plan.result = *found;
  plan.is_loaded = true;
  return true;
}

std::vector<cublasLtMatmulHeuristicResult_t> CublasMatmul::propose_algorithms(const Plan& plan) {
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
  std::vector<cublasLtMatmulHeuristicResult_t> found(max_algorithms);
  int count = 0;
  const cublasStatus_t status =
      cublas_.find_algorithms(handle_, plan.product, plan.first, plan.second, plan.result_matrix,
                              plan.result_matrix, preference, max_algorithms, found.data(), &count);
  found.resize(status == CUBLAS_STATUS_SUCCESS ? static_cast<std::size_t>(count) : 0);
  std::erase_if(found, [](const auto& proposed) { return proposed.state != CUBLAS_STATUS_SUCCESS; });
  return found;
}

void CublasMatmul::use_first(Plan& plan, const CublasMatmulOperands& operands) {
  plan.set_alignment(operands);
  const auto proposals = propose_algorithms(plan);
  plan.set_memory(operands);
  for (const auto& proposed : proposals) {
    // Do not try an accumulating product: the try would add to c.
    if (!plan.shape.accumulate && run(plan, proposed.algo, operands) != CUBLAS_STATUS_SUCCESS) continue;
    plan.algorithm = proposed.algo;
    plan.first_proposal = describe(proposed);
    return;
  }
}

void CublasMatmul::use_fastest(Plan& plan, const CublasMatmulOperands& operands) {
  plan.set_alignment(operands);
  const auto proposals = propose_algorithms(plan);
  plan.set_memory(operands);
  AutotunedMatmul result;
  result.shape = plan.shape;
  plan.algorithm.reset();
  for (const auto& proposed : proposals) {
    if (run(plan, proposed.algo, operands) != CUBLAS_STATUS_SUCCESS) continue;
    gpu_.check(name_of(plan.shape));
    MatmulCandidate candidate = describe(proposed);
    candidate.microseconds = measure_microseconds([&] { run(plan, proposed.algo, operands); });
    result.candidates.push_back(candidate);
    if (plan.algorithm && candidate.microseconds >= result.candidates[result.chosen].microseconds) continue;
    plan.algorithm = proposed.algo;
    result.algorithm = std::bit_cast<decltype(result.algorithm)>(proposed.algo);
    result.chosen = result.candidates.size() - 1;
  }
  ++timed_;
  plan.result = std::move(result);
}

void CublasMatmul::time_separate(Plan& plan, const std::function<void()>& separate) {
  AutotunedMatmul& result = *plan.result;
  separate();  // chooses the algorithm of its product
  result.separate_microseconds = measure_microseconds(separate);
  result.separate =
      !plan.algorithm || *result.separate_microseconds < result.candidates[result.chosen].microseconds;
}

MatmulCandidate CublasMatmul::describe(const cublasLtMatmulHeuristicResult_t& proposed) const {
  const auto get = [&](cublasLtMatmulAlgoConfigAttributes_t attribute) {
    std::int32_t value = 0;
    std::size_t written = 0;
    const cublasStatus_t status =
        cublas_.algorithm_get(&proposed.algo, attribute, &value, sizeof value, &written);
    return status == CUBLAS_STATUS_SUCCESS ? value : -1;
  };
  return {get(CUBLASLT_ALGO_CONFIG_ID),
          get(CUBLASLT_ALGO_CONFIG_TILE_ID),
          get(CUBLASLT_ALGO_CONFIG_STAGES_ID),
          get(CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
          proposed.workspaceSize,
          0};
}

std::string CublasMatmul::load(const std::string& results) {
  AutotuneResults loaded;
  try {
    loaded = parse_autotune_results(results);
  } catch (const std::runtime_error& error) {
    throw Error(ErrorCode::usage,
                fmt::format("the algorithms of matrix products cannot be read: {}: remove the checkpoint's "
                            "autotune.json, and they are chosen anew",
                            error.what()));
  }
  const std::string library = "cuBLASLt " + version();
  if (loaded.gpu != gpu_.name() || loaded.library != library)
    return fmt::format("they were chosen for {} and {}, and here are {} and {}", loaded.gpu, loaded.library,
                       gpu_.name(), library);
  loaded_ = std::move(loaded);
  return "";
}

std::string CublasMatmul::results() const {
  AutotuneResults all{gpu_.name(), "cuBLASLt " + version(), {}};
  for (const auto& plan : plans_) {
    if (plan->result) all.products.push_back(*plan->result);
  }
  return write_autotune_results(all);
}

std::string CublasMatmul::plans() const {
  std::vector<MatmulPlan> used;
  for (const auto& plan : plans_) {
    if (plan->is_used) used.push_back(plan->describe());
  }
  return used.empty() ? "" : write_matmul_plans(gpu_.name(), "cuBLASLt " + version(), used);
}

template <typename Value>
void CublasMatmul::set_preference(cublasLtMatmulPreference_t preference,
                                  cublasLtMatmulPreferenceAttributes_t attribute, Value value) {
  cublas_.require(cublas_.preference_set(preference, attribute, &value, sizeof value), "a preference");
}

double CublasMatmul::measure_microseconds(const std::function<void()>& work) {
  Event begin(gpu_), end(gpu_);
  begin.record();
  for (int i = 0; i < timed_runs; ++i) work();
  end.record();
  end.synchronize();
  return 1e6 * end.elapsed_since(begin) / timed_runs;
}

cublasStatus_t CublasMatmul::run(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm,
                                 const CublasMatmulOperands& operands) {
  const float one = 1, before = plan.shape.accumulate ? 1 : 0;
  return cublas_.multiply(handle_, plan.product, &one, operands.b, plan.first, operands.a, plan.second,
                          &before, operands.c, plan.result_matrix, operands.c, plan.result_matrix, &algorithm,
                          workspace_, workspace_bytes, gpu_.stream());
}

void CublasMatmul::run_chosen(const Plan& plan, const CublasMatmulOperands& operands) {
  plan.set_memory(operands);
  const auto name = name_of(plan.shape);
  cublas_.require(run(plan, *plan.algorithm, operands), name.c_str());
  gpu_.check(name);
}

bool CublasMatmul::multiply(const CublasMatmulShape& shape, const CublasMatmulOperands& operands) {
  Plan& plan = find_plan(shape, operands);
  plan.is_used |= !timing_;
  if (!plan.algorithm) return false;
  run_chosen(plan, operands);
  return true;
}

void CublasMatmul::multiply_or(const CublasMatmulShape& shape, const CublasMatmulOperands& operands,
                               const std::function<void()>& separate) {
  Plan& plan = find_plan(shape, operands);
  plan.is_used |= !timing_;
  if (timing_ && plan.result && !plan.result->separate_microseconds) time_separate(plan, separate);
  if (!plan.algorithm || (plan.result && plan.result->separate)) return separate();
  run_chosen(plan, operands);
}

}  // namespace muster::compute::cuda
