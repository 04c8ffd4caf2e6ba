#include "base/text_proto.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace partita {
namespace {

class TextProtoReader {
 public:
  TextProtoReader(std::string file, std::string_view text) : file_(std::move(file)), rest_(text) {}

  Result<ProtoField> read() {
    ProtoField all{.name = "", .message = true, .line = 1};
    if (rest_.size() > kMostProtoBytes) return failed(fault("is longer than 1 MiB"));
    TRY(fields(all, '\0', 0));
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
  Result<void> scalar(ProtoField& field) {
    if (const char c = next(); c == '"' || c == '\'') {
      while (next() == '"' || next() == '\'') {  // texts in a row are one
        auto part = TRY(quoted());
        field.value += part;
      }
      return {};
    }
    field.value = word();
    if (field.value.empty()) return failed(fault("'" + field.name + "' has no value"));
    return {};
  }
  // One value, or several in brackets: each is a field of that name.
  Result<void> value(ProtoField& into, const std::string& name, int depth) {
    ProtoField field{.name = name, .line = line_};
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
  Result<void> fields(ProtoField& into, char end, int depth) {
    if (depth > kMostProtoDepth) return failed(fault("is nested too deeply"));
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

}  // namespace

Result<ProtoField> parse_text_proto(const std::string& file, std::string_view text) {
  return TextProtoReader(file, text).read();
}

const ProtoField* field_of(const ProtoField& in, std::string_view name) {
  const auto found = std::ranges::find(in.fields, name, &ProtoField::name);
  return found == in.fields.end() ? nullptr : &*found;
}

std::string text_of(const ProtoField& in, std::string_view name) {
  const ProtoField* found = field_of(in, name);
  return found ? found->value : "";
}

}  // namespace partita
