// SPDX-License-Identifier: Apache-2.0
#include <dnnl.hpp>
#include <string>
#include <type_traits>
#include <unordered_map>

#include "compute/cpu/convolution.hpp"
#include "compute/cpu/dnnl_descriptions.hpp"
#include "compute/cpu/dnnl_matmul.hpp"
#include "muster/error.hpp"

namespace muster::compute::cpu {
namespace {

using DnnlMemory = dnnl::memory;
using DnnlShape = DnnlMemory::desc;
using Type = DnnlMemory::data_type;
using Format = DnnlMemory::format_tag;

/// Shape of a convolution, with or without a bias.
struct ConvolutionKey {
  ConvolutionShape shape;
  bool bias;
  bool operator==(const ConvolutionKey&) const = default;
};

struct ConvolutionKeyHash {
  std::size_t operator()(const ConvolutionKey& key) const noexcept {
    const ConvolutionShape& s = key.shape;
    std::size_t h = 0;
    for (const int value :
         {s.batch, s.height, s.width, s.in, s.out, s.window, s.stride, s.padding, s.groups, int{key.bias}})
      h = h * 1000003u + static_cast<std::size_t>(value);
    return h;
  }
};

/// Weights in PyTorch's order, or in the order that oneDNN chooses.
DnnlShape weight_shape(const ConvolutionShape& s, Type type, bool any) {
  if (s.groups == 1) return {{s.out, s.in, s.window, s.window}, type, any ? Format::any : Format::oihw};
  return {{s.groups, s.out / s.groups, s.in / s.groups, s.window, s.window},
          type,
          any ? Format::any : Format::goihw};
}

DnnlConvolutionOperands operands(const ConvolutionKey& key, Type type, Type weight_type) {
  const ConvolutionShape& s = key.shape;
  return {{{s.batch, s.in, s.height, s.width}, type, Format::nhwc},
          weight_shape(s, weight_type, true),
          key.bias ? DnnlShape({s.out}, weight_type, Format::a) : DnnlShape(),
          {{s.batch, s.out, s.out_height(), s.out_width()}, type, Format::nhwc},
          {s.stride, s.stride},
          {s.padding, s.padding}};
}

/// One primitive, and its weights in its own order if that is not PyTorch's.
struct WeightPrimitive {
  dnnl::primitive primitive;
  DnnlMemory plain, ordered;
  dnnl::reorder reorder;
  bool reorders = false;

  /// `to_ordered`: the primitive reads the weights; else it writes their gradient.
  WeightPrimitive(const dnnl::engine& engine, dnnl::primitive built, const DnnlShape& plain_shape,
                  const DnnlShape& ordered_shape, bool to_ordered)
      : primitive(std::move(built)),
        plain(plain_shape, engine, nullptr),
        reorders(plain_shape != ordered_shape) {
    if (!reorders) return;
    ordered = DnnlMemory(ordered_shape, engine);
    reorder = to_ordered ? dnnl::reorder(plain, ordered) : dnnl::reorder(ordered, plain);
  }
  DnnlMemory& weight() { return reorders ? ordered : plain; }
};

/// The three primitives of a convolution with their operands; only the addresses change from call to call.
struct ConvolutionPrimitives {
  DnnlMemory images, out, bias, d_bias;
  WeightPrimitive forward, backward_images, backward_weight;

  ConvolutionPrimitives(const dnnl::engine& engine, const ConvolutionKey& key, Type type)
      : ConvolutionPrimitives(engine, key, type, operands(key, type, type), operands(key, type, Type::f32)) {}

 private:
  ConvolutionPrimitives(const dnnl::engine& engine, const ConvolutionKey& key, Type type,
                        const DnnlConvolutionOperands& o, const DnnlConvolutionOperands& gradients)
      : ConvolutionPrimitives(engine, key, type, o, gradients, describe_forward(engine, o)) {}

  ConvolutionPrimitives(const dnnl::engine& engine, const ConvolutionKey& key, Type type,
                        const DnnlConvolutionOperands& o, const DnnlConvolutionOperands& gradients,
                        const dnnl::convolution_forward::primitive_desc& hint)
      : ConvolutionPrimitives(engine, key, type, o, gradients, hint,
                              describe_backward_images(engine, o, hint),
                              describe_backward_weight(engine, gradients, hint)) {}

