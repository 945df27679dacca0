// SPDX-License-Identifier: Apache-2.0
#include "compute/cpu/dnnl_matmul.hpp"

#include <dnnl.hpp>
#include <string>
#include <unordered_map>

#include "muster/error.hpp"

namespace muster::compute::cpu {
namespace {

using Type = dnnl::memory::data_type;

/// Shape and types for which a primitive is built.
struct PrimitiveKey {
  MatmulShape shape;
  Type in, out;
  bool operator==(const PrimitiveKey&) const = default;
};

struct PrimitiveKeyHash {
  std::size_t operator()(const PrimitiveKey& key) const noexcept {
    const MatmulShape& s = key.shape;
    std::size_t h = 0;
    for (int value : {s.m, s.n, s.k, int{s.transpose_a}, int{s.transpose_b}, int{s.bias}, int{s.accumulate},
                      static_cast<int>(key.in), static_cast<int>(key.out)}) {
      h = h * 1000003u + static_cast<std::size_t>(value);
    }
    return h;
  }
};

using DnnlMemory = dnnl::memory;
using DnnlShape = DnnlMemory::desc;

DnnlShape matrix(Type type, int rows, int columns, bool transposed = false) {
  return {{rows, columns}, type, transposed ? DnnlMemory::dims{1, rows} : DnnlMemory::dims{columns, 1}};
}

/// A primitive with its operands; only their addresses change from call to call.
struct MatmulPrimitive {
  DnnlMemory a, b, bias, c;
  dnnl::primitive primitive;
  std::unordered_map<int, DnnlMemory> arguments;

  MatmulPrimitive(const dnnl::engine& engine, const PrimitiveKey& key) {
    // For a bfloat16 weight gradient the inner-product primitive is faster than matmul: by a tenth, and by a
    // quarter for the output layer with its many rows.
    if (key.in != Type::f32 && key.out == Type::f32)
      build_weight_gradient(engine, key);
    else
      build_matmul(engine, key);
  }

 private:
  void build_matmul(const dnnl::engine& engine, const PrimitiveKey& key) {
    const MatmulShape& s = key.shape;
    const DnnlShape a_shape = matrix(key.in, s.m, s.k, s.transpose_a),
                    b_shape = matrix(key.in, s.k, s.n, s.transpose_b), c_shape = matrix(key.out, s.m, s.n),
                    bias_shape = matrix(key.in, 1, s.n);
    dnnl::primitive_attr attributes;
    if (s.accumulate) {
      dnnl::post_ops add;
      add.append_sum(1.0f);
      attributes.set_post_ops(add);
    }
#if DNNL_VERSION_MAJOR >= 3
    const auto description =
        s.bias ? dnnl::matmul::primitive_desc(engine, a_shape, b_shape, bias_shape, c_shape, attributes)
               : dnnl::matmul::primitive_desc(engine, a_shape, b_shape, c_shape, attributes);
#else
    const auto operation = s.bias ? dnnl::matmul::desc(a_shape, b_shape, bias_shape, c_shape)
                                  : dnnl::matmul::desc(a_shape, b_shape, c_shape);
    const dnnl::matmul::primitive_desc description(operation, attributes, engine);
#endif
    primitive = dnnl::matmul(description);
    a = DnnlMemory(a_shape, engine, nullptr);
    b = DnnlMemory(b_shape, engine, nullptr);
    c = DnnlMemory(c_shape, engine, nullptr);
    arguments = {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}};
    if (s.bias) {
      bias = DnnlMemory(bias_shape, engine, nullptr);
      arguments.emplace(DNNL_ARG_BIAS, bias);
    }
  }

