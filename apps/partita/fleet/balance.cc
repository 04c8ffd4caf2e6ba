#include "fleet/balance.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "agent/agent_world.h"
#include "base/child.h"
#include "base/descriptor.h"
#include "base/input.h"
#include "base/unix_socket.h"
#include "flags.h"
#include "fleet/brain/status.h"
#include "fleet/brain/view.h"
#include "stop_request.h"

namespace partita::cli {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kReadAnew = 60 * kSecond;  // all of the store, whatever its watch says
constexpr std::int64_t kAgain = kSecond;          // after the store did not answer
constexpr std::size_t kMostSaid = 300;            // by HAProxy

// What the store of a fleet says, kept up to date.
class Follower {
 public:
  Follower(fleet::EtcdStore& store, const std::string& name, Clock& clock)
      : store_(store), keys_(name), clock_(clock) {}

  Result<void> hear() {
    if (clock_.now_ns() < next_) return {};
    if (watch_ && clock_.now_ns() - read_ < kReadAnew)
      if (const auto seen = watch_->take()) {
        for (const fleet::SeenChange& one : *seen)
          view_.hear(keys_, one.key, one.value, one.version);
        return {};
      }
    Result<void> done = read();
    if (!done) watch_.reset(), next_ = clock_.now_ns() + kAgain;
    return done;
  }
  const fleet::FleetView& view() const { return view_; }

 private:
  Result<void> read() {
    const auto range = TRY(store_.range(keys_.root));
    auto watch = TRY(store_.watch(keys_.root, range.revision));
    view_ = {};
    for (const fleet::KeyValue& one : range.all) view_.hear(keys_, one.key, one.value, one.version);
    watch_ = std::move(watch);
    read_ = clock_.now_ns();
    return {};
  }

