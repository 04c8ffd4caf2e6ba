// HttpAnswer: reads one answer of HTTP/1.x after another from the bytes of a connection, whatever
// pieces they come in. Bounded: kMaxAnswerHead of head, kMaxKeptBody of a body that is kept; others
// are counted and thrown away. Pure; single-threaded.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace partita::serve {

inline constexpr std::size_t kMaxAnswerHead = 65'536;
inline constexpr std::size_t kMaxKeptBody = 1u << 20;
inline constexpr std::size_t kMaxChunkLine = 1024;

class HttpAnswer {
 public:
  enum class State : std::uint8_t {
    head,    // of it, nothing or a part is there
    body,    // the head is read
    done,    // all of it is read
    broken,  // this is no HTTP, or above a limit; why() says it
  };

  // Ready for the next answer.
  void restart(bool keep_body);
  // Takes bytes until the answer is done; how many of them.
  std::size_t take(std::span<const char> bytes);
  // The connection has ended: done when that ends the body, else broken.
  void end();

  State state() const { return state_; }
  bool begun() const { return state_ != State::head || status_ != 0 || !line_.empty(); }
  int status() const { return status_; }
  bool keeps_alive() const { return keeps_alive_; }  // once the head is read
  const std::string& body() const { return body_; }  // where it is kept
  const char* why() const { return why_; }

 private:
  enum class Part : std::uint8_t { head, counted, until_end, size, chunk, after_chunk, trailer };

  std::size_t take_line(std::span<const char> bytes, std::size_t limit);
  std::size_t take_body(std::span<const char> bytes);
  void line_done(std::string_view line);
  void status_line(std::string_view line);
  void header_line(std::string_view line);
  void head_done();
  void size_line(std::string_view line);
  void broke(const char* why);

  State state_ = State::head;
  Part part_ = Part::head;
  std::string line_, body_;
  std::size_t head_bytes_ = 0;
  std::uint64_t left_ = 0;  // of the body or chunk
  int status_ = 0;
  bool keep_body_ = false, keeps_alive_ = true, chunked_ = false, counted_ = false;
  const char* why_ = "";
};

}  // namespace partita::serve
