// SPDX-License-Identifier: Apache-2.0
#include "compute/cpu/dnnl_matmul.hpp"

#include <dnnl.hpp>
#include <string>
#include <unordered_map>

#include "muster/error.hpp"

namespace muster::compute::cpu {
namespace {

using Type = dnnl::memory::data_type;

/// What a primitive is built for.
struct Form {
  MatmulShape shape;
  Type in, out;
  bool operator==(const Form&) const = default;
};

struct FormHash {
  std::size_t operator()(const Form& form) const noexcept {
    const MatmulShape& s = form.shape;
    std::size_t h = 0;
    for (int value : {s.m, s.n, s.k, int{s.transpose_a}, int{s.transpose_b}, int{s.bias}, int{s.accumulate},
                      static_cast<int>(form.in), static_cast<int>(form.out)}) {
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
struct Product {
  DnnlMemory a, b, bias, c;
  dnnl::primitive primitive;
  std::unordered_map<int, DnnlMemory> arguments;

  Product(const dnnl::engine& engine, const Form& form) {
    // A weight gradient in bfloat16: the inner product's is faster by a tenth, and by a quarter with the
    // output layer's many rows.
    if (form.in != Type::f32 && form.out == Type::f32)
      build_weight_gradient(engine, form);
    else
      build_matmul(engine, form);
  }

 private:
  void build_matmul(const dnnl::engine& engine, const Form& form) {
    const MatmulShape& s = form.shape;
    const DnnlShape a_shape = matrix(form.in, s.m, s.k, s.transpose_a),
                    b_shape = matrix(form.in, s.k, s.n, s.transpose_b), c_shape = matrix(form.out, s.m, s.n),
                    bias_shape = matrix(form.in, 1, s.n);
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
  void build_weight_gradient(const dnnl::engine& engine, const Form& form) {
    const MatmulShape& s = form.shape;
    const DnnlShape d_out = matrix(form.in, s.k, s.m), input = matrix(form.in, s.k, s.n),
                    weight = matrix(form.in, s.m, s.n), d_weight = matrix(form.out, s.m, s.n);
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

/// Whether the older of oneDNN's two float products takes less time, as it does, by 3 to 17%, where b is not
/// to be transposed (AVX-512; 256 rows of a GPT-2's layers).
bool is_faster_as_gemm(const MatmulShape& s) {
  return !s.bias && !s.transpose_b && (s.transpose_a || s.k >= s.n);
}

[[noreturn]] void refuse(const MatmulShape& s, const std::string& why) {
  throw Error(ErrorCode::system, "oneDNN refused a matrix product of " + std::to_string(s.m) + " x " +
                                     std::to_string(s.k) + " by " + std::to_string(s.k) + " x " +
                                     std::to_string(s.n) + ": " + why);
}

/// Instruction sets are bits, of which a larger one has those of the ones that it contains.
bool has_isa(dnnl::cpu_isa isa) {
  const auto wanted = static_cast<unsigned>(isa),
             found = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (found & wanted) == wanted;
}

}  // namespace

struct DnnlMatmul::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::unordered_map<Form, Product, FormHash> products;
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
    if (status != dnnl_success) refuse(shape, "status " + std::to_string(status));
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
    const Form form{shape, operands.in, operands.out};
    auto found = state_->products.find(form);
    if (found == state_->products.end()) {
      found = state_->products.emplace(form, Product(state_->engine, form)).first;
    }
    Product& product = found->second;
    product.a.set_data_handle(const_cast<void*>(operands.a));
    product.b.set_data_handle(const_cast<void*>(operands.b));
    if (shape.bias) product.bias.set_data_handle(const_cast<void*>(operands.bias));
    product.c.set_data_handle(operands.c);
    product.primitive.execute(state_->stream, product.arguments);
    state_->stream.wait();
  } catch (const dnnl::error& error) {
    refuse(shape, error.what());
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
// Without AVX-512 oneDNN has bfloat16 products on paper only: its reference loops.
template <>
bool DnnlMatmul::available<bfloat16>() {
  return has_isa(dnnl::cpu_isa::avx512_core);
}
bool DnnlMatmul::has_fast_bfloat16() { return has_isa(dnnl::cpu_isa::avx512_core_bf16); }

}  // namespace muster::compute::cpu