  fleet::EtcdStore& store_;
  const fleet::Keys keys_;
  Clock& clock_;
  fleet::FleetView view_;
  std::unique_ptr<fleet::Watch> watch_;
  std::int64_t read_ = 0, next_ = 0;
};

interop::BalancedServices services_of(const fleet::FleetStatus& status) {
  interop::BalancedServices all;
  for (const fleet::ServiceStatus& service : status.services) {
    interop::BalancedService& one = all.emplace_back(
        interop::BalancedService{.name = service.service, .answer_ms = service.answer_ms});
    for (const fleet::ServicePiece& piece : service.on) {
      const auto node = std::ranges::find(status.nodes, piece.node, &fleet::NodeStatus::node);
      if (node != status.nodes.end() && node->there)
        one.nodes.push_back({piece.node, node->gateway, node->grpc, piece.share});
    }
  }
  return all;
}

// Services that some node carries which is there.
std::set<std::string> carried_by(const fleet::FleetStatus& status) {
  std::set<std::string> carried;
  for (const fleet::ServiceStatus& service : status.services)
    if (std::ranges::any_of(service.on, [](const auto& one) { return one.carried_rps > 0; }))
      carried.insert(service.service);
  return carried;
}

Result<std::string> written(const BalanceFlags& flags, const interop::BalancedServices& services) {
  if (flags.to == "haproxy") return interop::haproxy_config(services, flags.balancer);
  if (flags.to == "nginx") return interop::nginx_config(services, flags.balancer);
  return interop::envoy_endpoints(services);
}

// HAProxy's answer is empty lines where it did all of it.
Result<void> set_weights(const std::string& path, const std::string& commands) {
  const auto address = TRY(UnixAddress::of(path));
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval patience{.tv_sec = 2, .tv_usec = 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (::connect(socket.get(), address.get(), UnixAddress::size()) != 0)
    return environment_error(path, "nobody listens there");
  const std::string line = commands + "\n";
  if (::send(socket.get(), line.data(), line.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(line.size()))
    return environment_error(path, "it does not read");
  std::string answer;
  char piece[1024];
  for (ssize_t got; (got = ::read(socket.get(), piece, sizeof piece)) > 0;)
    answer.append(piece, static_cast<std::size_t>(got));
  std::erase(answer, '\n');
  if (answer.empty()) return {};
  return environment_error(path, "it says: " + answer.substr(0, kMostSaid));
}

// The file, and whoever reads it.
class Balancer {
 public:
  Balancer(Context& context, const BalanceFlags& flags) : context_(context), flags_(flags) {}

  // Whether it could be written. A service that no node is said to carry stays where it was, beside
  // where it is to be: it may run there still, and nowhere else yet. Who asks finds out.
  Result<void> take(const fleet::FleetStatus& status) {
    interop::BalancedServices services = services_of(status);
    const std::set<std::string> carried = carried_by(status);
    for (interop::BalancedService& one : services) {
      if (carried.contains(one.name))
        last_[one.name] = one;
      else if (const auto last = last_.find(one.name); last != last_.end())
        for (const interop::BalancedNode& was : last->second.nodes) stays(one, was);
    }
    auto content = written(flags_, services);
    if (!content) return failed(content.error());
    if (content == content_) {
      if (reload_due_ && clock_now() >= reload_next_) reload();
      return {};
    }
    const std::string frame = *written(flags_, interop::without_weights(services));
    TRY(deliver(context_, flags_.output, *content));
    const bool weights_alone = !content_.empty() && frame == frame_;
    content_ = *std::move(content);
    frame_ = frame;
    if (!weights_alone || !weights_are_set(services)) reload();
    return {};
  }

 private:
  static void stays(interop::BalancedService& service, const interop::BalancedNode& was) {
    if (was.share <= 0) return;
    const auto is = std::ranges::find(service.nodes, was.node, &interop::BalancedNode::node);
    if (is == service.nodes.end())
      service.nodes.push_back(was);
    else
      is->share = std::max(is->share, was.share);
  }
  bool weights_are_set(const interop::BalancedServices& services) {
    const std::string& socket = flags_.balancer.stats_socket;
    if (socket.empty()) return false;
    const auto done = set_weights(socket, interop::haproxy_weights(services, flags_.balancer));
    if (!done) complain(context_, to_string(done.error()));
    return done.has_value();
  }
  std::int64_t clock_now() const { return context_.clock.now_ns(); }
  // Tried again where it failed: whoever reads the file may have only just begun.
  void reload() {
    if (flags_.reload.empty()) return;
    auto child = Child::start({.program = "/bin/sh", .argv = {"sh", "-c", flags_.reload}});
    const int status = child ? child->wait() : 127;
    if (status != 0 && !reload_due_)
      complain(context_, fmt::format("--reload has ended with {}; it is tried again", status));
    reload_due_ = status != 0;
    reload_next_ = clock_now() + kAgain;
  }

  Context& context_;
  const BalanceFlags& flags_;
  std::map<std::string, interop::BalancedService> last_;  // that had a node
  std::string content_, frame_;
  bool reload_due_ = false;
  std::int64_t reload_next_ = 0;
};

Result<Exit> from_document(Context& context, const BalanceFlags& flags) {
  const auto text = TRY(read_input(context.files, "PLAN", flags.file));
  const auto status = TRY(fleet::parse_status(flags.file, text));
  if (!status.fault.empty())
    complain(context, fmt::format("warning: {}: the fleet's store was not heard when it was "
                                  "written, so who carries what may be otherwise by now: {}",
                                  flags.file, status.fault));
  const interop::BalancedServices services = services_of(status);
  const auto content = written(flags, services);
  if (!content) return failed({content.error().code, content.error().message, flags.file});
  if (flags.to == "envoy") complain(context, "note: " + interop::envoy_timeouts(services));
  return finish(context, flags.output, *content);
}

// What cannot be heard or written now is tried again; the balancer goes on with what it has.
Result<Exit> follow(Context& context, const BalanceFlags& flags, Follower& follower,
                    const std::string& name, std::int64_t interval) {
  Balancer balancer(context, flags);
  std::string said;
  std::optional<StopRequest> stop;
  if (flags.watch) stop.emplace();
  do {
    Result<void> done = follower.hear();
    if (done) {
      const auto status = fleet::status_of(follower.view(), name);
      done = status ? balancer.take(*status) : failed(status.error());
    }
    if (!done && !stop) return failed(done.error());
    const std::string says = done ? "" : to_string(done.error());
    if (!says.empty() && says != said) complain(context, says);
    said = says;
  } while (stop && !stop->within(interval));
  return Exit::done;
}

}  // namespace

bool is_balancer(const std::string& form) {
  return form == "haproxy" || form == "nginx" || form == "envoy";
}

Result<Exit> run_balance(Context& context, const BalanceFlags& flags) {
  if (!flags.file.empty()) return from_document(context, flags);
  const auto interval = TRY(parse_duration("--interval", flags.interval));
  if (flags.watch && flags.output.file.empty()) return bad_input("--watch", "needs -o FILE");
  const auto file = TRY(load_agent_file(context, flags.settings));
  const auto place = TRY(settled_fleet(file.fleet, flags.place));
  if (place.endpoints.empty())
    return bad_input("PLAN", "is required: a document FleetStatus, or --fleet with URLs of etcd");
  const auto store = TRY(open_fleet(context, place));
  Follower follower(*store, place.name, context.clock);
  return follow(context, flags, follower, place.name,
                static_cast<std::int64_t>(interval.value * 1e9));
}

}  // namespace partita::cli
