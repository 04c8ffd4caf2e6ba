#include "serve/onnx/models.h"

#include <cmath>

#include "base/check.h"
#include "base/hash.h"

namespace partita::serve {
namespace {

using Shape = std::vector<std::int64_t>;
using Element = OnnxGraph::Element;

// Weights of a model: numbers of a counter, evenly spread in [-1, 1).
class Weights {
 public:
  explicit Weights(std::uint64_t seed) : seed_(mix64(seed)) {}

  OnnxWeight make(const std::string& name, const Shape& shape, double scale) {
    std::size_t count = 1;
    for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(scale * next());
    return {name, shape, std::move(values)};
  }
  // So that a sum over `fan_in` inputs varies as much as one of them.
  OnnxWeight linear(const std::string& name, const Shape& shape, int fan_in) {
    return make(name, shape, std::sqrt(6.0 / fan_in));
  }

 private:
  double next() {
    constexpr double kStep = 0x1p-52;
    return (static_cast<double>(mix64(seed_ + (kGolden64 * ++count_)) >> 11) * kStep) - 1;
  }
  std::uint64_t seed_, count_ = 0;
};

constexpr double kBias = 0.1;

OnnxWeight constant(const std::string& name, const Shape& shape, float value) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  return {name, shape, std::vector<float>(count, value)};
}

OnnxWeight shape_constant(const std::string& name, const Shape& shape) {
  return {name, {static_cast<std::int64_t>(shape.size())}, shape};
}

// One encoder block.
class Block {
 public:
  Block(OnnxGraph& graph, Weights& weights, const TransformerSize& size, int layer)
      : graph_(graph), weights_(weights), size_(size), prefix_("l" + std::to_string(layer) + "_") {}

  std::string add(const std::string& x, const std::string& last) {
    const std::string attended = normal(sum(x, attention(x), "a_sum"), "a_norm");
    const std::string up = graph_.node(
        "Relu", {linear(attended, "up", size_.width, size_.feedforward)}, prefix_ + "up_relu");
    const std::string down = linear(up, "down", size_.feedforward, size_.width);
    const std::string out = normal(sum(attended, down, "f_sum"), "f_norm");
    return last.empty() ? out : graph_.node("Identity", {out}, last);
  }

 private:
  std::string linear(const std::string& x, const std::string& name, int from, int to) {
    const std::string weight =
        graph_.weight(weights_.linear(prefix_ + name + "_w", {from, to}, from));
    const std::string bias = graph_.weight(weights_.make(prefix_ + name + "_b", {to}, kBias));
    return sum(graph_.node("MatMul", {x, weight}, prefix_ + name + "_mul"), bias, name);
  }
  std::string sum(const std::string& a, const std::string& b, const std::string& name) {
    return graph_.node("Add", {a, b}, prefix_ + name);
  }
  std::string normal(const std::string& x, const std::string& name) {
    const std::string scale = graph_.weight(constant(prefix_ + name + "_s", {size_.width}, 1));
    const std::string bias = graph_.weight(constant(prefix_ + name + "_b", {size_.width}, 0));
    return graph_.node("LayerNormalization", {x, scale, bias}, prefix_ + name,
                       {{"axis", std::int64_t{-1}}});
  }
  // [batch, tokens, width] -> [batch, heads, tokens, width / heads], or with the last two swapped.
  std::string heads(const std::string& x, const std::string& name, const Shape& order) {
    const std::string shape = graph_.weight(shape_constant(
        prefix_ + name + "_shape", {0, size_.tokens, size_.heads, size_.width / size_.heads}));
    const std::string split = graph_.node("Reshape", {x, shape}, prefix_ + name + "_split");
    return graph_.node("Transpose", {split}, prefix_ + name + "_heads", {{"perm", order}});
  }
  std::string attention(const std::string& x) {
    const std::string q = heads(linear(x, "q", size_.width, size_.width), "q", {0, 2, 1, 3});
    const std::string k = heads(linear(x, "k", size_.width, size_.width), "k", {0, 2, 3, 1});
    const std::string v = heads(linear(x, "v", size_.width, size_.width), "v", {0, 2, 1, 3});
    const std::string scale = graph_.weight(
        constant(prefix_ + "scale", {1},
                 static_cast<float>(1 / std::sqrt(double(size_.width) / size_.heads))));
    const std::string scores = graph_.node("MatMul", {q, k}, prefix_ + "scores");
    const std::string scaled = graph_.node("Mul", {scores, scale}, prefix_ + "scaled");
    const std::string share =
        graph_.node("Softmax", {scaled}, prefix_ + "share", {{"axis", std::int64_t{-1}}});
    const std::string mixed = graph_.node("MatMul", {share, v}, prefix_ + "mixed");
    const std::string back =
        graph_.node("Transpose", {mixed}, prefix_ + "back", {{"perm", Shape{0, 2, 1, 3}}});
    const std::string shape =
        graph_.weight(shape_constant(prefix_ + "joined_shape", {0, size_.tokens, size_.width}));
    const std::string joined = graph_.node("Reshape", {back, shape}, prefix_ + "joined");
    return linear(joined, "o", size_.width, size_.width);
  }

