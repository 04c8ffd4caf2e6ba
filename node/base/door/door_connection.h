// One client's HTTP/1.1 connection: requests one after the other, each an Exchange. An idle one
// holds no buffer. Bodies go from the socket to where the exchange wants them. A client that begins
// with the preface of HTTP/2 has that (http2_connection.h).
//
// The owner calls expire() after deadline(), and destroys the connection once dead() is true, but
// not from inside of on_change.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/door/desk.h"
#include "base/door/exchange.h"
#include "base/door/http2_connection.h"
#include "base/door/inlet.h"
#include "base/door/loop.h"
#include "base/door/outlet.h"
#include "base/door/transport.h"

namespace partita::serve {

class DoorConnection {
 public:
  DoorConnection(Desk& desk, int fd, const TlsServer* tls, Peer peer);
  ~DoorConnection();
  void start(Loop& loop);  // the descriptor is watched from now on
  void ready(Readiness readiness);
  void expire();
  void close();
  bool dead() const { return stage_ == Stage::dead; }
  bool idle() const {
    if (http2_ != nullptr) return http2_->idle();
    return stage_ == Stage::head && exchange_ == nullptr && !inlet_.holds_buffer();
  }
  std::int64_t deadline() const { return http2_ == nullptr ? deadline_ : http2_->deadline(); }
  // No request is under way, but perhaps the head of one: it may be closed where room is short.
  bool spare() const {
    return http2_ == nullptr ? stage_ == Stage::head && exchange_ == nullptr : http2_->idle();
  }
  bool asked() const { return http2_ == nullptr ? asked_ : http2_->asked(); }  // had a request

  std::function<void()> on_change = {};  // idle(), dead() or the deadline may be other than before

 private:
  enum class Stage : std::uint8_t {
    head,
    text,
    tensors,
    backend,
    stream,
    write,
    drain,
    linger,
    http2,
    dead
  };

  void advance();
  bool listens();
  bool step();
  bool step_head();
  bool step_text();
  bool step_tensors();
  bool step_waiting();
  bool step_write();
  bool step_drop();
  void begin_http2();
  void follow_http2();
  void begin_exchange(std::size_t head_bytes);
  void apply(Step next);
  void begin_reply();
  void end_exchange();
  void refuse(int status, std::string_view what);
  void continue_wanted();
  void body_came();
  void log(int status);

  Desk& desk_;
  Transport transport_;
  Inlet inlet_;
  Outlet outlet_;
  Backlog backlog_;  // of a stream
  Loop::Watch watch_ = {};
  Peer peer_;
  Loop* loop_ = nullptr;
  std::unique_ptr<Http2Connection> http2_ = {};  // null: HTTP/1.1
  std::shared_ptr<bool> lives_ = {};             // for what is posted
  std::shared_ptr<Exchange> exchange_ = {};
  std::size_t scanned_ = 0, text_have_ = 0, scatter_at_ = 0;
  std::size_t longest_piece_ = 0;  // of the stream
  std::int64_t body_began_ns_ = 0;
  std::int64_t deadline_ = 0, began_ns_ = 0, began_unix_ns_ = 0;
  Stage stage_ = Stage::head;
  bool advancing_ = false, head_begun_ = false, probed_ = false, asked_ = false;
  bool keep_alive_ = true, http10_ = false, expects_continue_ = false, stream_head_sent_ = false;
  bool asked_if_there_ = false;  // whose input has ended
  std::size_t head_sent_ = 0;    // letters of the answer's head, for that
};

}  // namespace partita::serve
