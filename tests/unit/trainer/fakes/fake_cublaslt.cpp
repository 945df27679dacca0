// SPDX-License-Identifier: Apache-2.0
// A fake cuBLASLt: plain products on host memory, with the epilogues that the trainer uses, as NVIDIA's
// documentation describes them. Like the real one it refuses wrong types, alignments and dimensions, and
// operands that are less aligned than the algorithm was requested for. It proposes four algorithms, of which
// the first is unusable; number n of the others adds n partial sums, so that each rounds differently. A
// product is computed when the fake CUDA runs it (cuLaunchHostFunc). Environment variables select
//   FAKE_CUBLASLT          "plain": no algorithm for any epilogue but the bias
//                          "slow_epilogues": all epilogues but the bias take 20 ms longer
//   FAKE_CUBLASLT_TIMES    milliseconds that algorithms 1, 2 and 3 take on the fake CUDA's clock: "5 1 3"
//   FAKE_CUBLASLT_VERSION  the result of cublasLtGetVersion
#include <cublasLt.h>
#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "float16_bits.hpp"

namespace {

struct Matrix {
  cudaDataType type;
  std::uint64_t rows, columns;
  std::int64_t stride;
};

struct Product {
  cublasOperation_t first = CUBLAS_OP_N, second = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  void* aux = nullptr;
  std::int64_t aux_stride = 0;
  cudaDataType bias_type = CUDA_R_16BF;
};

float read(const void* memory, cudaDataType type, std::size_t at) {
  if (type == CUDA_R_32F) return static_cast<const float*>(memory)[at];
  return muster::detail::bfloat16_value(static_cast<const std::uint16_t*>(memory)[at]);
}

void write(void* memory, cudaDataType type, std::size_t at, float value) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(memory)[at] = value;
  } else {
    static_cast<std::uint16_t*>(memory)[at] = muster::detail::bfloat16_bits(value);
  }
}

bool aligned(const void* memory, std::uint64_t to = 16) {
  return reinterpret_cast<std::uintptr_t>(memory) % to == 0;
}

/// The alignments that an algorithm relies on, and whether it is usable.
struct Algorithm {
  std::uint32_t operands[4] = {256, 256, 256, 256};  ///< bytes; the real one's defaults
  std::uint32_t bias = 0, aux = 0;                   ///< from their addresses when it was requested
  std::uint32_t number = 0;                          ///< 0: unusable
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;  ///< that it may use
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

std::uint32_t alignment_of(const void* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  return static_cast<std::uint32_t>(std::min<std::uintptr_t>(address & -address, 256));
}

float gelu(float x) { return 0.5f * x * (1 + std::tanh(0.7978845608028654f * (x + 0.044715f * x * x * x))); }
float gelu_slope(float x) {
  const float t = std::tanh(0.7978845608028654f * (x + 0.044715f * x * x * x));
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.7978845608028654f * (1 + 3 * 0.044715f * x * x);
}

/// A column-major matrix; at(i, j) is its element after the transposition.
struct Operand {
  const void* memory;
  const Matrix& matrix;
  bool transposed;
  std::uint64_t rows() const { return transposed ? matrix.columns : matrix.rows; }
  std::uint64_t columns() const { return transposed ? matrix.rows : matrix.columns; }
  float at(std::uint64_t i, std::uint64_t j) const {
    const auto stride = static_cast<std::uint64_t>(matrix.stride);
    return read(memory, matrix.type, transposed ? j + i * stride : i + j * stride);
  }
};

float apply_epilogue(const Product& product, float value, std::uint64_t row, std::uint64_t column) {
  if (product.epilogue == CUBLASLT_EPILOGUE_BIAS || product.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS)
    value += read(product.bias, product.bias_type, row);
  const std::size_t aux = row + column * static_cast<std::uint64_t>(product.aux_stride);
  if (product.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
    write(product.aux, CUDA_R_16BF, aux, value);
    return gelu(value);
  }
  if (product.epilogue == CUBLASLT_EPILOGUE_DGELU)
    return value * gelu_slope(read(product.aux, CUDA_R_16BF, aux));
  return value;
}

bool fits(const Product& product, const Operand& a, const Operand& b, const Matrix& d) {
  const bool gelu =
      product.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || product.epilogue == CUBLASLT_EPILOGUE_DGELU;
  if (gelu && (product.aux == nullptr || product.aux_stride % 8 != 0 ||
               product.aux_stride < static_cast<std::int64_t>(d.rows) || d.type != CUDA_R_16BF))
    return false;
  if (product.epilogue == CUBLASLT_EPILOGUE_BGRADB &&
      (product.bias == nullptr || product.bias_type != d.type))
    return false;
  return a.matrix.type == CUDA_R_16BF && b.matrix.type == CUDA_R_16BF && a.columns() == b.rows() &&
         a.rows() == d.rows && b.columns() == d.columns && aligned(a.memory) && aligned(b.memory) &&
         a.matrix.stride % 8 == 0 && b.matrix.stride % 8 == 0 && d.stride % 8 == 0;
}

bool fits(const Algorithm& with, const Product& product, const void* a, const void* b, const void* c,
          const void* d) {
  const auto aligned_as_requested = [](const void* memory, std::uint32_t alignment) {
    return memory == nullptr || (alignment != 0 && aligned(memory, alignment));
  };
  const auto& [of_a, of_b, of_c, of_d] = with.operands;
  return with.number != 0 && with.epilogue == product.epilogue && aligned(a, of_a) && aligned(b, of_b) &&
         aligned(c, of_c) && aligned(d, of_d) && aligned_as_requested(product.bias, with.bias) &&
         aligned_as_requested(product.aux, with.aux);
}

/// An enqueued product.
struct Call {
  Product product;
  const void *a, *b, *c;
  void* d;
  Matrix a_matrix, b_matrix, d_matrix;
  float scale = 0, before = 0;
  std::uint32_t partial_sums = 1;

