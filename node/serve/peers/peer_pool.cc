#include "serve/peers/peer_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/append.h"
#include "base/door/constant_time.h"

namespace partita::serve {
namespace {

constexpr std::int64_t kTick = 100'000'000;
constexpr std::int64_t kProbeAgain = 500'000'000, kProbeLate = 1'500'000'000;
constexpr std::int64_t kShutFirst = 250'000'000, kShutMost = 2'000'000'000;
constexpr int kFailuresShut = 2;                      // one after the other
constexpr std::int64_t kStillWanted = 5'000'000'000;  // who was, so lately, is asked how it is
constexpr std::int64_t kLookUpAgain = 10'000'000'000;
constexpr std::size_t kMostNodeName = 256;
constexpr const char* kProbePath = "/v2/health/live";

Url url_of(const std::string& address, bool tls) {
  auto url = parse_url("peer", (tls ? "https://" : "http://") + address);
  return url ? *std::move(url) : Url{};  // parse_peers() has looked at it
}

// The one that is called so, or a version or a bucket of it; empty: there is none. `from` finds the
// first name in order that is not before a text; null: there is none.
std::string named_as(std::string_view name, const auto& from) {
  for (const char* mark : {"", "@", "~"}) {
    const std::string begin = std::string(name) + mark;
    const std::string* first = from(begin);
    if (first != nullptr && (*mark == 0 ? *first == begin : first->starts_with(begin)))
      return *first;
  }
  return {};
}

}  // namespace

PeerPool::PeerPool(Loop& loop, PeerOptions options, std::function<void(const std::string&)> say)
    : loop_(loop),
      options_(std::move(options)),
      say_(std::move(say)),
      timer_(loop, [this](auto) { tick(Loop::now_ns()); }) {}

PeerPool::~PeerPool() = default;

std::optional<HandedBy> PeerPool::handed_by(std::string_view header,
                                            std::string_view authorization) const {
  const std::string_view shown = bearer_of(authorization);
  if (shown.data() == nullptr || !equal_in_constant_time(options_.token, shown)) return {};
  const bool counted = header.ends_with(kCounted);
  if (counted) header.remove_suffix(std::string_view(kCounted).size());
  return HandedBy{std::string(header.substr(0, kMostNodeName)), counted};
}

// ---- who there is

void PeerPool::serve(const actuate::GatewayPeers& peers) {
  wanted_ = peers;
  node_ = peers.node;
  std::erase_if(peers_, [&](const auto& one) {
    const auto same = std::ranges::find(wanted_.peers, one.first, &actuate::GatewayPeer::node);
    return same == wanted_.peers.end() || same->http != one.second->http ||
           same->grpc != one.second->grpc;
  });
  rebuild();
  if (looks_up_) return;  // it looks again when it is back
  std::vector<actuate::GatewayPeer> fresh;
  for (const actuate::GatewayPeer& one : wanted_.peers)
    if (!peers_.contains(one.node)) fresh.push_back(one);
  if (fresh.empty()) return;
  looks_up_ = true;
  looking_up_ = std::jthread([this, fresh = std::move(fresh)](const std::stop_token& stop) mutable {
    look_up(stop, std::move(fresh));
  });
}

// On its own thread: a name may take long, and so may a file.
void PeerPool::look_up(const std::stop_token& stop, std::vector<actuate::GatewayPeer> fresh) {
  auto made = std::make_shared<std::vector<std::shared_ptr<PeerGateway>>>();
  auto faults = std::make_shared<std::vector<std::string>>();
  for (const actuate::GatewayPeer& one : fresh) {
    if (stop.stop_requested()) return;
    auto peer = std::make_shared<PeerGateway>(
        PeerGateway{.node = one.node, .http = one.http, .grpc = one.grpc});
    if (!one.http.empty()) {
      auto dialer = HttpDialer::to(url_of(one.http, options_.tls),
                                   {.ca_file = options_.ca_file, .name = kPeerName});
      if (!dialer) {
        faults->push_back(
            fmt::format("gateway of {} at {}: {}", one.node, one.http, to_string(dialer.error())));
        continue;
      }
      peer->lines = std::make_unique<EngineLines>(EngineLines{loop_, *std::move(dialer)});
    }
    made->push_back(std::move(peer));
  }
  loop_.post([this, made, faults, weak = std::weak_ptr(alive_)] {
    if (weak.expired()) return;
    looks_up_ = false;
    for (const std::string& fault : *faults) say_(fault);
    for (const std::shared_ptr<PeerGateway>& one : *made) {
      const auto still = std::ranges::find(wanted_.peers, one->node, &actuate::GatewayPeer::node);
      if (still != wanted_.peers.end() && still->http == one->http && still->grpc == one->grpc)
        peers_.try_emplace(one->node, one);
    }
    rebuild();
    const bool others = std::ranges::any_of(
        wanted_.peers, [&](const auto& one) { return !peers_.contains(one.node); });
    if (!others) return;
    if (faults->empty()) return serve(actuate::GatewayPeers(wanted_));
    look_up_at_ = Loop::now_ns() + kLookUpAgain;
    if (!timer_.pending()) timer_.at(look_up_at_);
  });
}

void PeerPool::rebuild() {
  std::map<std::string, std::vector<Offer>, std::less<>> before = std::exchange(services_, {});
  for (const actuate::GatewayPeer& one : wanted_.peers) {
    const auto peer = peers_.find(one.node);
    if (peer == peers_.end()) continue;
    for (const actuate::PeerShare& share : one.carries) {
      if (share.share <= 0) continue;
      Offer offer{.peer = peer->second, .share = share.share};
      for (const Offer& old : before[share.service])
        if (old.peer == offer.peer) offer.turn = old.turn;
      services_[share.service].push_back(std::move(offer));
    }
  }
}

std::string PeerPool::carried_as(std::string_view name) const {
  return named_as(name, [&](const std::string& text) {
    const auto first = services_.lower_bound(text);
    return first == services_.end() ? nullptr : &first->first;
  });
}

std::string PeerPool::wanted_as(std::string_view name) const {
  const std::vector<std::string>& all = wanted_.wanted;
  return named_as(name, [&](const std::string& text) {
    const auto first = std::ranges::lower_bound(all, text);
    return first == all.end() ? nullptr : &*first;
  });
}

bool PeerPool::wants(std::string_view name) const {
  return !wanted_as(name).empty() || !carried_as(name).empty();
}

// ---- whose turn it is

PeerPool::State PeerPool::state(const PeerGateway& peer, Way way, const Wish& wish) {
  if (way == Way::http ? peer.lines == nullptr : peer.grpc.empty()) return State::shut;
  if (peer.shut_until != 0) return State::shut;
  const std::size_t free = kMostAtPeer - std::min(peer.uses.size(), kMostAtPeer);
  const std::size_t free_bytes = kMostBytesAtPeer - std::min(peer.bytes, kMostBytesAtPeer);
  if (free == 0 || (!peer.uses.empty() && wish.bytes > free_bytes)) return State::full;
  const auto part = peer.parts.find({std::string(wish.service), std::string(wish.sender)});
  const bool more = part != peer.parts.end();
  if (more && part->second.uses >= free) return State::full;
  if (more && part->second.bytes + wish.bytes > free_bytes) return State::full;
  const auto said = peer.full_until.find(wish.service);
  const bool well = said == peer.full_until.end() || said->second <= Loop::now_ns();
  return well ? State::open : State::full;
}

std::size_t PeerPool::offers(std::string_view service, Way way,
                             const std::vector<std::string>& tried, std::string_view sender) const {
  const auto found = services_.find(service);
  if (found == services_.end()) return 0;
  return static_cast<std::size_t>(std::ranges::count_if(found->second, [&](const Offer& one) {
    return std::ranges::count(tried, one.peer->node) == 0 &&
           state(*one.peer, way, {service, sender}) == State::open;
  }));
}

bool PeerPool::full(std::string_view service, Way way, std::string_view sender) const {
  const auto found = services_.find(service);
  if (found == services_.end() || offers(service, way, {}, sender) > 0) return false;
  return std::ranges::any_of(found->second, [&](const Offer& one) {
    return state(*one.peer, way, {service, sender}) == State::full;
  });
}

// Each gains its share of a turn, who has most gets it and pays a whole one: any n requests are
// divided by the shares, but for less than one at each.
std::unique_ptr<PeerUse> PeerPool::take(std::string_view service, Way way,
                                        const std::vector<std::string>& tried, std::size_t bytes,
                                        std::string_view sender) {
  const auto found = services_.find(service);
  if (found == services_.end()) return nullptr;
  const std::int64_t now = Loop::now_ns();
  double all = 0;
  Offer* best = nullptr;
  for (Offer& one : found->second) {
    one.peer->wanted = now;
    if (std::ranges::count(tried, one.peer->node) > 0) continue;
    if (state(*one.peer, way, {service, sender, bytes}) != State::open) continue;
    one.turn += one.share;
    all += one.share;
    if (best == nullptr || one.turn > best->turn) best = &one;
  }
  if (!timer_.pending()) timer_.at(now + kTick);
  if (best == nullptr) return nullptr;
  best->turn -= all;
  if (best->peer->uses.empty()) best->peer->heard = loop_.awake_ns();
  return std::make_unique<PeerUse>(*this, best->peer, std::string(service), std::string(sender),
                                   bytes);
}

// ---- who is well

void PeerPool::answered(PeerGateway& peer) {
  peer.heard = loop_.awake_ns();
  peer.failures = 0;
  if (std::exchange(peer.shut_until, 0) != 0)
    say_("the gateway of " + peer.node + " answers again");
}

void PeerPool::failed(PeerGateway& peer) {
  if (++peer.failures < kFailuresShut) return;
  if (peer.shut_until == 0) say_("the gateway of " + peer.node + " does not answer");
  const int doubled = std::min(peer.failures - kFailuresShut, 8);
  peer.shut_until = Loop::now_ns() + std::min(kShutFirst << doubled, kShutMost);
  if (peer.lines) peer.lines->kept.clear();
}

// All that it has of ours is lost.
void PeerPool::dead(PeerGateway& peer, std::string_view why) {
  peer.failures = std::max(peer.failures, kFailuresShut - 1);
  failed(peer);
  const std::vector<PeerUse*> uses(peer.uses.begin(), peer.uses.end());
  for (PeerUse* use : uses)
    if (peer.uses.contains(use) && use->lost) std::exchange(use->lost, {})(why);
}

void PeerPool::ask(PeerGateway& peer, std::int64_t now, std::int64_t awake) {
  if (!peer.lines) {  // of gRPC alone: its next request tells
    if (peer.shut_until != 0 && now >= peer.shut_until) peer.shut_until = 0;
    return;
  }
  if (peer.probe != nullptr) {
    if (awake - peer.probe_began < kProbeLate) return;
    peer.probe->close();
    bury(std::move(peer.probe));
    return failed(peer);
  }
  const bool due = peer.shut_until != 0 ? now >= peer.shut_until
                                        : !peer.uses.empty() && awake - peer.heard >= kProbeAgain;
  if (!due) return;
  peer.probe_began = awake;
  const std::string head = request_head("GET", kProbePath, peer.http) + "\r\n";
  EngineLink::Ends ends{.more = [](HttpResponse&) {},
                        .ended =
                            [this, at = &peer](std::string_view why) {
                              bury(std::move(at->probe));
                              why.empty() ? answered(*at) : failed(*at);
                            }};
  peer.probe = std::make_unique<EngineLink>(*peer.lines, head, std::make_shared<std::string>(),
                                            std::move(ends));
  peer.probe->start();
}

void PeerPool::tick(std::int64_t now) {
  const std::int64_t awake = loop_.awake_ns();
  bool again = false;
  const auto peers = peers_;
  for (const auto& [node, peer] : peers) {
    bool waits_in_vain = false;
    const std::vector<PeerUse*> uses(peer->uses.begin(), peer->uses.end());
    for (PeerUse* use : uses) {
      if (!peer->uses.contains(use) || !use->lost || awake - use->began_ < kConnectPatience)
        continue;
      if (!use->connected || use->connected()) continue;
      if (!std::exchange(waits_in_vain, true)) failed(*peer);
      std::exchange(use->lost, {})("no connection in time");
    }
    if (!peer->uses.empty() && awake - peer->heard >= kPeerSilent)
      dead(*peer, "it does not answer any more");
    const bool wanted = !peer->uses.empty() || now - peer->wanted < kStillWanted;
    if (wanted) ask(*peer, now, awake);
    again = again || wanted;
  }
  if (look_up_at_ != 0 && now >= look_up_at_) {
    look_up_at_ = 0;
    serve(actuate::GatewayPeers(wanted_));
  }
  if (again)
    timer_.at(now + kTick);
  else if (look_up_at_ != 0)
    timer_.at(look_up_at_);
}

void PeerPool::bury(std::shared_ptr<void> what) {
  if (buried_.empty())
    loop_.post([this, weak = std::weak_ptr(alive_)] {
      if (!weak.expired()) std::exchange(buried_, {}).clear();
    });
  buried_.push_back(std::move(what));
}

// ---- a request at a peer

PeerUse::PeerUse(PeerPool& pool, std::shared_ptr<PeerGateway> peer, std::string service,
                 std::string sender, std::size_t bytes)
    : pool_(pool),
      peer_(std::move(peer)),
      service_(std::move(service)),
      sender_(std::move(sender)),
      bytes_(bytes),
      began_(pool_.loop().awake_ns()) {
  peer_->uses.insert(this);
  peer_->bytes += bytes_;
  PeerGateway::Part& part = peer_->parts[{service_, sender_}];
  ++part.uses;
  part.bytes += bytes_;
}

PeerUse::~PeerUse() {
  peer_->uses.erase(this);
  peer_->bytes -= bytes_;
  const auto part = peer_->parts.find({service_, sender_});
  part->second.bytes -= bytes_;
  if (--part->second.uses == 0) peer_->parts.erase(part);
}

void PeerUse::heard() { pool_.answered(*peer_); }
void PeerUse::failed() { pool_.failed(*peer_); }

void PeerUse::full(std::int64_t retry_after_ns) {
  peer_->full_until[service_] = Loop::now_ns() + std::min(retry_after_ns, kLongestFull);
}

// ---- what is counted

void PeerPool::count_out(std::string_view service, Fate fate) {
  ++counts_[std::string(service)].fates[static_cast<int>(fate)];
}
void PeerPool::count_in(std::string_view service) { ++counts_[std::string(service)].in; }

void PeerPool::count_uncarried(std::string_view name) {
  if (const std::string service = wanted_as(name); !service.empty()) ++uncarried_[service];
}

std::string PeerPool::metrics() const {
  static constexpr const char* kFates[] = {"answered", "handed_back", "lost", "nobody", "full"};
  std::string out =
      "# HELP partita_handed_over_total Requests that were offered to gateways of other nodes, or "
      "that no node carries.\n"
      "# TYPE partita_handed_over_total counter\n";
  for (const auto& [service, counts] : counts_)
    for (int i = 0; i < 5; ++i)
      if (counts.fates[i] > 0)
        out += fmt::format("partita_handed_over_total{{service=\"{}\",outcome=\"{}\"}} {}\n",
                           metric_label(service), kFates[i], counts.fates[i]);
  out +=
      "# HELP partita_handed_in_total Requests that gateways of other nodes handed over to here.\n"
      "# TYPE partita_handed_in_total counter\n";
  for (const auto& [service, counts] : counts_)
    if (counts.in > 0)
      out += fmt::format("partita_handed_in_total{{service=\"{}\"}} {}\n", metric_label(service),
                         counts.in);
  out +=
      "# HELP partita_peer_up Whether the gateway of a node gets requests: 1, or 0.\n"
      "# TYPE partita_peer_up gauge\n";
  for (const auto& [node, peer] : peers_)
    out += fmt::format("partita_peer_up{{node=\"{}\"}} {}\n", metric_label(node),
                       peer->shut_until == 0 ? 1 : 0);
  return out;
}

}  // namespace partita::serve
