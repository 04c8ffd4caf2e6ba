// HttpResponse: reads one response of HTTP/1.x after another from the bytes of a connection,
// whatever pieces they come in. Bounded: kMaxResponseHead of head, and as much of a body as its
// owner allows; a body that nobody wants is counted and thrown away. Pure; single-threaded.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace partita::serve {

inline constexpr std::size_t kMaxResponseHead = 65'536;
inline constexpr std::size_t kMaxChunkLine = 1024;

class HttpResponse {
 public:
  enum class State : std::uint8_t {
    head,    // of it, nothing or a part is there
    body,    // the head is read
    done,    // all of it is read
    broken,  // this is no HTTP, or above a limit; why() says it
  };

  // Keeps bodies, and breaks at one above `max_body`; what take_body() took away counts, too.
  explicit HttpResponse(std::uint64_t max_body) : max_body_(max_body), keep_body_(true) {}
  // Counts bodies and throws them away.
  HttpResponse() = default;

  // Ready for the next response.
  void restart();
  // Takes bytes until the response is done; how many of them.
  std::size_t take(std::span<const char> bytes);
  // The connection has ended: done when that ends the body, else broken.
  void end();

  State state() const { return state_; }
  bool begun() const { return state_ != State::head || status_ != 0 || !line_.empty(); }
  bool head_done() const { return state_ == State::body || state_ == State::done; }
  bool done() const { return state_ == State::done; }
  int status() const { return status_; }
  // The value of a header, whatever its case; empty where there is none.
  std::string_view header(std::string_view name) const;
  bool keeps_alive() const { return keeps_alive_; }  // once the head is read
  const std::string& body() const { return body_; }  // where it is kept
  std::string take_body() { return std::exchange(body_, {}); }
  void drop_body() { body_.clear(); }  // as take_body(), for who has seen it
  const char* why() const { return why_; }

 private:
  enum class Part : std::uint8_t { head, counted, until_end, size, chunk, after_chunk, trailer };

  std::size_t take_line(std::span<const char> bytes, std::size_t limit);
  std::size_t take_chunk(std::span<const char> bytes);
  std::size_t take_body(std::span<const char> bytes);
  void line_done(std::string_view line);
  void status_line(std::string_view line);
  void header_line(std::string_view line);
  void head_ended();
  void size_line(std::string_view line);
  void broke(const char* why);

  State state_ = State::head;
  Part part_ = Part::head;
  std::string line_, headers_, body_;  // headers_: lines, where bodies are kept
  std::size_t head_bytes_ = 0;
  std::uint64_t max_body_ = 0, seen_ = 0;
  std::uint64_t left_ = 0;  // of the body or chunk
  int status_ = 0;
  bool keep_body_ = false, keeps_alive_ = true, chunked_ = false, counted_ = false;
  const char* why_ = "";
};

}  // namespace partita::serve