  OnnxGraph& graph_;
  Weights& weights_;
  const TransformerSize& size_;
  std::string prefix_;
};

}  // namespace

OnnxGraph onnx_mlp(const MlpSize& size, std::uint64_t seed) {
  OnnxGraph graph("mlp");
  Weights weights(seed);
  graph.input("x", Element::float32, {size.inputs});
  std::string x = "x";
  int from = size.inputs;
  std::vector<int> widths = size.hidden;
  widths.push_back(size.outputs);
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const int to = widths[i];
    const bool last = i + 1 == widths.size();
    const std::string number = std::to_string(i);
    const std::string weight = graph.weight(weights.linear("w" + number, {from, to}, from));
    const std::string bias = graph.weight(weights.make("b" + number, {to}, kBias));
    x = graph.node("Gemm", {x, weight, bias}, last ? "y" : "h" + number);
    if (!last) x = graph.node("Relu", {x}, "r" + number);
    from = to;
  }
  graph.output("y", Element::float32, {size.outputs});
  return graph;
}

OnnxGraph onnx_cnn(const CnnSize& size, std::uint64_t seed) {
  CHECK(size.side % (1 << size.blocks) == 0);
  OnnxGraph graph("cnn");
  Weights weights(seed);
  graph.input("x", Element::float32, {size.channels, size.side, size.side});
  std::string x = "x";
  int from = size.channels, to = size.width;
  for (int block = 0; block < size.blocks; ++block) {
    const std::string number = std::to_string(block);
    const std::string weight =
        graph.weight(weights.linear("w" + number, {to, from, 3, 3}, from * 9));
    const std::string bias = graph.weight(weights.make("b" + number, {to}, kBias));
    x = graph.node("Conv", {x, weight, bias}, "c" + number,
                   {{"kernel_shape", Shape{3, 3}}, {"pads", Shape{1, 1, 1, 1}}});
    x = graph.node("Relu", {x}, "r" + number);
    x = graph.node("MaxPool", {x}, "p" + number,
                   {{"kernel_shape", Shape{2, 2}}, {"strides", Shape{2, 2}}});
    from = to;
    to *= 2;
  }
  x = graph.node("GlobalAveragePool", {x}, "mean");
  x = graph.node("Flatten", {x}, "flat", {{"axis", std::int64_t{1}}});
  const std::string weight = graph.weight(weights.linear("w_out", {from, size.classes}, from));
  const std::string bias = graph.weight(weights.make("b_out", {size.classes}, kBias));
  graph.node("Gemm", {x, weight, bias}, "y");
  graph.output("y", Element::float32, {size.classes});
  return graph;
}

OnnxGraph onnx_transformer(const TransformerSize& size, std::uint64_t seed) {
  CHECK(size.width % size.heads == 0);
  OnnxGraph graph("transformer");
  Weights weights(seed);
  graph.input("x", Element::float32, {size.tokens, size.width});
  std::string x = "x";
  for (int layer = 0; layer < size.layers; ++layer)
    x = Block(graph, weights, size, layer).add(x, layer + 1 == size.layers ? "y" : "");
  graph.output("y", Element::float32, {size.tokens, size.width});
  return graph;
}

}  // namespace partita::serve