  /// a: gradients of the outputs, b: inputs, c: gradients of the weights.
  void build_weight_gradient(const dnnl::engine& engine, const PrimitiveKey& key) {
    const MatmulShape& s = key.shape;
    const DnnlShape d_out = matrix(key.in, s.k, s.m), input = matrix(key.in, s.k, s.n),
                    weight = matrix(key.in, s.m, s.n), d_weight = matrix(key.out, s.m, s.n);
    using Forward = dnnl::inner_product_forward;
    using Backward = dnnl::inner_product_backward_weights;
    constexpr auto training = dnnl::prop_kind::forward_training;
#if DNNL_VERSION_MAJOR >= 3
    const Forward::primitive_desc forward(engine, training, input, weight, d_out);
    const Backward::primitive_desc description(engine, input, d_weight, d_out, forward);
#else
    const Forward::primitive_desc forward({training, input, weight, d_out}, engine);
    const Backward::primitive_desc description({input, d_weight, d_out}, engine, forward);
#endif
    primitive = Backward(description);
    a = DnnlMemory(d_out, engine, nullptr);
    b = DnnlMemory(input, engine, nullptr);
    c = DnnlMemory(d_weight, engine, nullptr);
    arguments = {{DNNL_ARG_DIFF_DST, a}, {DNNL_ARG_SRC, b}, {DNNL_ARG_DIFF_WEIGHTS, c}};
  }
};

/// Whether oneDNN's older dnnl_sgemm is faster than its matmul primitive: by 3 to 17% where b is not
/// transposed (AVX-512; 256 rows of a GPT-2's layers).
bool is_faster_as_gemm(const MatmulShape& s) {
  return !s.bias && !s.transpose_b && (s.transpose_a || s.k >= s.n);
}

[[noreturn]] void throw_dnnl_error(const MatmulShape& s, const std::string& why) {
  throw Error(ErrorCode::system, "oneDNN refused a matrix product of " + std::to_string(s.m) + " x " +
                                     std::to_string(s.k) + " by " + std::to_string(s.k) + " x " +
                                     std::to_string(s.n) + ": " + why);
}

/// cpu_isa is a bit mask: a larger instruction set includes the bits of the sets that it contains.
bool has_isa(dnnl::cpu_isa isa) {
  const auto wanted = static_cast<unsigned>(isa),
             found = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (found & wanted) == wanted;
}

}  // namespace

struct DnnlMatmul::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::unordered_map<PrimitiveKey, MatmulPrimitive, PrimitiveKeyHash> primitives;
};

struct DnnlMatmul::Operands {
  Type in, out;
  const void *a, *b, *bias;
  void* c;
};

DnnlMatmul::DnnlMatmul() : state_(std::make_unique<State>()) {}
DnnlMatmul::~DnnlMatmul() = default;

void DnnlMatmul::operator()(const MatmulShape& shape, const float* a, const float* b, const float* bias,
                            float* c) {
  if (is_faster_as_gemm(shape)) {
    const auto status = dnnl_sgemm(shape.transpose_a ? 'T' : 'N', 'N', shape.m, shape.n, shape.k, 1.0f, a,
                                   shape.transpose_a ? shape.m : shape.k, b, shape.n,
                                   shape.accumulate ? 1.0f : 0.0f, c, shape.n);
    if (status != dnnl_success) throw_dnnl_error(shape, "status " + std::to_string(status));
    return;
  }
  multiply(shape, {Type::f32, Type::f32, a, b, bias, c});
}
void DnnlMatmul::operator()(const MatmulShape& shape, const bfloat16* a, const bfloat16* b,
                            const bfloat16* bias, bfloat16* c) {
  multiply(shape, {Type::bf16, Type::bf16, a, b, bias, c});
}
void DnnlMatmul::weight_gradient(int rows, int from, int to, const bfloat16* input, const bfloat16* d_out,
                                 float* d_weight) {
  multiply({.m = to, .n = from, .k = rows, .transpose_a = true},
           {Type::bf16, Type::f32, d_out, input, nullptr, d_weight});
}

void DnnlMatmul::multiply(const MatmulShape& shape, const Operands& operands) {
  try {
    const PrimitiveKey key{shape, operands.in, operands.out};
    auto found = state_->primitives.find(key);
    if (found == state_->primitives.end()) {
      found = state_->primitives.emplace(key, MatmulPrimitive(state_->engine, key)).first;
    }
    MatmulPrimitive& matmul = found->second;
    matmul.a.set_data_handle(const_cast<void*>(operands.a));
    matmul.b.set_data_handle(const_cast<void*>(operands.b));
    if (shape.bias) matmul.bias.set_data_handle(const_cast<void*>(operands.bias));
    matmul.c.set_data_handle(operands.c);
    matmul.primitive.execute(state_->stream, matmul.arguments);
    state_->stream.wait();
  } catch (const dnnl::error& error) {
    throw_dnnl_error(shape, error.what());
  }
}

const char* DnnlMatmul::name() {
  static const std::string text = [] {
    const dnnl_version_t* v = dnnl_version();
    return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
           std::to_string(v->patch);
  }();
  return text.c_str();
}

template <>
bool DnnlMatmul::available<float>() {
  return true;
}
// Without AVX-512 oneDNN computes bfloat16 products only by its slow reference loops.
template <>
bool DnnlMatmul::available<bfloat16>() {
  return has_isa(dnnl::cpu_isa::avx512_core);
}
bool DnnlMatmul::has_fast_bfloat16() { return has_isa(dnnl::cpu_isa::avx512_core_bf16); }

}  // namespace muster::compute::cpu
