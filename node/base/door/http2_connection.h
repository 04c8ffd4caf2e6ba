// Http2Connection: one client's connection over HTTP/2 (RFC 9113) behind its preface: requests side
// by side, each an Exchange as over HTTP/1.1. Frames, header compression and flow control are
// nghttp2's, which only this source includes. What a client may make it hold or do is bounded:
// DoorLimits, and docs/serving.md. Loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/door/desk.h"
#include "base/door/http2_stream.h"
#include "base/door/loop.h"
#include "base/door/transport.h"

struct nghttp2_session;

namespace partita::serve {

// A client that speaks it begins so.
inline constexpr std::string_view kHttp2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// A number of things a client may do at once, and per second.
class Allowance {
 public:
  bool take(std::size_t most, std::size_t per_second);

 private:
  double left_ = 0;
  std::int64_t at_ns_ = 0;
};

class Http2Connection {
 public:
  struct Later {
    std::function<void()> soon;     // call advance(), but not from inside of this
    std::function<void()> changed;  // it went on although its owner has not called it
  };
  // All outlive it.
  Http2Connection(Desk& desk, Transport& transport, Peer& peer, Later later);
  ~Http2Connection();
  Http2Connection(const Http2Connection&) = delete;
  Http2Connection& operator=(const Http2Connection&) = delete;

  // `first`: what was read, from the preface on.
  void start(std::string_view first);
  void ready(Readiness readiness);
  void advance();  // does what can be done now, but for what fills more than some blocks
  void expire();
  void close();  // its clients' requests have no answer
  void leave();  // tells an idle client, as far as that can be done now
  bool dead() const { return dead_; }
  bool idle() const { return streams_.empty() && head_of_ == 0 && out_.empty(); }
  bool asked() const { return asked_; }
  std::int64_t deadline() const;
  bool reads() const { return !blocked_; }
  bool writes() const { return blocked_ || wants_write_; }

 private:
  struct Calls;  // nghttp2's, in the source
  friend struct Calls;
  std::int64_t out_by() const {
    return moved_by(desk_.limits, out_since_, out_moved_ + out_.size());
  }
  void serve_woken();
  void wake(std::int32_t id);
  bool receive();
  void take(std::string_view bytes);
  int flood();
  void send();
  void write(std::string_view bytes);
  void settle(std::int32_t id, Http2Stream& stream);
  void submit_head(std::int32_t id, Http2Stream& stream);
  bool begin_stream(std::int32_t id);
  int end_stream(std::int32_t id);
  void abandon(const Http2Stream& stream);
  Http2Stream* find(std::int32_t id);

  Desk& desk_;
  Transport& transport_;
  Peer& peer_;
  const Later later_;
  nghttp2_session* session_ = nullptr;
  std::map<std::int32_t, std::unique_ptr<Http2Stream>> streams_ = {};
  std::map<std::string, Desk::OfHost>::iterator of_host_;
  std::vector<std::int32_t> woken_ = {};
  std::string out_ = {};  // what the kernel did not take
  Allowance resets_ = {}, idle_frames_ = {};
  std::int32_t head_of_ = 0;  // the stream whose head is on its way; 0: none
  std::int64_t head_by_ = 0, idle_by_ = 0;
  std::int64_t out_since_ = 0;   // it is behind with what it fetches; 0: it is not
  std::uint64_t out_moved_ = 0;  // since then
  bool readable_ = true, blocked_ = false, wants_write_ = false;
  bool advancing_ = false, dead_ = false, asked_ = false;
  bool said_goodbye_ = false, flooded_ = false;
};

}  // namespace partita::serve
