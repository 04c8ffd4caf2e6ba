// PeerPool: the gateways of a fleet's other nodes. Which of them gets the next request of a service
// is said by the plan's shares, in turn, so that any run of requests is divided by them; left out
// is who does not answer, who has just said that it is full, and who has as much of ours as it may.
// A peer is found dead by connections that fail, by requests that get no connection and, while it
// has some of ours, by silence; it gets nothing until it has answered a question of the pool's own,
// so no request is spent on trying. Loop thread only; names are looked up on a thread of its own.
// Limits: below.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "act/gateway_peers.h"
#include "base/door/loop.h"
#include "serve/engines/engine_link.h"

namespace partita::serve {

inline constexpr int kMostPeerTries = 3;  // nodes that a request is offered to
// Requests of ours at once, and bytes of their bodies. One sender of requests of one service may
// have as many as it leaves free: half of them, where nobody else has any.
inline constexpr std::size_t kMostAtPeer = 512, kMostBytesAtPeer = 128u << 20;
inline constexpr std::int64_t kConnectPatience = 1'000'000'000;
inline constexpr std::int64_t kPeerSilent = 3'000'000'000;   // with requests of ours: it is dead
inline constexpr std::int64_t kLongestFull = 1'000'000'000;  // then it is asked again
// The name that certificates of gateways have, wherever they run.
inline constexpr const char* kPeerName = "partita";
// What one gateway says to another: who hands it over, whether that one counts it where it is
// handed back, and for whom it asks; back: nothing of it was run. HTTP headers, gRPC metadata.
inline constexpr const char* kHandedOver = "partita-handed-over";
inline constexpr const char* kHandedFor = "partita-handed-for";
inline constexpr const char* kHandedBack = "partita-handed-back";
inline constexpr const char* kCounted = "; counted";
// Why it was handed back: no room for a while, or no such service, or no worker of it.
inline constexpr std::string_view kBackFull = "full", kBackAbsent = "not here";

struct PeerOptions {
  std::string token = {};    // that the gateways of the fleet share
  bool tls = false;          // they speak it
  std::string ca_file = {};  // who signed their certificates; empty: whom the system trusts
};

struct HandedBy {
  std::string node;
  bool counted = false;  // there, where it is handed back
};

class PeerUse;

struct PeerGateway {
  std::string node = {}, http = {}, grpc = {};
  std::unique_ptr<EngineLines> lines = {};  // null: no HTTP
  std::set<PeerUse*> uses = {};
  std::size_t bytes = 0;
  struct Part {
    std::size_t uses = 0, bytes = 0;
  };
  std::map<std::pair<std::string, std::string>, Part> parts = {};  // by service and sender
  int failures = 0;                                                // since it answered last
  // 0: it gets requests. Else it does not, and is asked from then on whether it answers.
  std::int64_t shut_until = 0;
  std::int64_t heard = 0;  // by Loop::awake_ns, as probe_began
  std::int64_t wanted = 0;
  std::map<std::string, std::int64_t, std::less<>> full_until = {};  // by service
  std::unique_ptr<EngineLink> probe = {};
  std::int64_t probe_began = 0;
};

class PeerPool {
 public:
  PeerPool(Loop& loop, PeerOptions options, std::function<void(const std::string&)> say);
  ~PeerPool();
  PeerPool(const PeerPool&) = delete;
  PeerPool& operator=(const PeerPool&) = delete;

  // These from now on, once their names are looked up. Requests that are under way stay.
  void serve(const actuate::GatewayPeers& peers);

  // Whether the fleet wants a service or a model of this name, whatever its version or bucket.
  bool wants(std::string_view name) const;
  enum class Way : std::uint8_t { http, grpc };
  // What others carry under this name of a service or a model, whatever its version or bucket;
  // empty: nobody carries it.
  std::string carried_as(std::string_view name) const;
  // Who may be offered it now, but for those that were. `sender`: whose it is, a key or an address.
  std::size_t offers(std::string_view service, Way way, const std::vector<std::string>& tried,
                     std::string_view sender = {}) const;
  // The next of them by their shares; null: nobody. A request of so many bytes is there until the
  // use ends.
  std::unique_ptr<PeerUse> take(std::string_view service, Way way,
                                const std::vector<std::string>& tried, std::size_t bytes,
                                std::string_view sender = {});
  // Whether somebody who carries it answers, and nobody has a place for it now.
  bool full(std::string_view service, Way way, std::string_view sender) const;

