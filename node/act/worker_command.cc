#include "act/worker_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/check.h"
#include "base/document.h"
#include "base/nearest.h"
#include "base/unicode.h"

namespace partita::actuate {
namespace {

constexpr std::string_view kBlank = " \t\n";

// Splits into words. A backslash takes the next character as it is, outside quotes and inside
// double ones (there only before \ and "); inside single quotes everything is as it is.
class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  // Nothing when a quote stays open.
  bool run() {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (quote_ != 0)
        inside(c);
      else
        outside(c);
    }
    end_word();
    return quote_ == 0;
  }
  std::vector<std::string> take() { return std::move(words_); }

 private:
  void inside(char c) {
    const bool escapes = c == '\\' && quote_ == '"' && at_ + 1 < text_.size() &&
                         (text_[at_ + 1] == '"' || text_[at_ + 1] == '\\');
    if (c == quote_)
      quote_ = 0;
    else
      word_ += escapes ? text_[++at_] : c;
  }
  void outside(char c) {
    if (kBlank.find(c) != std::string_view::npos) {
      end_word();
    } else if (c == '\'' || c == '"') {
      quote_ = c;
      begun_ = true;
    } else {
      const bool escapes = c == '\\' && at_ + 1 < text_.size();
      word_ += escapes ? text_[++at_] : c;
      begun_ = true;
    }
  }
  void end_word() {
    if (begun_) words_.push_back(std::move(word_));
    word_.clear();
    begun_ = false;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  char quote_ = 0;
  bool begun_ = false;  // a word, which may be empty: ''
  std::string word_;
  std::vector<std::string> words_;
};

using Values = std::map<std::string, std::string>;

Values values_of(const AssignedSegment& segment, int index, int port) {
  const int both = segment.prefill_units + segment.decode_units;
  const int prefill = both > 0 ? (100 * segment.prefill_units + both / 2) / both : 0;
  return {{"service", segment.service},
          {"batch", fmt::format("{}", segment.batch)},
          {"processes", fmt::format("{}", segment.processes)},
          {"index", fmt::format("{}", index)},
          {"device", segment.device},
          {"gpu", segment.gpu_uuid},
          {"profile", segment.profile},
          {"start", fmt::format("{}", segment.start)},
          {"group", fmt::format("{}", std::max<std::size_t>(1, whole_gpus(segment.device).size()))},
          {"held", fmt::format("{}", segment.held)},
          {"port", fmt::format("{}", port)},
          {"engine_backend", segment.engine.backend},
          {"engine_version", segment.engine.version},
          {"precision", segment.engine.precision},
          {"tp", fmt::format("{}", segment.engine.tensor)},
          {"pp", fmt::format("{}", segment.engine.pipeline)},
          {"attention_dp", fmt::format("{}", segment.engine.data)},
          {"prefill_units", fmt::format("{}", segment.prefill_units)},
          {"decode_units", fmt::format("{}", segment.decode_units)},
          {"prefill_percent", fmt::format("{}", prefill)},
          {"decode_percent", fmt::format("{}", both > 0 ? 100 - prefill : 0)}};
}

// The word with its placeholders replaced, or why it cannot be.
Result<std::string> filled(std::string_view word, const Values& values) {
  std::string result;
  for (std::size_t at = 0; at < word.size(); ++at) {
    const char c = word[at];
    const bool twice = at + 1 < word.size() && word[at + 1] == c;
    if ((c == '{' || c == '}') && twice) {
      result += c;
      ++at;
      continue;
    }
    if (c == '}') return bad_input("", "a single '}'; write '}}' for a brace");
    if (c != '{') {
      result += c;
      continue;
    }
    const std::size_t end = word.find('}', at);
    if (end == std::string_view::npos)
      return bad_input("", "'{' without '}'; write '{{' for a brace");
    const std::string name(word.substr(at + 1, end - at - 1));
    const auto value = values.find(name);
    if (value == values.end()) {
      std::vector<std::string> names;
      for (const auto& [known, unused] : values) names.push_back(known);
      return bad_input("", fmt::format("unknown placeholder '{{{}}}'{}", utf8(printable(name)),
                                       did_you_mean(name, names)));
    }
    result += value->second;
    at = end;
  }
  return result;
}

}  // namespace

Result<CommandTemplate> parse_command(const std::string& context, std::string_view text) {
  if (text.find_first_not_of(kBlank) == std::string_view::npos)
    return bad_input(context, "the command is empty");
  if (const Result<void> legible = check_text(context, text); !legible)
    return bad_input(context, legible.error().message);
  Splitter splitter(text);
  if (!splitter.run()) return bad_input(context, "a quote is not closed");
  CommandTemplate command{.words = splitter.take()};
  AssignedSegment lanes;
  lanes.prefill_units = lanes.decode_units = 1;
  if (command.words.empty() || command.words.front().empty())
    return bad_input(context, "the command is empty");
  for (const std::string& word : command.words) {
    const Result<std::string> with = filled(word, values_of({}, 0, 1));
    if (!with) return bad_input(context, with.error().message);
    // Each differs from the first in that alone.
    command.ports = command.ports || *with != filled(word, values_of({}, 0, 2)).value();
    command.lanes = command.lanes || *with != filled(word, values_of(lanes, 0, 1)).value();
  }
  return command;
}

std::vector<std::string> command_of(const CommandTemplate& command, const AssignedSegment& segment,
                                    int index, int port) {
  const Values values = values_of(segment, index, port);
  std::vector<std::string> argv;
  for (const std::string& word : command.words) {
    Result<std::string> with = filled(word, values);
    CHECK(with);
    argv.push_back(*std::move(with));
  }
  return argv;
}

}  // namespace partita::actuate
