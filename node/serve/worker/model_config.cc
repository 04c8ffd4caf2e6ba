#include "serve/worker/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/nearest.h"
#include "base/parse_number.h"
#include "base/unicode.h"
#include "serve/wire/frames.h"

namespace partita::serve {
namespace {

// A field: a scalar as it is written, without quotes, or a message.
struct ConfigField {
  std::string name, value = {};
  bool message = false;
  int line = 0;
  std::vector<ConfigField> fields = {};
};

class ConfigReader {
 public:
  ConfigReader(std::string file, std::string_view text) : file_(std::move(file)), rest_(text) {}

  Result<ConfigField> read() {
    ConfigField all{.name = "", .message = true, .line = 1};
    if (rest_.size() > kMostConfigBytes) return failed(fault("is longer than 1 MiB"));
    if (auto read = fields(all, '\0', 0); !read) return failed(read.error());
    return all;
  }

 private:
  Error fault(const std::string& what) const {
    return {ErrorCode::bad_input, what, fmt::format("{}:{}", file_, line_)};
  }
  char next() {
    while (!rest_.empty()) {
      const char c = rest_.front();
      if (c == '#')
        rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
      else if (std::isspace(static_cast<unsigned char>(c)))
        take();
      else
        return c;
    }
    return '\0';
  }
  void take() {
    line_ += rest_.front() == '\n';
    rest_.remove_prefix(1);
  }
  bool skip(char c) {
    if (next() != c || rest_.empty()) return false;
    take();
    return true;
  }
  std::string word() {
    next();
    std::size_t size = 0;
    while (size < rest_.size() && (std::isalnum(static_cast<unsigned char>(rest_[size])) ||
                                   std::string_view("_.+-").find(rest_[size]) != std::string::npos))
      ++size;
    std::string read(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return read;
  }
  Result<std::string> quoted() {
    const char mark = rest_.front();
    std::string read;
    for (take(); !rest_.empty() && rest_.front() != mark; take()) {
      if (rest_.front() == '\n') return failed(fault("a text has no end"));
      if (rest_.front() == '\\') take();
      if (!rest_.empty()) read.push_back(rest_.front());
      if (rest_.empty()) break;
    }
    if (rest_.empty()) return failed(fault("a text has no end"));
    take();
    return read;
  }
  Result<void> scalar(ConfigField& field) {
    if (const char c = next(); c == '"' || c == '\'') {
      while (next() == '"' || next() == '\'') {  // texts in a row are one
        auto part = quoted();
        if (!part) return failed(part.error());
        field.value += *part;
      }
      return {};
    }
    field.value = word();
    if (field.value.empty()) return failed(fault("'" + field.name + "' has no value"));
    return {};
  }
  // One value, or several in brackets: each is a field of that name.
  Result<void> value(ConfigField& into, const std::string& name, int depth) {
    ConfigField field{.name = name, .line = line_};
    const bool angle = next() == '<';
    if (angle || next() == '{') {
      take();
      field.message = true;
      if (auto read = fields(field, angle ? '>' : '}', depth + 1); !read) return read;
    } else if (auto read = scalar(field); !read) {
      return read;
    }
    into.fields.push_back(std::move(field));
    return {};
  }
  Result<void> fields(ConfigField& into, char end, int depth) {
    if (depth > kMostConfigDepth) return failed(fault("is nested too deeply"));
    while (true) {
      if (next() == '\0' && rest_.empty()) {
        if (end == '\0') return {};
        return failed(fault(fmt::format("'{}' is not closed", into.name)));
      }
      if (end != '\0' && skip(end)) return {};
      const std::string name = word();
      if (name.empty()) return failed(fault(fmt::format("'{}' is no name", rest_.front())));
      const bool colon = skip(':');
      if (skip('[')) {
        for (bool first = true; !skip(']'); first = false) {
          if (!first && !skip(',')) return failed(fault("'" + name + "': ',' or ']' is wanted"));
          if (!first && skip(']')) break;
          if (auto read = value(into, name, depth); !read) return read;
        }
      } else if (!colon && next() != '{' && next() != '<') {
        return failed(fault("behind '" + name + "' ':' is wanted"));
      } else if (auto read = value(into, name, depth); !read) {
        return read;
      }
      if (!skip(',')) skip(';');
    }
  }

  std::string file_;
  std::string_view rest_;
  int line_ = 1;
};

const std::vector<std::string> kKnown = {"name",
                                         "platform",
                                         "backend",
                                         "runtime",
                                         "version_policy",
                                         "max_batch_size",
                                         "input",
                                         "output",
                                         "batch_input",
                                         "batch_output",
                                         "optimization",
                                         "dynamic_batching",
                                         "sequence_batching",
                                         "ensemble_scheduling",
                                         "instance_group",
                                         "default_model_filename",
                                         "cc_model_filenames",
                                         "metric_tags",
                                         "parameters",
                                         "model_warmup",
                                         "model_operations",
                                         "model_transaction_policy",
                                         "model_repository_agents",
                                         "response_cache",
                                         "model_metrics"};
const std::vector<std::string> kPlanned = {"dynamic_batching", "instance_group", "optimization",
                                           "version_policy", "response_cache"};

const ConfigField* find(const ConfigField& in, std::string_view name) {
  const auto found = std::ranges::find(in.fields, name, &ConfigField::name);
  return found == in.fields.end() ? nullptr : &*found;
}
std::string text_in(const ConfigField& in, std::string_view name) {
  const ConfigField* found = find(in, name);
  return found ? found->value : "";
}

class ConfigTaker {
 public:
  explicit ConfigTaker(std::string file) : file_(std::move(file)) {}

