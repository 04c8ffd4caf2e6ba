#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <set>

#include "agent/agent.h"
#include "base/child.h"
#include "base/descriptor.h"
#include "base/unix_socket.h"
#include "commands.h"
#include "fleet/brain/counting.h"
#include "fleet/brain/documents.h"
#include "fleet/brain/part_services.h"
#include "fleet/brain/status.h"
#include "fleet/brain/view.h"
#include "fleet/etcd/fleet_agent.h"
#include "fleet/fleet_desk.h"
#include "fleet/fleet_place.h"
#include "fleet/host_names.h"
#include "past/past.h"

namespace partita::cli {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kReadAnew = 60 * kSecond;  // all of the store, whatever its watch says
constexpr std::int64_t kAsks = 2 * kSecond;       // a member that hangs is found so
constexpr std::int64_t kAgain = kSecond;          // after the store did not answer
constexpr std::size_t kMostSaid = 300;            // by HAProxy

// What the store of a fleet says, kept up to date.
class Follower {
 public:
  Follower(fleet::EtcdStore& store, const std::string& name, Clock& clock)
      : store_(store), keys_(name), clock_(clock) {}

  Result<void> hear() {
    if (clock_.now_ns() < next_) return {};
    if (watch_ && clock_.now_ns() - asked_ >= kAsks) {
      asked_ = clock_.now_ns();
      if (!store_.range({keys_.leader()})) watch_.reset();
    }
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
    const auto range = TRY(store_.range({keys_.root}));
    auto watch = TRY(store_.watch({keys_.root}, range.revision));
    view_ = {};
    for (const fleet::KeyValue& one : range.all) view_.hear(keys_, one.key, one.value, one.version);
    watch_ = std::move(watch);
    read_ = asked_ = clock_.now_ns();
    return {};
  }

