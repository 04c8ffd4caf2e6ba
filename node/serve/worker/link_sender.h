// LinkSender: one connection to the gateway that several threads send frames on: the loop, its
// beats, the streams of an openai model. Frames go out whole (SOCK_SEQPACKET), a full socket is
// waited for. Shared; the connection is closed with its last holder.
#pragma once

#include <atomic>
#include <string_view>

#include "serve/link/connection.h"
#include "serve/wire/frames.h"

namespace partita::serve {

class LinkSender {
 public:
  explicit LinkSender(Connection connection) : connection_(std::move(connection)) {}

  // Any thread. False: the gateway is gone, or has read nothing for kSendLimit.
  bool send(std::string_view frame);
  bool send(const Frame& frame) { return send(encode(frame)); }
  // One attempt, for beats: a full socket drops it.
  void try_send(std::string_view frame);

  Connection& connection() { return connection_; }  // for the one thread that receives

 private:
  Connection connection_;
  std::atomic<bool> broken_ = false;
};

inline constexpr int kSendLimitMs = 10'000;

}  // namespace partita::serve