  ConvolutionPrimitives(const dnnl::engine& engine, const ConvolutionKey& key, Type type,
                        const DnnlConvolutionOperands& o, const DnnlConvolutionOperands& gradients,
                        const dnnl::convolution_forward::primitive_desc& hint,
                        const dnnl::convolution_backward_data::primitive_desc& images_description,
                        const dnnl::convolution_backward_weights::primitive_desc& weight_description)
      : images(o.images, engine, nullptr),
        out(o.out, engine, nullptr),
        forward(engine, dnnl::convolution_forward(hint), weight_shape(key.shape, type, false),
                hint.weights_desc(), true),
        backward_images(engine, dnnl::convolution_backward_data(images_description),
                        weight_shape(key.shape, type, false), images_description.weights_desc(), true),
        backward_weight(engine, dnnl::convolution_backward_weights(weight_description),
                        weight_shape(key.shape, Type::f32, false), weight_description.diff_weights_desc(),
                        false) {
    if (!key.bias) return;
    bias = DnnlMemory(o.bias, engine, nullptr);
    d_bias = DnnlMemory(gradients.bias, engine, nullptr);
  }
};

void set_address(DnnlMemory& memory, const void* address) {
  memory.set_data_handle(const_cast<void*>(address));
}

template <typename Real>
class DnnlConvolution final : public Convolution<Real> {
 public:
  using Sum = Accurate<Real>;

  void forward(const ConvolutionShape& shape, const Real* images, const Real* weight, const Real* bias,
               Real* out) override {
    run({shape, bias != nullptr}, [&](ConvolutionPrimitives& p) {
      set_address(p.images, images);
      set_address(p.out, out);
      read_weight(p.forward, weight);
      std::unordered_map<int, DnnlMemory> arguments{
          {DNNL_ARG_SRC, p.images}, {DNNL_ARG_WEIGHTS, p.forward.weight()}, {DNNL_ARG_DST, p.out}};
      if (bias) {
        set_address(p.bias, bias);
        arguments.emplace(DNNL_ARG_BIAS, p.bias);
      }
      p.forward.primitive.execute(stream_, arguments);
    });
  }

  void backward_images(const ConvolutionShape& shape, const Real* d_out, const Real* weight,
                       Real* d_images) override {
    run({shape, false}, [&](ConvolutionPrimitives& p) {
      set_address(p.images, d_images);
      set_address(p.out, d_out);
      read_weight(p.backward_images, weight);
      p.backward_images.primitive.execute(stream_, {{DNNL_ARG_DIFF_SRC, p.images},
                                                    {DNNL_ARG_WEIGHTS, p.backward_images.weight()},
                                                    {DNNL_ARG_DIFF_DST, p.out}});
    });
  }

  void backward_weight(const ConvolutionShape& shape, const Real* images, const Real* d_out, Sum* d_weight,
                       Sum* d_bias) override {
    run({shape, d_bias != nullptr}, [&](ConvolutionPrimitives& p) {
      WeightPrimitive& backward = p.backward_weight;
      set_address(p.images, images);
      set_address(p.out, d_out);
      set_address(backward.plain, d_weight);
      std::unordered_map<int, DnnlMemory> arguments{
          {DNNL_ARG_SRC, p.images}, {DNNL_ARG_DIFF_WEIGHTS, backward.weight()}, {DNNL_ARG_DIFF_DST, p.out}};
      if (d_bias) {
        set_address(p.d_bias, d_bias);
        arguments.emplace(DNNL_ARG_DIFF_BIAS, p.d_bias);
      }
      backward.primitive.execute(stream_, arguments);
      if (backward.reorders) backward.reorder.execute(stream_, backward.ordered, backward.plain);
    });
  }

 private:
  static constexpr Type type = std::is_same_v<Real, float> ? Type::f32 : Type::bf16;

  void read_weight(WeightPrimitive& primitive, const Real* weight) {
    set_address(primitive.plain, weight);
    if (primitive.reorders) primitive.reorder.execute(stream_, primitive.plain, primitive.ordered);
  }

  template <typename Execute>
  void run(const ConvolutionKey& key, const Execute& execute) {
    try {
      auto found = primitives_.find(key);
      if (found == primitives_.end())
        found = primitives_.emplace(key, ConvolutionPrimitives(engine_, key, type)).first;
      execute(found->second);
      stream_.wait();
    } catch (const dnnl::error& error) {
      const ConvolutionShape& s = key.shape;
      throw Error(ErrorCode::system, "oneDNN refused a convolution of " + std::to_string(s.height) + " x " +
                                         std::to_string(s.width) + " pixels, " + std::to_string(s.in) +
                                         " to " + std::to_string(s.out) + " channels: " + error.what());
    }
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::unordered_map<ConvolutionKey, ConvolutionPrimitives, ConvolutionKeyHash> primitives_;
};

template <typename Real>
std::unique_ptr<Convolution<Real>> create() {
  if (!DnnlMatmul::available<Real>()) return nullptr;
  return std::make_unique<DnnlConvolution<Real>>();
}

}  // namespace

std::unique_ptr<Convolution<float>> dnnl_convolution(const float*) { return create<float>(); }
std::unique_ptr<Convolution<bfloat16>> dnnl_convolution(const bfloat16*) { return create<bfloat16>(); }

}  // namespace muster::compute::cpu
