#include "serve/load/model_inputs.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "base/append.h"
#include "base/check.h"
#include "base/fields.h"
#include "base/form.h"

namespace partita::serve {
namespace {

constexpr Range kDimensions{.low = -1, .high = 1e9};
constexpr std::uint64_t kWholeValues = 100;
constexpr int kTextLetters = 8;

TensorSpec read_input(Fields fields) {
  TensorSpec input;
  input.name = fields.name("name");
  const std::string type = fields.text("datatype");
  if (!fields.error()) {
    const Result<DataType> parsed = parse_data_type("datatype", type);
    if (!parsed) fields.refuse("datatype", parsed.error().message);
    input.type = parsed.value_or(DataType::fp32);
  }
  for (const Node& item : fields.list("shape", kMaxDimensions)) {
    const bool whole = item.kind == Node::Kind::number && item.number >= kDimensions.low &&
                       item.number <= kDimensions.high && item.number != 0 &&
                       item.number == static_cast<double>(static_cast<long>(item.number));
    if (!whole) fields.refuse(item, "a dimension must be -1, or 1 to 10^9");
    input.shape.push_back(whole && item.number > 0 ? static_cast<long>(item.number) : 1);
  }
  return input;
}

template <class T>
void put(std::string& bytes, T value) {
  std::array<char, sizeof(T)> raw{};
  std::memcpy(raw.data(), &value, sizeof(T));
  bytes.append(raw.data(), raw.size());
}

// A value with the exponent of [0.5, 1) in a format of 16 bits.
std::uint16_t half_value(Rng& rng, int mantissa_bits, int exponent) {
  return static_cast<std::uint16_t>((exponent << mantissa_bits) +
                                    static_cast<int>(rng.below(1u << mantissa_bits)));
}

void put_value(std::string& bytes, DataType type, Rng& rng) {
  switch (type) {
    case DataType::fp32:
      return put(bytes, static_cast<float>(rng.uniform()));
    case DataType::fp64:
      return put(bytes, rng.uniform());
    case DataType::fp16:
      return put(bytes, half_value(rng, 10, 14));
    case DataType::bf16:
      return put(bytes, half_value(rng, 7, 126));
    case DataType::boolean:
      return put(bytes, static_cast<std::uint8_t>(rng.below(2)));
    case DataType::bytes:
      put(bytes, static_cast<std::uint32_t>(kTextLetters));
      for (int i = 0; i < kTextLetters; ++i)
        put(bytes, static_cast<char>('a' + static_cast<char>(rng.below(26))));
      return;
    default:
      break;
  }
  // Little-endian: the low bytes of a small number are that number in any whole type.
  const std::uint64_t whole = rng.below(kWholeValues);
  for (std::size_t i = 0; i < size_of(type); ++i)
    put(bytes, static_cast<std::uint8_t>(i == 0 ? whole : 0));
}

std::string head(std::string_view verb, const RequestTarget& target, std::string_view path) {
  std::string text = request_head(verb, target.url, path) + "User-Agent: partita-load\r\n";
  if (!target.token.empty()) text += fmt::format("Authorization: Bearer {}\r\n", target.token);
  return text;
}

}  // namespace

Result<std::vector<TensorSpec>> parse_model_inputs(const std::string& file, std::string_view json) {
  const auto document = TRY(parse_document(file, json));
  Fields fields(document);
  std::vector<TensorSpec> inputs;
  std::size_t bytes = 0;
  for (const Node& item : fields.list("inputs", kMaxTensors)) {
    inputs.push_back(read_input({fields, item}));
    double size = static_cast<double>(size_of(inputs.back().type));
    for (const std::int64_t dimension : inputs.back().shape) size *= static_cast<double>(dimension);
    if (size > static_cast<double>(kMaxItemBytes) ||
        (bytes += static_cast<std::size_t>(size)) > kMaxItemBytes)
      fields.refuse(item, "the inputs of one item are too large");
    if (fields.error()) return failed(*fields.error());
  }
  if (inputs.empty()) fields.refuse("inputs", "the model has no inputs");
  if (fields.error()) return failed(*fields.error());
  return inputs;
}

std::string metadata_request(const RequestTarget& target) {
  return head("GET", target, "/v2/models/" + percent_encoded(target.model)) +
         "Connection: close\r\n\r\n";
}

std::string infer_request(const RequestTarget& target, const std::vector<TensorSpec>& inputs,
                          Rng rng) {
  static_assert(std::endian::native == std::endian::little);
  std::string tensors;
  const auto describe_input = [&](Form& f, std::size_t index) {
    const TensorSpec& input = inputs[index];
    const std::size_t before = tensors.size();
    for (std::int64_t i = elements_of(input); i > 0; --i) put_value(tensors, input.type, rng);
    f.told("name", input.name);
    f.told("datatype", name_of(input.type));
    f.told("shape", input.shape);
    f.told_object("parameters",
                  [&](Form& of) { of.told("binary_data_size", tensors.size() - before); });
  };
  const std::string text = line_form([&](Form& f) {
    f.rows("inputs", inputs.size(), describe_input, {});
    f.told_object("parameters", [](Form& of) { of.told("binary_data_output", true); });
  });
  return head("POST", target, "/v2/models/" + percent_encoded(target.model) + "/infer") +
         fmt::format(
             "Content-Type: application/octet-stream\r\n"
             "Inference-Header-Content-Length: {}\r\nContent-Length: {}\r\n\r\n",
             text.size(), text.size() + tensors.size()) +
         text + tensors;
}

}  // namespace partita::serve
