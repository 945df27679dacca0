// SPDX-License-Identifier: Apache-2.0
#include "compute/cpu/dnnl_matmul.hpp"

#include <dnnl.hpp>
#include <string>
#include <unordered_map>

#include "muster/error.hpp"

namespace muster::compute::cpu {
namespace {

struct ShapeHash {
  std::size_t operator()(const MatmulShape& s) const noexcept {
    std::size_t h = 0;
    for (int value :
         {s.m, s.n, s.k, int{s.transpose_a}, int{s.transpose_b}, int{s.bias}, int{s.accumulate}}) {
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

  Product(const dnnl::engine& engine, const MatmulShape& s) {
    using dnnl::memory;
    const auto matrix = [](memory::dim rows, memory::dim columns, bool transposed) {
      return memory::desc({rows, columns}, memory::data_type::f32,
                          transposed ? memory::dims{1, rows} : memory::dims{columns, 1});
    };
    const memory::desc a_desc = matrix(s.m, s.k, s.transpose_a);
    const memory::desc b_desc = matrix(s.k, s.n, s.transpose_b);
    const memory::desc c_desc = matrix(s.m, s.n, false);
    const memory::desc bias_desc({1, s.n}, memory::data_type::f32, memory::dims{s.n, 1});
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

}  // namespace

struct DnnlMatmul::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::unordered_map<MatmulShape, Product, ShapeHash> products;
};

DnnlMatmul::DnnlMatmul() : state_(std::make_unique<State>()) {}
DnnlMatmul::~DnnlMatmul() = default;

void DnnlMatmul::operator()(const MatmulShape& shape, const float* a, const float* b, const float* bias,
                            float* c) {
  try {
    auto found = state_->products.find(shape);
    if (found == state_->products.end()) {
      found = state_->products.emplace(shape, Product(state_->engine, shape)).first;
    }
    Product& product = found->second;
    product.a.set_data_handle(const_cast<float*>(a));
    product.b.set_data_handle(const_cast<float*>(b));
    if (shape.bias) product.bias.set_data_handle(const_cast<float*>(bias));
    product.c.set_data_handle(c);
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

bool DnnlMatmul::available() { return true; }

}  // namespace muster::compute::cpu
