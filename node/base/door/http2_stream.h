// Http2Stream: one request over HTTP/2: its head as it is told, its body on the way into its
// Exchange, its answer on the way out. Of frames it knows nothing (http2_connection.h); whoever
// owns it looks at stage() after each call. Loop thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/door/desk.h"
#include "base/door/exchange.h"
#include "base/door/http_head.h"

namespace partita::serve {

class Http2Stream {
 public:
  enum class Stage : std::uint8_t {
    head,
    text,
    tensors,
    backend,
    stream,  // its answer comes in pieces
    answer   // its answer is there
  };

  explicit Http2Stream(Desk& desk);
  ~Http2Stream();
  Http2Stream(const Http2Stream&) = delete;
  Http2Stream& operator=(const Http2Stream&) = delete;

  Stage stage() const { return stage_; }
  std::int64_t deadline() const { return deadline_; }
  Exchange* exchange() const { return exchange_.get(); }  // null: its head is not there
  AnswerFacts facts() const {
    return {.status = exchange_->status(),
            .began_ns = began_ns_,
            .began_unix_ns = began_unix_ns_,
            .bytes_in = came_,
            .bytes_out = bytes_out};
  }

  // ---- what comes in
  // As HTTP/2 counts it: with 32 bytes for each. Beyond kMaxHeadBytes nothing is kept of it.
  std::size_t header(std::string_view name, std::string_view value);
  // The head is there; `body`: one follows. `wake`: what its exchange waited for has come.
  void begin(const Peer& peer, bool body, std::function<void()> wake);
  bool expects_continue() const { return expects_continue_; }
  void asked_to_continue() { expects_continue_ = false; }
  void body(std::string_view bytes);
  void body_end();
  bool body_ended() const { return body_ended_; }
  // Its exchange has something new.
  void awake();
  // Its deadline has passed while its body came.
  void too_slow() { refuse(408, "the request's body took too long"); }

  // ---- what goes out: behind the stages stream and answer
  bool streams() const { return exchange_->stream_begun; }
  bool broken() const { return exchange_->stream_broken; }
  // Whether there is something to be read() now, or its end.
  bool has_more() const { return ended_ || taken_ < waiting_.size(); }
  std::size_t waiting() const { return stage_ == Stage::stream ? waiting_.size() - taken_ : 0; }
  std::uint64_t length() const;  // of an answer
  void break_off();              // a stream, of which nothing waits any more then
  // The next bytes of its answer; `at_end`: nothing follows.
  std::size_t read(std::span<char> into, bool& at_end);
  // What was read has gone to the kernel: the stream's deadline, and what its exchange is told.
  void sent();

  bool submitted = false, deferred = false;  // its answer, by the connection
  bool whole = false;                        // its end has gone out
  std::uint64_t bytes_out = 0;
  std::size_t longest_piece = 0;

 private:
  void apply(Step next);
  void refuse(int status, std::string_view what);
  std::size_t into_text(std::string_view bytes);
  std::size_t into_scatter(std::string_view bytes);
  void text_whole();

  Desk& desk_;
  Backlog backlog_;
  std::shared_ptr<Exchange> exchange_ = {};
  struct Field {
    std::size_t begin, name, value;
  };
  std::string head_ = {};
  std::vector<Field> fields_ = {};
  std::size_t head_bytes_ = 0, text_have_ = 0, scatter_at_ = 0;
  std::uint64_t came_ = 0;
  std::int64_t deadline_ = 0, began_ns_ = 0, began_unix_ns_ = 0;
  std::string waiting_ = {};  // of a stream, not read before taken_
  std::size_t taken_ = 0, span_at_ = 0, span_taken_ = 0;
  Stage stage_ = Stage::head;
  bool probed_ = false, body_ended_ = false, expects_continue_ = false;
  bool ended_ = false;  // nothing comes to waiting_ any more
};

}  // namespace partita::serve