  Result<ModelConfig> take(const ConfigField& all) {
    for (const ConfigField& field : all.fields)
      if (auto took = take_field(field); !took) return failed(took.error());
    for (const ConfigField& field : all.fields)
      if (field.name == "model_warmup") take_usual(field);
    return std::move(config_);
  }

 private:
  tl::unexpected<Error> refused(const ConfigField& at, const std::string& why) const {
    return bad_input(fmt::format("{}:{}", file_, at.line), fmt::format("'{}' {}", at.name, why));
  }

  Result<void> take_field(const ConfigField& field) {
    const std::string& name = field.name;
    if (std::ranges::find(kKnown, name) == kKnown.end())
      return refused(field, "is unknown" + did_you_mean(name, kKnown));
    if (name == "ensemble_scheduling" || (name == "platform" && field.value == "ensemble"))
      return refused(field, "describes an ensemble, which is not served");
    if ((name == "platform" && field.value != "onnxruntime_onnx" && !field.value.empty()) ||
        (name == "backend" && field.value != "onnxruntime" && !field.value.empty()))
      return refused(field, fmt::format("is {}; onnxruntime is what runs here, others behind "
                                        "--forward",
                                        field.value));
    if (name == "batch_input" || name == "batch_output")
      return refused(field, "is not served: inputs come with the request");
    if (name == "max_batch_size") {
      config_.max_batch = parse_number<int>(field.value);
      if (!config_.max_batch || *config_.max_batch < 0)
        return refused(field, "is a number from 0 on");
      config_.max_batch = std::min(*config_.max_batch, kMaxLinkBatch);
    }
    if (name == "default_model_filename") {
      config_.file = field.value;
      if (field.value.empty() || field.value.find('/') != std::string::npos)
        return refused(field, "is the name of a file in the version's folder");
    }
    if (std::ranges::find(kPlanned, name) != kPlanned.end() &&
        std::ranges::find(config_.left, name) == config_.left.end())
      config_.left.push_back(name);
    if (name == "input") return take_input(field);
    if (name == "sequence_batching") return take_sequences(field);
    return {};
  }

  Result<void> take_input(const ConfigField& field) {
    const std::string name = text_in(field, "name");
    if (name.empty()) return refused(field, "has no name");
    std::vector<std::int64_t> shape;
    for (const ConfigField& dim : field.fields) {
      if (dim.name != "dims") continue;
      const auto size = parse_number<std::int64_t>(dim.value);
      if (!size || (*size < 1 && *size != kOpen))
        return refused(dim, "are numbers from 1 on, or -1");
      if (shape.size() == kMaxDimensions) return refused(dim, "are too many");
      shape.push_back(*size);
    }
    if (find(field, "reshape")) return {};  // other sizes than the model's
    if (!shape.empty() && !config_.shapes.emplace(name, std::move(shape)).second)
      return refused(field, fmt::format("'{}' is said twice", name));
    return {};
  }

  Result<void> take_sequences(const ConfigField& field) {
    if (const ConfigField* control = find(field, "control_input"))
      return refused(*control,
                     "is for models that keep their state themselves, which are not "
                     "served");
    for (const ConfigField& state : field.fields) {
      if (state.name != "state") continue;
      const std::string input = text_in(state, "input_name"),
                        output = text_in(state, "output_name");
      if (input.empty() || output.empty() || !config_.states.emplace(input, output).second)
        return refused(state, "has an input_name of its own and an output_name");
    }
    return {};
  }

  // Sizes with which a warm-up runs are usual ones.
  void take_usual(const ConfigField& warmup) {
    for (const ConfigField& input : warmup.fields) {
      const ConfigField* value = input.name == "inputs" ? find(input, "value") : nullptr;
      const auto shape = config_.shapes.find(text_in(input, "key"));
      if (!value || shape == config_.shapes.end()) continue;
      std::size_t at = 0;
      for (const ConfigField& dim : value->fields) {
        if (dim.name != "dims" || at >= shape->second.size()) continue;
        const auto size = parse_number<std::int64_t>(dim.value);
        std::int64_t& open = shape->second[at++];
        if (open == kOpen && size && *size > 1 && *size < (std::int64_t{1} << 31)) open = -*size;
      }
    }
  }

  std::string file_;
  ModelConfig config_;
};

}  // namespace

Result<ModelConfig> parse_model_config(const std::string& file, std::string_view text) {
  const auto read = ConfigReader(file, text).read();
  if (!read) return failed(read.error());
  return ConfigTaker(file).take(*read);
}

}  // namespace partita::serve
