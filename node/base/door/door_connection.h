// One client's HTTP/1.1 connection: requests one after the other, each an Exchange. An idle one
// holds no buffer. Bodies go from the socket to where the exchange wants them.
//
// The owner calls expire() after deadline(), and destroys the connection once dead() is true, but
// not from inside of on_change.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/door/access_log.h"
#include "base/door/chunked_body.h"
#include "base/door/exchange.h"
#include "base/door/loop.h"
#include "base/door/transport.h"

namespace partita::serve {

struct HeadBuffer {
  std::array<char, kMaxHeadBytes> bytes;
  std::size_t begin = 0, end = 0;
};

// What connections of a door share.
struct Desk {
  Site& site;
  const DoorLimits& limits;
  DoorCounts& counts;
  AccessLog* log = nullptr;
  bool closing = false;   // answers say so and end their connections
  std::string date = {};  // "Date: ...", renewed every second
  std::vector<std::unique_ptr<HeadBuffer>> spare = {};

  std::unique_ptr<HeadBuffer> take_buffer();
  void give_buffer(std::unique_ptr<HeadBuffer> buffer);
};

class DoorConnection {
 public:
  DoorConnection(Desk& desk, int fd, const TlsServer* tls, Peer peer);
  ~DoorConnection();
  DoorConnection(const DoorConnection&) = delete;
  DoorConnection& operator=(const DoorConnection&) = delete;

  void start(Loop& loop);  // the descriptor is watched from now on
  void ready(Readiness readiness);
  void expire();
  void close_if_idle();
  bool dead() const { return stage_ == Stage::dead; }
  bool idle() const { return stage_ == Stage::head && exchange_ == nullptr && buffer_ == nullptr; }
  std::int64_t deadline() const { return deadline_; }
  // No request is under way, but perhaps the head of one: it may be closed where room is short.
  bool spare() const { return stage_ == Stage::head && exchange_ == nullptr; }
  bool asked() const { return asked_; }  // had a request
  void close() { die(); }

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
    dead
  };

  void advance();
  bool step();
  bool step_head();
  bool step_text();
  bool step_tensors();
  bool step_waiting();
  bool watch_client();
  bool step_stream();
  bool step_write();
  bool step_discard();
  void begin_exchange(std::size_t head_bytes);
  void apply(Step next);
  void begin_reply();
  std::string reply_head(const Reply& reply, bool with_length);
  void end_exchange();
  void log(int status);
  void die();
  // Reads; false when nothing came, and then the connection waits, or is dead.
  bool fill(std::span<const iovec> into, std::size_t& got);
  bool fill_buffer();
  bool fill_body(std::span<const iovec> into, std::size_t& got);
  bool body_ended() const { return incoming_ ? incoming_->ended() : body_left_ == 0; }
  bool body_refused();
  void refuse_body(int status, std::string_view what);
  void body_came(std::size_t bytes);
  std::size_t take_buffered(std::span<char> into);
  std::string_view buffered() const;
  void body_deadline(std::uint64_t bytes);
  void continue_wanted();
  void want();

  Desk& desk_;
  Transport transport_;
  Loop::Watch watch_ = {};
  Peer peer_;
  std::unique_ptr<HeadBuffer> buffer_ = {};
  std::shared_ptr<Exchange> exchange_ = {};
  std::vector<iovec> out_ = {};
  std::string out_text_ = {};
  std::size_t out_at_ = 0;  // first of out_ that is not written
  std::size_t scanned_ = 0, text_have_ = 0, scatter_at_ = 0;
  std::optional<ChunkedBody> incoming_ = {};
  std::uint64_t body_left_ = 0;  // of the request's body, not read yet; of a chunked one: too much
  std::uint64_t body_in_ = 0;    // and what has come of it
  std::int64_t body_began_ns_ = 0;
  std::uint64_t bytes_out_ = 0, discarded_ = 0;
  std::int64_t deadline_ = 0, began_ns_ = 0, began_unix_ns_ = 0;
  Stage stage_ = Stage::head;
  bool readable_ = false, advancing_ = false, head_begun_ = false, probed_ = false;
  bool asked_ = false;
  bool keep_alive_ = true, http10_ = false, expects_continue_ = false, chunked_ = false;
  bool stream_head_sent_ = false;
  bool write_blocked_ = false, read_paused_ = false, read_wants_write_ = false;
};

}  // namespace partita::serve
