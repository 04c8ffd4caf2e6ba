// Forwarder: accepts connections and passes their bytes on to others, for tunnels and recordings.
// Not part of the client's libraries. Limit: kMostForwarded connections at a time; more are closed.
// Thread rule: made and destroyed by one thread; has one thread of its own and two per connection.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "wire/net/channel.h"

namespace partita::remote {

inline constexpr std::size_t kMostForwarded = 1024;

struct ForwardedPair {
  std::unique_ptr<Channel> from, to;
};

class Forwarder {
 public:
  // The other side of an accepted connection, whose own channel it takes (and may wrap). Called by
  // the connection's thread; an Error closes the connection and is kept for trouble().
  using Join = std::function<Result<ForwardedPair>(Listener::Accepted& accepted)>;

  Forwarder(std::unique_ptr<Listener> listener, Join join);
  // Ends all connections.
  ~Forwarder();
  Forwarder(const Forwarder&) = delete;
  Forwarder& operator=(const Forwarder&) = delete;

  std::string address() const;
  // The last reason why a connection could not be carried; empty: none.
  std::string trouble() const;
  // Waits until all connections have ended by themselves, at most so long; true when they have.
  bool wait_for_ends(Nanos patience) const;
  // Accepts no more and ends all connections; the bytes that were on their way are lost.
  void end();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace partita::remote
