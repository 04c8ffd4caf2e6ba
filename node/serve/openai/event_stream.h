// Server-sent events of OpenAI's streamed answers: whole events out of the pieces in which they
// come, and what each says. Events are passed on byte by byte as they are; nothing is rewritten.
// Limit: kMostEventBytes of one event. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace partita::serve {

inline constexpr std::size_t kMostEventBytes = 8u << 20;

struct TokenUsage {
  std::int64_t prompt = 0, completion = 0;
  std::int64_t cached = 0;  // of the prompt's
  bool operator==(const TokenUsage&) const = default;
};

struct StreamEvent {
  enum class Kind : std::uint8_t {
    other,  // a role, a finish reason, a comment
    token,  // some of the answer: text, reasoning, a call of a tool
    usage,  // how many tokens there were, and no choice
    error,
    done,  // "[DONE]"
  };
  std::string_view bytes = {};  // with the empty line behind it
  Kind kind = Kind::other;
  std::optional<TokenUsage> usage = {};
  bool choices = false;  // it has some, with a token or without
  int choice = 0;  // whose token it is; -1: of several
  // Of a token that is one string: what is between its quotes, in `bytes`; null data: it is not.
  std::string_view text = {};
};

// What a whole event says. What is no JSON of that form is `other`.
StreamEvent read_event(std::string_view bytes);

// The event that ends a stream in its middle: why, and a word for programs.
std::string error_event(std::string_view why, std::string_view code);

// Behind the first empty line at or after `from`; npos: there is none yet.
std::size_t end_of_event(std::string_view text, std::size_t from);

// An answer that is no stream. `good`: it is an object of JSON, and no error.
struct WholeAnswer {
  bool good = false;
  std::optional<TokenUsage> usage = {};  // nothing when it says none
};
WholeAnswer read_answer(std::string_view json);

// What an answer that is an error says, as OpenAI's form or FastAPI's has it; else its text.
std::string message_of_error(std::string_view body);

class EventStream {
 public:
  // Calls event(StreamEvent) on each event that ends in these bytes; its bytes live for the call.
  // False when one is longer than kMostEventBytes.
  template <class F>
  bool take(std::string_view bytes, F&& event);
  bool inside() const { return !rest_.empty(); }  // of an event, a part is there

 private:
  StreamEvent read(std::string_view bytes);

  std::string rest_ = {};
  // The last token's event around its text: one that differs in the text alone says the same, and
  // nearly all of a stream do.
  std::string before_ = {}, behind_ = {};
  int choice_ = 0;  // of that event
};

template <class F>
bool EventStream::take(std::string_view bytes, F&& event) {
  std::string joined;
  std::size_t from = 0;
  if (!rest_.empty()) {
    from = rest_.size() - (rest_.size() > 2 ? 2 : rest_.size());  // of a line end that is cut
    joined = std::move(rest_);
    joined += bytes;
    bytes = joined;
  }
  for (std::size_t end; (end = end_of_event(bytes, from)) != std::string_view::npos; from = 0) {
    event(read(bytes.substr(0, end)));
    bytes.remove_prefix(end);
  }
  rest_ = bytes;
  return rest_.size() <= kMostEventBytes;
}

}  // namespace partita::serve
