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

/// A primitive with its operands; only their addresses change from call to call.
struct Product {
  dnnl::memory a, b, bias, c;
  dnnl::matmul primitive;
  std::unordered_map<int, dnnl::memory> arguments;

  Product(const dnnl::engine& engine, const Form& form) {
    using dnnl::memory;
    const MatmulShape& s = form.shape;
    const auto matrix = [](Type type, memory::dim rows, memory::dim columns, bool transposed) {
      return memory::desc({rows, columns}, type,
                          transposed ? memory::dims{1, rows} : memory::dims{columns, 1});
    };
    const memory::desc a_desc = matrix(form.in, s.m, s.k, s.transpose_a);
    const memory::desc b_desc = matrix(form.in, s.k, s.n, s.transpose_b);
    const memory::desc c_desc = matrix(form.out, s.m, s.n, false);
    const memory::desc bias_desc({1, s.n}, form.in, memory::dims{s.n, 1});
    dnnl::primitive_attr attributes;
    if (s.accumulate) {
      dnnl::post_ops add;
      add.append_sum(1.0f);
      attributes.set_post_ops(add);
    }
#if DNNL_VERSION_MAJOR >= 3
    const auto description =
        s.bias ? dnnl::matmul::primitive_desc(engine, a_desc, b_desc, bias_desc, c_desc, attributes)
               : dnnl::matmul::primitive_desc(engine, a_desc, b_desc, c_desc, attributes);
#else
    const auto operation = s.bias ? dnnl::matmul::desc(a_desc, b_desc, bias_desc, c_desc)
                                  : dnnl::matmul::desc(a_desc, b_desc, c_desc);
    const dnnl::matmul::primitive_desc description(operation, attributes, engine);
#endif
    primitive = dnnl::matmul(description);
    a = memory(a_desc, engine, nullptr);
    b = memory(b_desc, engine, nullptr);
    c = memory(c_desc, engine, nullptr);
    arguments = {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}};
    if (s.bias) {
      bias = memory(bias_desc, engine, nullptr);
      arguments.emplace(DNNL_ARG_BIAS, bias);
    }
  }
};

/// Instruction sets are bits, of which a larger one has those of the ones that it contains.
bool has(dnnl::cpu_isa isa) {
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
  multiply(shape, {Type::f32, Type::f32, a, b, bias, c});
}
void DnnlMatmul::operator()(const MatmulShape& shape, const bfloat16* a, const bfloat16* b,
                            const bfloat16* bias, bfloat16* c) {
  multiply(shape, {Type::bf16, Type::bf16, a, b, bias, c});
}
void DnnlMatmul::operator()(const MatmulShape& shape, const bfloat16* a, const bfloat16* b, float* c) {
  multiply(shape, {Type::bf16, Type::f32, a, b, nullptr, c});
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
    throw Error(Fault::system, "oneDNN refused a matrix product of " + std::to_string(shape.m) + " x " +
                                   std::to_string(shape.k) + " by " + std::to_string(shape.k) + " x " +
                                   std::to_string(shape.n) + ": " + error.what());
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
  return has(dnnl::cpu_isa::avx512_core);
}
bool DnnlMatmul::has_fast_bfloat16() { return has(dnnl::cpu_isa::avx512_core_bf16); }

}  // namespace muster::compute::cpu
