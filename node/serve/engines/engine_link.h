// EngineLink: one request to an engine and its answer, without waiting, on a connection that is
// kept for the next one. Loop thread only. A kept connection that turns out to be closed before
// any answer is opened anew, once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/door/loop.h"
#include "base/http/http_response.h"
#include "base/http/http_stream.h"

namespace partita::serve {

inline constexpr std::uint64_t kMostEngineAnswer = 1u << 30;  // bytes of an answer, streams too
inline constexpr std::size_t kMostKeptLines = 256;            // connections of an engine

// The connections of an engine.
struct EngineLines {
  Loop& loop;
  HttpDialer dialer;
  std::vector<HttpStream> kept = {};
};

class EngineLink {
 public:
  struct Ends {
    // More of the answer is there: its head, and what take_body() gives.
    std::function<void(HttpResponse&)> more;
    // Called once, last: why not all of the answer came; empty: all did.
    std::function<void(std::string_view why)> ended;
  };
  // Neither may destroy the link; both may close it. `lines` outlives it; head and body go as they
  // are.
  EngineLink(EngineLines& lines, std::string head, std::shared_ptr<const std::string> body,
             Ends ends);
  ~EngineLink();
  EngineLink(const EngineLink&) = delete;
  EngineLink& operator=(const EngineLink&) = delete;
  // May call `ended`. With `fresh` it is sent once at most, on a connection of its own.
  void start(bool fresh = false);
  bool sent() const { return sent_ > 0; }  // some of it
  int lost_with_it() const { return lost_; }  // connections that broke once some of it was sent
  void close();  // nothing is called any more; an engine that answers sees that the client has gone

 private:
  void open(bool fresh);
  bool take_kept();
  void ready();
  bool write();
  bool read();
  void lost(std::string_view why);
  void end(std::string_view why);

  EngineLines& lines_;
  std::string head_;
  std::shared_ptr<const std::string> body_;
  Ends ends_;
  HttpStream stream_ = {};
  Loop::Watch watch_ = {};  // ends before the stream
  HttpResponse answer_{kMostEngineAnswer};
  std::size_t sent_ = 0;
  int lost_ = 0;
  bool reused_ = false, wants_write_ = false, came_ = false, closed_ = false;
};

}  // namespace partita::serve
