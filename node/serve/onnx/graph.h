// OnnxGraph: builds an ONNX model (opset 17, IR version 8) and writes it in protobuf's wire format,
// which for this needs varints and lengths alone. Values and text only; what it writes, ONNX
// Runtime reads. It trusts its caller to name things once and use operators rightly.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace partita::serve {

struct OnnxWeight {
  std::string name;
  std::vector<std::int64_t> shape;
  std::variant<std::vector<float>, std::vector<std::int64_t>> values;
};

class OnnxGraph {
 public:
  using Attribute = std::variant<std::int64_t, float, std::vector<std::int64_t>>;
  using Attributes = std::map<std::string, Attribute>;
  enum class Element { float32 = 1, int64 = 7, string = 8 };

  explicit OnnxGraph(std::string name) : name_(std::move(name)) {}

  // Tensors of the model; `shape` is of one item, the open batch dimension comes before it.
  void input(const std::string& name, Element element, const std::vector<std::int64_t>& shape);
  void output(const std::string& name, Element element, const std::vector<std::int64_t>& shape);
  // The same with all their dimensions; -1: open.
  void whole_input(const std::string& name, Element element,
                   const std::vector<std::int64_t>& whole);
  void whole_output(const std::string& name, Element element,
                    const std::vector<std::int64_t>& whole);
  // A constant. As many values as the shape says (a CHECK).
  std::string weight(OnnxWeight weight);
  // An operator with one output; the output's name.
  std::string node(const std::string& op, const std::vector<std::string>& inputs,
                   const std::string& output, const Attributes& attributes = {});

  const std::vector<OnnxWeight>& weights() const { return weights_; }
  // The file.
  std::string bytes() const;

 private:
  std::string name_;
  std::string nodes_, inputs_, outputs_;  // encoded fields of the graph
  std::vector<OnnxWeight> weights_;
};

}  // namespace partita::serve
