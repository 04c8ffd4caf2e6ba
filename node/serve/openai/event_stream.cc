#include "serve/openai/event_stream.h"

#include <algorithm>

#include "serve/oip/json_scan.h"

namespace partita::serve {
namespace {

using Kind = StreamEvent::Kind;
constexpr double kMostChoice = 1e6;

// What follows the "data:" of its lines. More than one line is joined in `scratch`.
std::string_view data_of(std::string_view event, std::string& scratch) {
  std::string_view data;
  bool first = true;
  while (!event.empty()) {
    const std::size_t end = std::min(event.find('\n'), event.size());
    std::string_view line = event.substr(0, end);
    event.remove_prefix(std::min(end + 1, event.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.starts_with("data:")) continue;
    line.remove_prefix(line.starts_with("data: ") ? 6 : 5);
    if (first) {
      data = line;
    } else {
      if (scratch.empty()) scratch = data;
      scratch += '\n';
      scratch += line;
    }
    first = false;
  }
  return scratch.empty() ? data : scratch;
}

// Whether a value says something: text, a list or an object that is not empty, a number.
bool says_something(std::string_view value) {
  if (value == "null" || value == "\"\"") return false;
  return value.size() > 2 || (!value.empty() && value.front() != '{' && value.front() != '[');
}

// A choice of an event. `text`: what the token is, where it is one string.
struct Choice {
  int index = 0;
  bool token = false;
};
Choice read_choice(JsonScan& scan, std::string_view& text) {
  Choice choice;
  bool& token = choice.token;
  const auto note = [&](std::string_view value) {
    if (!says_something(value)) return;
    text = !token && value.front() == '"' ? value.substr(1, value.size() - 2) : std::string_view();
    token = true;
  };
  scan.object([&](std::string_view key) {
    if (key == "index" && scan.peek() >= '0' && scan.peek() <= '9') {
      choice.index = static_cast<int>(std::min(scan.number(), kMostChoice));
      return;
    }
    if (key != "delta" || scan.peek() != '{') {
      const std::string_view value = scan.skip();
      if (key == "text") note(value);
      return;
    }
    scan.object([&](std::string_view part) {
      const std::string_view value = scan.skip();
      if (part != "role") note(value);
    });
  });
  return choice;
}

std::int64_t count_of(JsonScan& scan) {
  if (scan.peek() != 'n') return std::max<std::int64_t>(scan.integer(), 0);
  scan.skip();
  return 0;
}

std::optional<TokenUsage> read_usage(JsonScan& scan) {
  if (scan.peek() != '{') {
    scan.skip();
    return std::nullopt;
  }
  TokenUsage usage;
  scan.object([&](std::string_view key) {
    if (key == "prompt_tokens") {
      usage.prompt = count_of(scan);
    } else if (key == "completion_tokens") {
      usage.completion = count_of(scan);
    } else if (key == "prompt_tokens_details" && scan.peek() == '{') {
      scan.object([&](std::string_view detail) {
        if (detail == "cached_tokens")
          usage.cached = count_of(scan);
        else
          scan.skip();
      });
    } else {
      scan.skip();
    }
  });
  return usage;
}

}  // namespace

std::size_t end_of_event(std::string_view text, std::size_t from) {
  for (std::size_t at = text.find('\n', from); at != text.npos; at = text.find('\n', at + 1)) {
    const std::string_view next = text.substr(at + 1, 2);
    if (next.starts_with('\n')) return at + 2;
    if (next == "\r\n") return at + 3;
  }
  return std::string_view::npos;
}

StreamEvent read_event(std::string_view bytes) {
  StreamEvent event{.bytes = bytes};
  std::string scratch;
  const std::string_view data = data_of(bytes, scratch);
  if (data == "[DONE]") {
    event.kind = Kind::done;
    return event;
  }
  if (!data.starts_with('{')) return event;
  JsonScan scan(data);
  int tokens = 0;
  bool error = false;
  scan.object([&](std::string_view key) {
    if (key == "choices" && scan.peek() == '[') {
      scan.array([&] {
        event.choices = true;
        const Choice choice = read_choice(scan, event.text);
        if (choice.token) event.choice = ++tokens == 1 ? choice.index : -1;
      });
    } else if (key == "usage") {
      event.usage = read_usage(scan);
    } else if (key == "error") {
      error = says_something(scan.skip());
    } else {
      scan.skip();
    }
  });
  if (!scan.ok()) return {.bytes = bytes};
  if (error)
    event.kind = Kind::error;
  else if (tokens > 0)
    event.kind = Kind::token;
  else if (event.usage && !event.choices)
    event.kind = Kind::usage;
  if (tokens != 1 || event.kind != Kind::token || !scratch.empty()) event.text = {};
  return event;
}

StreamEvent EventStream::read(std::string_view bytes) {
  // Without escapes, quotes and line ends a text ends nowhere but where it did before.
  const auto plain = [](char c) { return c != '"' && c != '\\' && c != '\n' && c != '\r'; };
  if (!before_.empty() && bytes.size() > before_.size() + behind_.size() &&
      bytes.starts_with(before_) && bytes.ends_with(behind_)) {
    const std::string_view text =
        bytes.substr(before_.size(), bytes.size() - before_.size() - behind_.size());
    if (std::ranges::all_of(text, plain))
      return {
          .bytes = bytes, .kind = Kind::token, .choices = true, .choice = choice_, .text = text};
  }
  StreamEvent event = read_event(bytes);
  if (event.text.data() != nullptr && !event.usage) {
    const auto from = static_cast<std::size_t>(event.text.data() - bytes.data());
    before_ = bytes.substr(0, from);
    behind_ = bytes.substr(from + event.text.size());
    choice_ = event.choice;
  }
  return event;
}

std::string error_event(std::string_view why, std::string_view code) {
  std::string text = R"(data: {"error":{"message":)";
  append_json_string(text, why);
  text += R"(,"type":"server_error","param":null,"code":")";
  text += code;
  return text + "\"}}\n\n";
}

WholeAnswer read_answer(std::string_view json) {
  JsonScan scan(json);
  std::optional<TokenUsage> usage;
  bool error = false;
  scan.object([&](std::string_view key) {
    if (key == "usage")
      usage = read_usage(scan);
    else if (key == "error")
      error = says_something(scan.skip());
    else
      scan.skip();
  });
  scan.end();
  if (!scan.ok()) return {};
  return {.good = !error, .usage = usage};
}

std::string message_of_error(std::string_view body) {
  std::string message;
  const auto read = [&](JsonScan& scan) {
    if (scan.peek() == '"')
      message = scan.string();
    else
      scan.skip();
  };
  JsonScan scan(body);
  if (scan.peek() == '{')
    scan.object([&](std::string_view key) {
      if (key == "error" && scan.peek() == '{')
        scan.object(
            [&](std::string_view part) { part == "message" ? read(scan) : (void)scan.skip(); });
      else if (key == "error" || key == "message" || key == "detail")
        read(scan);
      else
        scan.skip();
    });
  return scan.ok() && !message.empty() ? message : std::string(body);
}

}  // namespace partita::serve