  Operand first() const { return {a, a_matrix, product.first == CUBLAS_OP_T}; }
  Operand second() const { return {b, b_matrix, product.second == CUBLAS_OP_T}; }
};

void compute(const Call& call) {
  const Operand first = call.first(), second = call.second();
  const auto& [type, height, width, stride] = call.d_matrix;
  const std::uint64_t depth = first.columns();
  std::vector<float> rows(height * depth);
  for (std::uint64_t i = 0; i < height; ++i) {
    for (std::uint64_t k = 0; k < depth; ++k) rows[i * depth + k] = first.at(i, k);
  }
  std::vector<float> column(depth);
  for (std::uint64_t j = 0; j < width; ++j) {
    float total = 0;
    for (std::uint64_t k = 0; k < depth; ++k) total += column[k] = second.at(k, j);
    if (call.product.epilogue == CUBLASLT_EPILOGUE_BGRADB)
      write(call.product.bias, call.product.bias_type, j, total);
    for (std::uint64_t i = 0; i < height; ++i) {
      float sum = 0;
      for (std::uint64_t first_k = 0; first_k < call.partial_sums; ++first_k) {
        float partial = 0;
        for (std::uint64_t k = first_k; k < depth; k += call.partial_sums)
          partial += rows[i * depth + k] * column[k];
        sum += partial;
      }
      const std::size_t at = i + j * static_cast<std::uint64_t>(stride);
      sum = call.scale * sum + (call.before != 0 ? call.before * read(call.c, type, at) : 0);
      write(call.d, type, at, apply_epilogue(call.product, sum, i, j));
    }
  }
}

/// A function of the fake CUDA, which is loaded already.
template <typename Function>
Function* find_in_cuda(const char* name) {
  void* const cuda = dlopen(std::getenv("MUSTER_CUDA_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
  return cuda != nullptr ? reinterpret_cast<Function*>(dlsym(cuda, name)) : nullptr;
}

bool is_mode(const char* what) {
  const char* const mode = std::getenv("FAKE_CUBLASLT");
  return mode != nullptr && std::string(mode) == what;
}
bool is_plain(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_DEFAULT || epilogue == CUBLASLT_EPILOGUE_BIAS;
}

/// Lets the fake CUDA's clock go on as the environment says.
void spend_time_of(std::uint32_t number, cublasLtEpilogue_t epilogue) {
  const char* const text = std::getenv("FAKE_CUBLASLT_TIMES");
  std::istringstream times(text != nullptr ? text : "");
  int milliseconds = 0;
  for (std::uint32_t i = 0; i < number; ++i) times >> milliseconds;
  if (is_mode("slow_epilogues") && !is_plain(epilogue)) milliseconds += 20;
  find_in_cuda<void(int)>("fake_cuda_spend")(milliseconds);
}

template <typename T>
T& of(void* handle) {
  return *static_cast<T*>(handle);
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new int);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
std::size_t cublasLtGetVersion() {
  const char* const version = std::getenv("FAKE_CUBLASLT_VERSION");
  return version != nullptr ? std::strtoul(version, nullptr, 10) : CUBLAS_VERSION;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* product, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *product = reinterpret_cast<cublasLtMatmulDesc_t>(new Product);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  delete reinterpret_cast<Product*>(product);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              std::size_t bytes) {
  auto& product = of<Product>(handle);
  const auto set = [&](auto& to) {
    if (bytes != sizeof to) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&to, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(product.first);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(product.second);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(product.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(product.bias);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return set(product.bias_type);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return set(product.aux);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return set(product.aux_stride);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* matrix, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns, std::int64_t stride) {
  *matrix = reinterpret_cast<cublasLtMatrixLayout_t>(new Matrix{type, rows, columns, stride});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t matrix) {
  delete reinterpret_cast<Matrix*>(matrix);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Algorithm);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete reinterpret_cast<Algorithm*>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK && bytes == sizeof(std::uint32_t))
    std::memcpy(&of<Algorithm>(handle).reductions, value, bytes);
  constexpr int first = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;  // B, C and D follow
  if (attribute < first || attribute > first + 3) return CUBLAS_STATUS_SUCCESS;
  if (bytes != sizeof(std::uint32_t)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&of<Algorithm>(handle).operands[attribute - first], value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t handle,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t preference, int max_results,
                                              cublasLtMatmulHeuristicResult_t* results, int* count) {
  const auto& product = of<Product>(handle);
  *count = 0;
  if (!is_plain(product.epilogue) && is_mode("plain")) return CUBLAS_STATUS_NOT_SUPPORTED;
  auto algorithm = of<Algorithm>(preference);
  // The real one may then add partial sums in the type of the result.
  if ((algorithm.reductions & ~std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}) != 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  algorithm.bias = alignment_of(product.bias), algorithm.aux = alignment_of(product.aux);
  algorithm.epilogue = product.epilogue;
  for (; *count < max_results && *count < 4; ++*count) {
    algorithm.number = static_cast<std::uint32_t>(*count);
    results[*count] = {};
    results[*count].state = *count == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
    std::memcpy(&results[*count].algo, &algorithm, sizeof algorithm);
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t handle, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  const auto& with = *reinterpret_cast<const Algorithm*>(algorithm);
  if (!fits(with, of<Product>(handle), nullptr, nullptr, nullptr, nullptr))
    return CUBLAS_STATUS_INVALID_VALUE;
  result->workspaceSize = 0;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, std::size_t bytes, std::size_t* written) {
  const bool is_id = attribute == CUBLASLT_ALGO_CONFIG_ID;
  if (!is_id && attribute != CUBLASLT_ALGO_CONFIG_SPLITK_NUM) return CUBLAS_STATUS_INVALID_VALUE;
  if (bytes != sizeof(std::int32_t)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(value, &reinterpret_cast<const Algorithm*>(algorithm)->number, bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t handle, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_matrix, const void* b, cublasLtMatrixLayout_t b_matrix,
                              const void* beta, const void* c, cublasLtMatrixLayout_t, void* d,
                              cublasLtMatrixLayout_t d_matrix, const cublasLtMatmulAlgo_t* with,
                              void* workspace, std::size_t, cudaStream_t stream) {
  static auto* const launch_host_function = find_in_cuda<decltype(::cuLaunchHostFunc)>("cuLaunchHostFunc");
  const std::uint32_t number = reinterpret_cast<const Algorithm*>(with)->number;
  if (!fits(*reinterpret_cast<const Algorithm*>(with), of<Product>(handle), a, b, c, d) ||
      !aligned(workspace, 256))
    return CUBLAS_STATUS_INVALID_VALUE;
  auto call = std::make_unique<Call>(Call{of<Product>(handle), a, b, c, d, of<Matrix>(a_matrix),
                                          of<Matrix>(b_matrix), of<Matrix>(d_matrix)});
  if (!fits(call->product, call->first(), call->second(), call->d_matrix) || !aligned(d))
    return CUBLAS_STATUS_INVALID_VALUE;
  call->partial_sums = number;
  spend_time_of(number, call->product.epilogue);
  std::memcpy(&call->scale, alpha, sizeof call->scale);
  std::memcpy(&call->before, beta, sizeof call->before);
  const auto work = [](void* data) { compute(*std::unique_ptr<Call>(static_cast<Call*>(data))); };
  if (launch_host_function == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  // `work` owns the call from here on.
  return launch_host_function(reinterpret_cast<CUstream>(stream), work, call.release()) == CUDA_SUCCESS
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
