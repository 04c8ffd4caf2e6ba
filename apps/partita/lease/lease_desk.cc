#include "lease/lease_desk.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "act/loans/loans.h"
#include "node/state_dir.h"
#include "places.h"

namespace partita::cli {
namespace {

constexpr const char* kMinors = "/proc/driver/nvidia-caps/mig-minors";
constexpr std::int64_t kRetry = 5'000'000, kBusyRetry = 50'000'000;
constexpr std::int64_t kBusyPatience = 10'000'000'000;
constexpr double kNanos = 1e9;

LeaseAnswer answer_of(const lease::Outcome& outcome, const std::string& minors) {
  LeaseAnswer answer{{}, outcome.refused};
  for (const lease::Lease& one : outcome.leases)
    answer.leases.leases.push_back(lease::document_of(one, minors));
  answer.leases.returned = outcome.returned;
  return answer;
}

// What the agent refuses is an error; that it is a refusal tells its code.
Result<LeaseAnswer> refusal_of(const Error& error) {
  if (error.code != ErrorCode::no_room && error.code != ErrorCode::infeasible)
    return failed(error);
  const bool room = error.code == ErrorCode::no_room;
  return LeaseAnswer{{}, lease::Refused{{room ? "room" : "owner", "node", 0, 1, error.message}}};
}

}  // namespace

Result<LeaseAnswer> take_of_agent(const api::Client& agent, const lease::Wanted& wanted) {
  const auto text = agent.call("take_lease", {}, lease::wanted_json(wanted));
  if (!text) return refusal_of(text.error());
  auto one = TRY(lease::parse_lease("the agent's answer", *text));
  return LeaseAnswer{{{std::move(one)}, {}}, {}};
}

Result<LeaseAnswer> give_back_to_agent(const api::Client& agent, const std::string& owner) {
  const auto text = TRY(agent.call("return_lease", {}, {}, "owner=" + api::percent_encoded(owner)));
  auto leases = TRY(lease::parse_leases_document("the agent's answer", text));
  return LeaseAnswer{std::move(leases), {}};
}

std::string mig_minors(Context& context) {
  if (!context.files.exists(kMinors)) return {};
  return context.files.read(kMinors).value_or("");
}

Result<LeaseDesk> LeaseDesk::open(Context& context, const DeviceFlags& device, Seconds patience) {
  if (device.driver == "amd")
    return failed({ErrorCode::not_supported, "AMD's GPUs have no instances to lend", "--driver"});
  OpenDriver open = TRY(open_driver(context, device));
  LeaseDesk desk(context, std::move(open), patience);
  desk.node_ = TRY(device::read_node(*desk.open_.bare));
  return desk;
}

Result<LeaseAnswer> LeaseDesk::ask_node(const lease::Ask& ask) {
  // Loans of dead owners may have places announced.
  if (const std::string log = loan_log(open_, node_); !log.empty() && context_.files.exists(log)) {
    const auto loans = exec::Loans::open(
        {*open_.driver, context_.clock, context_.files, processes_}, log, ::getpid());
    if (!loans) return failed(loans.error());
  }
  auto leases =
      TRY(lease::Leases::open(lease_doors(context_, open_, processes_), lease_log(open_, node_)));
  const auto outcome = TRY(leases.ask(ask));
  return answer_of(outcome, mig_minors(context_));
}

template <class Call>
std::optional<Result<LeaseAnswer>> LeaseDesk::ask_agent(const Call& call) {
  for (const std::string& folder : {state_directory("", node_), default_runtime_directory()}) {
    const std::string socket = std::filesystem::absolute(folder).string() + "/api.sock";
    if (!context_.files.exists(socket)) continue;
    const auto client = api::Client::to({.socket = socket}, {}, context_.clock);
    if (!client) continue;
    Result<LeaseAnswer> answer = call(*client);
    const bool gone = !answer && (answer.error().code == ErrorCode::lost ||
                                  answer.error().code == ErrorCode::environment);
    if (!gone) return answer;
  }
  return std::nullopt;
}

// Whoever changes the node has it for a moment; the agent, for ever.
template <class Here, class There>
Result<LeaseAnswer> LeaseDesk::in_time(const Here& here, const There& there) {
  const std::int64_t give_up =
      context_.clock.now_ns() + static_cast<std::int64_t>(patience_.value * kNanos);
  for (;;) {
    Result<FileLock> lock = lock_node_only(context_, open_, node_);
    if (lock) return here();
    if (lock.error().code != ErrorCode::in_use) return failed(lock.error());
    if (auto told = ask_agent(there)) return *std::move(told);
    if (context_.clock.now_ns() >= give_up) return failed(lock.error());
    context_.clock.sleep_ns(kRetry);
  }
}

Result<LeaseAnswer> LeaseDesk::take(const lease::Wanted& wanted) {
  const lease::Ask ask = TRY(lease::ask_of(wanted, processes_, wall_clock_ms()));
  Result<LeaseAnswer> answer =
      in_time([&] { return ask_node(ask); },
              [&](const api::Client& agent) { return take_of_agent(agent, wanted); });
  const bool untold = answer && answer->refused && answer->refused->reason.constraint == "room" &&
                      answer->refused->free.empty();
  if (!untold) return answer;  // else the agent said it in words
  for (const device::GpuState& gpu : node_.gpus) {
    if (!gpu.mig_enabled || gpu.lost || (wanted.gpu && *wanted.gpu != gpu.index)) continue;
    const auto now = open_.bare->read(gpu.index);
    if (!now) continue;
    for (lease::FreeShape& shape :
         lease::free_shapes({*now, lease::model_of(*now, {}, open_.catalogue.get())}))
      answer->refused->free.push_back(std::move(shape));
  }
  return answer;
}

Result<LeaseAnswer> LeaseDesk::give_back(const std::string& owner) {
  if (const std::string fault = lease::owner_fault(owner); !fault.empty())
    return bad_input("owner", fmt::format("'{}': {}", owner, fault));
  const std::int64_t give_up = context_.clock.now_ns() + kBusyPatience;
  for (;;) {
    Result<LeaseAnswer> answer =
        in_time([&] { return ask_node(lease::Return{owner}); },
                [&](const api::Client& agent) { return give_back_to_agent(agent, owner); });
    const bool busy = !answer && answer.error().code == ErrorCode::in_use &&
                      answer.error().context == "owner";
    if (!busy || context_.clock.now_ns() >= give_up) return answer;
    context_.clock.sleep_ns(kBusyRetry);
  }
}

Result<LeaseAnswer> LeaseDesk::sweep() {
  return in_time([&] { return ask_node(lease::Sweep{}); },
                 [&](const api::Client&) { return list(); });  // the agent sweeps by itself
}

Result<std::vector<lease::Lease>> LeaseDesk::list(const device::NodeState& node) {
  return lease::read_leases(lease_doors(context_, open_, processes_), lease_log(open_, node_),
                            node);
}

Result<LeaseAnswer> LeaseDesk::list() {
  const auto leases =
      TRY(lease::read_leases(lease_doors(context_, open_, processes_), lease_log(open_, node_)));
  return answer_of({leases, {}, {}}, mig_minors(context_));
}

}  // namespace partita::cli