  const PeerOptions& options() const { return options_; }
  const std::string& node() const { return node_; }
  Loop& loop() { return loop_; }
  // By a header kHandedOver and what it came with; nothing: that is not the token which gateways of
  // this fleet show.
  std::optional<HandedBy> handed_by(std::string_view header, std::string_view authorization) const;
  void bury(std::shared_ptr<void> what);  // ends it, but not from inside of its own calls

  // ---- what is counted
  // Refused at this door: nobody: no node carries it now; full: those that do have no place for it.
  enum class Fate : std::uint8_t { answered, back, lost, nobody, full };
  void count_out(std::string_view service, Fate fate);
  void count_in(std::string_view service);
  // An inference under this name that no node counts: none of them carries it that answers.
  void count_uncarried(std::string_view name);
  // How many there were, by service as the fleet wants it.
  const std::map<std::string, long>& uncarried() const { return uncarried_; }
  std::string metrics() const;

 private:
  friend class PeerUse;
  struct Offer {
    std::shared_ptr<PeerGateway> peer;
    double share = 0, turn = 0;
  };
  enum class State : std::uint8_t { open, full, shut };
  struct Wish {
    std::string_view service, sender;
    std::size_t bytes = 0;
  };
  static State state(const PeerGateway& peer, Way way, const Wish& wish);
  std::string wanted_as(std::string_view name) const;
  void look_up(const std::stop_token& stop, std::vector<actuate::GatewayPeer> fresh);
  void rebuild();
  void failed(PeerGateway& peer);
  void answered(PeerGateway& peer);
  void dead(PeerGateway& peer, std::string_view why);
  void ask(PeerGateway& peer, std::int64_t now, std::int64_t awake);
  void tick(std::int64_t now);

  Loop& loop_;
  const PeerOptions options_;
  const std::function<void(const std::string&)> say_;
  std::string node_;
  actuate::GatewayPeers wanted_;
  std::map<std::string, std::shared_ptr<PeerGateway>> peers_;  // by node
  std::map<std::string, std::vector<Offer>, std::less<>> services_;
  struct Counts {
    std::uint64_t fates[5] = {}, in = 0;
  };
  std::map<std::string, Counts, std::less<>> counts_;
  std::map<std::string, long> uncarried_;  // of those that are wanted
  std::vector<std::shared_ptr<void>> buried_;
  Loop::Timer timer_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::jthread looking_up_;
  bool looks_up_ = false;
  std::int64_t look_up_at_ = 0;  // again, those whose names were not known; 0: there are none
};

// A request of ours at a peer. Ending it gives its place back.
class PeerUse {
 public:
  PeerUse(PeerPool& pool, std::shared_ptr<PeerGateway> peer, std::string service,
          std::string sender, std::size_t bytes);
  ~PeerUse();
  PeerUse(const PeerUse&) = delete;
  PeerUse& operator=(const PeerUse&) = delete;

  PeerGateway& peer() { return *peer_; }
  void heard();   // something came of it
  void failed();  // its connection did
  void full(std::int64_t retry_after_ns);
  // Called once at most, when the peer is dead or gives no connection; may end the use.
  std::function<void(std::string_view why)> lost = {};
  std::function<bool()> connected = {};  // some of it is sent; until then there is a patience

 private:
  friend class PeerPool;
  PeerPool& pool_;
  const std::shared_ptr<PeerGateway> peer_;
  const std::string service_, sender_;
  const std::size_t bytes_;
  const std::int64_t began_;  // by Loop::awake_ns
};

}  // namespace partita::serve