  fleet::EtcdStore& store_;
  const fleet::Keys keys_;
  Clock& clock_;
  fleet::FleetView view_;
  std::unique_ptr<fleet::Watch> watch_;
  std::int64_t read_ = 0, asked_ = 0, next_ = 0;
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

// Whether a balancer has anywhere to send a request.
bool has_nodes(const interop::BalancedServices& services) {
  return std::ranges::any_of(services, [](const auto& service) { return !service.nodes.empty(); });
}

// Whether any gateway's address is known.
bool has_addresses(const interop::BalancedServices& services, const interop::KnownHosts& hosts) {
  const auto is_known = [&](const std::string& address) {
    const auto name = hosts.find(address.substr(0, address.rfind(':')));
    return !address.empty() && (name == hosts.end() || !name->second.empty());
  };
  return std::ranges::any_of(services, [&](const auto& service) {
    return std::ranges::any_of(service.nodes, [&](const interop::BalancedNode& node) {
      return is_known(node.http) || is_known(node.grpc);
    });
  });
}

// A balancer goes on with what it has rather than with nothing: a store that came back without
// leases has services and no nodes, for a moment.
Result<void> no_services(const fleet::FleetStatus& status) {
  const std::string why = status.services.empty() ? fleet::why_no_services(status)
                                                  : "no node that is there has any of its services";
  const std::string damaged = status.damaged.empty() ? "" : ": " + status.damaged.front();
  return bad_input("",
                   fmt::format("fleet {}: {}{}; nothing is written", status.fleet, why, damaged));
}

// Services that some node carries which is there.
std::set<std::string> carried_by(const fleet::FleetStatus& status) {
  std::set<std::string> carried;
  for (const fleet::ServiceStatus& service : status.services)
    if (std::ranges::any_of(service.on, [](const auto& one) { return one.carried_rps > 0; }))
      carried.insert(service.service);
  return carried;
}

interop::BalancerKind kind_of(const std::string& to) {
  using enum interop::BalancerKind;
  return to == "haproxy" ? haproxy : to == "nginx" ? nginx : envoy;
}

Result<std::string> written(const BalanceFlags& flags, const interop::BalancedServices& services,
                            const interop::KnownHosts& hosts) {
  interop::BalancerOptions options = flags.balancer;
  options.hosts = hosts;
  if (flags.to == "haproxy") return interop::haproxy_config(services, options);
  if (flags.to == "nginx") return interop::nginx_config(services, options);
  return interop::envoy_endpoints(services);
}

// Sentences of those that have no address.
std::vector<std::string> unknown_hosts(const interop::KnownHosts& hosts) {
  std::vector<std::string> all;
  for (const auto& [name, addresses] : hosts)
    if (addresses.empty()) all.push_back(fmt::format("nobody knows a host '{}' here", name));
  return all;
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
    return environment_error(path, "cannot write to the socket");
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

  // Whether it could be written; where no services are known, what is there stays. A service that
  // no node is said to carry stays where it was, beside where it is to be: it may run there still,
  // and nowhere else yet. Who asks finds out.
  Result<void> take(const fleet::FleetStatus& status) {
    interop::BalancedServices services = services_of(status);
    auto left_out = interop::leave_out_unfit(services, kind_of(flags_.to));
    const std::set<std::string> carried = carried_by(status);
    for (interop::BalancedService& one : services) {
      if (carried.contains(one.name))
        last_[one.name] = one;
      else if (const auto last = last_.find(one.name); last != last_.end())
        for (const interop::BalancedNode& was : last->second.nodes) stays(one, was);
    }
    const auto hosts = names_.of(interop::host_names(services));
    const bool by_address = flags_.to == "nginx";  // HAProxy looks for itself, maybe elsewhere
    if (by_address)
      for (std::string& why : unknown_hosts(hosts)) left_out.push_back(std::move(why));
    for (const std::string& why : left_out)
      if (std::ranges::count(left_out_, why) == 0) complain(context_, why + "; it is left out");
    left_out_ = std::move(left_out);
    if (!has_nodes(services) && (!flags_.watch || context_.files.exists(flags_.output.file)))
      return no_services(status);
    if (by_address && !hosts.empty() && !has_addresses(services, hosts) &&
        context_.files.exists(flags_.output.file))
      return environment_error("", "nobody knows any host of its gateways; nothing is written");
    auto content = written(flags_, services, hosts);
    if (!content) return failed(content.error());
    if (content == content_) {
      if (reload_due_ && clock_now() >= reload_next_) reload();
      return {};
    }
    const std::string frame = *written(flags_, interop::without_weights(services), hosts);
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
  std::vector<std::string> left_out_ = {};                // as it was said
  HostNames names_;
  std::string content_, frame_;
  bool reload_due_ = false;
  std::int64_t reload_next_ = 0;
};

Result<Exit> from_document(Context& context, const BalanceFlags& flags) {
  const auto status = TRY(read_input(context.files, "PLAN", flags.file, fleet::parse_status));
  if (!status.fault.empty())
    complain(context, fmt::format("warning: {}: the fleet's store was not heard when it was "
                                  "written, so who carries what may be otherwise by now: {}",
                                  flags.file, status.fault));
  const interop::BalancedServices services = services_of(status);
  if (!has_nodes(services)) return failed(no_services(status).error());
  interop::KnownHosts hosts;  // HAProxy looks for itself where it reads the file
  if (flags.to == "nginx") hosts = HostNames().of(interop::host_names(services));
  for (const std::string& why : unknown_hosts(hosts)) complain(context, why + "; it is left out");
  const auto content = written(flags, services, hosts);
  if (!content) return failed({content.error().code, content.error().message, flags.file});
  if (flags.to == "envoy") complain(context, "note: " + interop::envoy_timeouts(services));
  return finish(context, flags.output, *content);
}

// What cannot be heard or written now is tried again; the balancer goes on with what it has.
Result<Exit> follow(Context& context, const BalanceFlags& flags, Follower& follower,
                    const std::string& name, Seconds interval) {
  Balancer balancer(context, flags);
  std::string said;
  std::optional<StopRequest> stop;
  if (flags.watch) stop.emplace();
  fleet::ServicesRead services;
  do {
    Result<void> done = follower.hear();
    if (done) {
      const auto status = fleet::status_of(follower.view(), name, &services);
      done = status ? balancer.take(*status) : failed(status.error());
    }
    if (!done && !stop) return failed(done.error());
    const std::string says = done ? "" : to_string(done.error());
    if (!says.empty() && says != said) complain(context, says);
    said = says;
  } while (stop && !stop->within(interval));
  return Exit::done;
}

struct FleetCommandFlags {
  FleetFlags place;
  std::string config, profiles, catalogue, file, word;
  FleetManner manner;
  bool back = false;
  Output output;
};

// A fleet's store, and what is in it.
struct Reached {
  control::AgentFile file;
  std::unique_ptr<fleet::EtcdStore> store;
  std::unique_ptr<FleetDesk> desk;
  fleet::FleetView& view() const { return desk->view(); }
};

std::string user() {
  const std::string name = environment_variable("USER");
  return name.empty() ? "somebody" : name;
}

Result<Reached> reach(Context& context, const FleetCommandFlags& flags) {
  auto file = TRY(load_agent_file(context, flags.config));
  auto place = TRY(settled_fleet(file.fleet, flags.place));
  if (place.endpoints.empty())
    return bad_input("--fleet", "is required: URLs of etcd, or --settings with 'fleet'");
  file.fleet = std::move(place);
  auto store = TRY(open_fleet(context, file.fleet));
  auto desk = std::make_unique<FleetDesk>(*store, file.fleet.name, user());
  TRY(desk->read());
  return Reached{std::move(file), std::move(store), std::move(desk)};
}

Result<Exit> run_status(Context& context, const FleetCommandFlags& flags) {
  const auto reached = TRY(reach(context, flags));
  // A store that cannot be asked so is one that people may read alone.
  if (const auto alarms = reached.store->alarms(); alarms && !alarms->empty())
    complain(context, fmt::format("warning: etcd warns of {}, and nothing can be written to it: "
                                  "docs/fleet.md#what-it-needs-of-etcd says what helps",
                                  *alarms));
  const auto status = TRY(fleet::status_of(reached.view(), reached.file.fleet.name));
  return finish(context, flags.output,
                flags.output.json() ? status_json(status) : status_text(status));
}

Result<FleetWishes> wishes_of(Context& context, const std::string& path) {
  return parse_fleet_wishes(path, TRY(read_input(context.files, "--services", path)),
                            &context.files);
}

// What plans are made with, of the profiles that are here.
Result<fleet::FleetGround> ground_of(Context& context, const FleetCommandFlags& flags,
                                     Reached& reached) {
  if (!flags.profiles.empty()) reached.file.profiles = flags.profiles;
  const auto catalogue = TRY(decide::load_catalogue(context.files, flags.catalogue));
  const auto world =
      TRY(agent_world(context, reached.file, catalogue, fleet::gpu_models(reached.view())));
  return fleet::FleetGround{
      .profiles = world.profiles, .rule = world.rule, .max_processes = world.max_processes};
}

Result<Exit> run_apply(Context& context, const FleetCommandFlags& flags) {
  const auto wishes = TRY(wishes_of(context, flags.file));
  auto reached = TRY(reach(context, flags));
  const auto ground = TRY(ground_of(context, flags, reached));
  const auto said = TRY(reached.desk->apply(wishes, flags.manner, ground));
  for (const std::string& sentence : said) say(context, sentence + "\n");
  return Exit::done;
}

// As if it had been applied: whose loss is one (feeds), who has no watts left.
Result<void> plan_with(Context& context, const Reached& reached, const fleet::FleetPower& power) {
  fleet::FleetView& view = reached.view();
  TRY(take_power(view.power ? *view.power : view.power.emplace(), power, view));
  const auto budgets = TRY(fleet::PowerBrain().decide(view, "plan"));
  if (budgets) view.budgets = *budgets;
  complain(context,
           "note: planned with the file's tree of power; `status` shows budgets once it "
           "is applied");
  if (view.budgets && !view.budgets->over.empty())
    complain(context, "power: " + view.budgets->over);
  return {};
}

// What a leader would decide now, with the profiles that are here.
Result<Exit> run_plan(Context& context, const FleetCommandFlags& flags) {
  auto reached = TRY(reach(context, flags));
  fleet::Wanted wanted = reached.view().wanted.value_or(fleet::Wanted{});
  if (flags.file.empty()) {
    TRY(reached.desk->wanted_is_read());
  } else {
    auto wishes = TRY(wishes_of(context, flags.file));
    if (wishes.services) {
      wanted.services = *std::move(wishes.services);
      wanted.priorities = std::move(wishes.priorities);
    } else {
      TRY(reached.desk->wanted_is_read());
    }
    if (wishes.power) TRY(plan_with(context, reached, *wishes.power));
  }
  take_manner(wanted, flags.manner);
  reached.view().wanted = wanted;
  const auto ground = TRY(ground_of(context, flags, reached));
  const std::vector<std::string> models = fleet::gpu_models(reached.view());
  if (ground.profiles.empty() && !models.empty())
    return bad_input("--profiles", fmt::format("no profiles of {} are known here: name those that "
                                               "the agents of the fleet have",
                                               joined(models, ", ")));
  fleet::Leader leader(ground);
  const auto decision = TRY(leader.decide(reached.view(), "plan"));
  const bool short_of = std::ranges::any_of(
      decision.services, [](const fleet::ServiceOutlook& one) { return !one.why.empty(); });
  return finish(context, flags.output,
                flags.output.json() ? decision_json(decision) : decision_text(decision),
                short_of ? Exit::no : Exit::done);
}

Result<Exit> run_approve(Context& context, const FleetCommandFlags& flags) {
  const auto reached = TRY(reach(context, flags));
  say(context, TRY(reached.desk->approve(flags.word)) + "\n");
  return Exit::done;
}

Result<Exit> run_drain(Context& context, const FleetCommandFlags& flags) {
  const auto reached = TRY(reach(context, flags));
  say(context, TRY(reached.desk->drain(flags.word, flags.back)) + "\n");
  return Exit::done;
}

Result<Exit> run_explain(Context& context, const FleetCommandFlags& flags) {
  const auto reached = TRY(reach(context, flags));
  return finish(context, flags.output, TRY(reached.desk->explain(flags.word)));
}

Result<Exit> run_history(Context& context, const FleetCommandFlags& flags) {
  auto reached = TRY(reach(context, flags));
  std::string text;
  for (const auto& [key, one] : reached.view().history)
    text += flags.output.json()
                ? write(one) + "\n"
                : fmt::format("{}  {}  {}{}\n", local_time(one.time_ms), one.by,
                              one.revision > 0 ? fmt::format("revision {}: ", one.revision) : "",
                              one.what);
  return finish(context, flags.output, text);
}

void add_wishes(CLI::App& command, FleetCommandFlags& flags) {
  takes(command, "--survive-domain",
        word_from(flags.manner.survive, {fleet::kSurviveWords.begin(), fleet::kSurviveWords.end()}),
        "--mode",
        word_from(flags.manner.mode, {"automatic", "approve"}, "observe is not for fleets"));
}

using Run = Result<Exit> (*)(Context&, const FleetCommandFlags&);

Command below(CLI::App& group, const char* name, const char* about, Run run) {
  auto [command, flags] = adding<FleetCommandFlags>(group, name, about);
  const std::string word = name;
  flag(*command, "--settings", flags->config);
  add_fleet_flags(*command, flags->place);
  if (word == "plan") {
    command->add_option("FILE", flags->file, "A services file (default: what is wanted now)");
  }
  if (word == "plan" || word == "apply")
    takes(*command, "--profiles", flags->profiles, "--catalogue", flags->catalogue);
  if (word == "apply") command->add_option("FILE", flags->file, "A services file")->required();
  if (word == "plan" || word == "apply") add_wishes(*command, *flags);
  if (word == "approve")
    command->add_option("DIGEST", flags->word, "Digest of the decision (default: the pending one)");
  if (word == "explain")
    command->add_option("NODE|SERVICE", flags->word, "A node or a service (default: all)");
  if (word == "drain") {
    command
        ->add_option("NODE", flags->word, "A node of the fleet; or a feed, PDU or rack that failed")
        ->required();
    flag(*command, "--back", flags->back);
  }
  if (word == "status" || word == "plan" || word == "history")
    add_output(*command, flags->output, {"text", "json"});
  if (word == "explain") add_output(*command, flags->output, {"text"});
  return runs(command, flags, run,
              fmt::format("partita {}{} --fleet http://127.0.0.1:2379", name,
                          word == "apply"   ? " services.yaml"
                          : word == "drain" ? " node3"
                                            : ""));
}

}  // namespace

void add_fleet_flags(CLI::App& command, FleetFlags& flags) {
  takes(command, "--fleet", flags.endpoints, "--fleet-name", flags.name);
}

Result<control::AgentFleet> settled_fleet(control::AgentFleet fleet, const FleetFlags& flags) {
  if (!flags.endpoints.empty()) {
    fleet.endpoints.clear();
    for (const auto& one : split(flags.endpoints, ',')) fleet.endpoints.emplace_back(one);
  }
  if (!flags.name.empty()) fleet.name = flags.name;
  TRY(fleet::parse_fleet_word("--fleet-name", fleet.name));
  return fleet;
}

Result<std::unique_ptr<fleet::EtcdStore>> open_fleet(Context& context,
                                                     const control::AgentFleet& fleet) {
  return fleet::EtcdStore::to(
      {.endpoints = fleet.endpoints,
       .tls = {.ca_file = fleet.ca, .certificate = fleet.certificate, .key = fleet.key},
       .user = fleet.user,
       .password_file = fleet.password_file,
       .asks = fleet.node},
      context.files, context.clock);
}

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
  return follow(context, flags, follower, place.name, interval);
}

Command add_fleet(CLI::App& app) {
  CLI::App* group = app.add_subcommand("fleet", "Many nodes: what they carry, and what is wanted");
  return group_of(
      group, {below(*group, "status", "Show the fleet's nodes and services", run_status),
              below(*group, "plan",
                    "Show what a leader would change; exit status 1 if room is missing", run_plan),
              below(*group, "apply", "Set the services of the fleet", run_apply),
              below(*group, "approve", "Approve the pending decision", run_approve),
              below(*group, "explain", "Explain why services are on their nodes", run_explain),
              below(*group, "drain", "Move a node's services to others", run_drain),
              below(*group, "history", "Show what leaders and people did", run_history)});
}

}  // namespace partita::cli
