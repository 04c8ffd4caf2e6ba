#include "agent/agent_fleet.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>

#include "agent/agent.h"
#include "api/documents.h"
#include "api/metrics.h"
#include "base/append.h"
#include "control/nvlinks.h"
#include "control/planning.h"
#include "fleet/brain/documents.h"
#include "fleet/brain/part_services.h"
#include "fleet/brain/peers.h"
#include "fleet/brain/status.h"
#include "fleet/fleet_desk.h"
#include "fleet/fleet_place.h"
#include "forms/serving_forms.h"

namespace partita::cli {
namespace {

constexpr auto kTurn = std::chrono::milliseconds(500);
// An agent that begins looks so long for workers of what it carries before it speaks: the words of
// the one before it stand until its lease ends.
constexpr std::int64_t kFirstWords = 5'000'000'000;
// Between tries to hand over a part that the loop refused.
constexpr std::int64_t kAgain = 30'000'000'000;
// Of a turn, for answers: its lease is to be kept every few seconds, whoever asks how often.
constexpr std::int64_t kAnswering = 1'000'000'000;
constexpr const char* kUser = "fleet";
constexpr double kTiny = 1e-6;
constexpr std::int64_t kSecond = 1'000'000'000;
// What was carried and has too few workers for so long is lost here: a worker or a gateway that is
// started again is there before. So long after that it gets no more of it.
constexpr std::int64_t kUnserved = 12 * kSecond, kPassedOver = 600 * kSecond;
// What takes longer to start, and is being started again, is given more than it took: elsewhere it
// would take as long, from later on.
constexpr double kRestartRoom = 1.5, kMostRestartS = 600;
// A store that has not answered for so long is a fault, and what it said is not known any more.
constexpr std::int64_t kSilent = 15 * kSecond;
// Who is asked for metrics follows all of the fleet until then; in a larger one whoever leads does.
constexpr std::int64_t kScraped = 150 * kSecond;
constexpr std::size_t kSmallFleet = 100;  // nodes

std::vector<fleet::NodeGpu> gpus_of(const control::Snapshot& now, const control::GpuUse& use,
                                    const control::NvLinks& said) {
  std::vector<fleet::NodeGpu> all;
  const std::map<int, int> domains = control::nvlink_domains(said, now.state);
  for (const control::GpuNow& gpu : now.gpus) {
    fleet::NodeGpu one{gpu.index, gpu.uuid, gpu.model};
    if (const auto domain = domains.find(gpu.index); domain != domains.end())
      one.nvlink = domain->second;
    const auto why = use.not_used.find(gpu.uuid);
    if (why != use.not_used.end())
      one.unusable = why->second;
    else if (!use.is_usable(gpu.uuid))
      one.unusable = "it is for batches";
    if (const device::GpuState* is = now.state.find(gpu.uuid); is != nullptr)
      for (const device::Instance& instance : is->instances)
        if (instance.lent()) one.lent.push_back({instance.profile, instance.start});
    all.push_back(std::move(one));
  }
  return all;
}

// What the gateway counts.
fleet::Rates arriving(const control::Snapshot& now) {
  fleet::Rates rates;
  for (const control::ServiceNow& one : now.services)
    if (one.rate_rps) rates[one.name] = *one.rate_rps;
  return rates;
}
fleet::Rates asked_in_vain(const control::Snapshot& now) {
  fleet::Rates rates;
  for (const actuate::Uncarried& one : now.uncarried) rates[one.service] = one.asked_rps;
  return rates;
}

std::vector<fleet::AgentsVerdict> verdicts_of(const control::Snapshot& now) {
  std::vector<fleet::AgentsVerdict> all;
  for (const control::ServiceNow& one : now.services)
    all.push_back({one.name, to_string(one.is.verdict)});
  return all;
}

bool carries(const fleet::Rates& rates, const fleet::Rates& wanted) {
  return std::ranges::all_of(wanted, [&](const auto& one) {
    const auto found = rates.find(one.first);
    return found != rates.end() && found->second >= one.second * (1 - kTiny);
  });
}

// Of services; not those of a GPU that is off the bus.
bool has_instances(const control::Snapshot& now) {
  return std::ranges::any_of(now.assignment.segments, [&](const auto& segment) {
    const device::GpuState* gpu = now.state.find(segment.gpu_uuid);
    return gpu != nullptr && !gpu->lost &&
           std::ranges::any_of(gpu->instances, [&](const device::Instance& one) {
             return one.uuid() == segment.device;
           });
  });
}

// Of its instances those that its gateway has workers of; of a pipeline the least of its steps.
double served_share(const control::Snapshot& now, const std::string& service) {
  const auto is = std::ranges::find(now.services, service, &control::ServiceNow::name);
  if (is == now.services.end()) return 0;
  double least = 1;
  if (is->pipeline) {
    for (const plan::PipelineStep& step : is->pipeline->steps)
      least = std::min(least, served_share(now, step.service));
    return least;
  }
  return is->segments > 0 ? std::min(least, static_cast<double>(is->ready_workers) / is->segments)
                          : 0;
}

// How long it may have too few workers.
std::int64_t patience_ns(const control::Snapshot& now, const std::string& service) {
  const auto is = std::ranges::find(now.services, service, &control::ServiceNow::name);
  if (is == now.services.end()) return kUnserved;
  if (is->pipeline) {  // the least patience with any step that lacks some
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const plan::PipelineStep& step : is->pipeline->steps)
      if (served_share(now, step.service) < 1)
        least = std::min(least, patience_ns(now, step.service));
    return least == std::numeric_limits<std::int64_t>::max() ? kUnserved : least;
  }
  const double restart_s = std::min(kRestartRoom * is->restart_s, kMostRestartS);
  return std::max(kUnserved, static_cast<std::int64_t>(restart_s * kSecond));
}

bool is_changing(const control::Snapshot& now) {
  return now.current && now.current->state == control::ChangeState::applying;
}

// The same as long as the state directory and the boot are: machines that were copied from one
// image have the same host name and the same files.
std::string word_of(const std::string& state_dir, const std::string& boot) {
  struct stat is = {};
  if (::stat(state_dir.c_str(), &is) != 0) return {};
  return fmt::format("{}-{:x}-{:x}", boot.empty() ? "boot" : boot, is.st_dev, is.st_ino);
}

bool changes(const AgentFleet::Call& call) {
  return call.name == "fleet_apply" || call.name == "fleet_approve" || call.name == "fleet_drain";
}

fleet::Rates lower(const fleet::Rates& a, const fleet::Rates& b) {
  fleet::Rates rates;
  for (const auto& [service, rate] : a)
    if (const auto found = b.find(service); found != b.end())
      rates[service] = std::min(rate, found->second);
  return rates;
}

}  // namespace

Result<std::unique_ptr<AgentFleet>> AgentFleet::start(Context& context, Wishes wishes) {
  if (wishes.fleet.node.empty()) wishes.fleet.node = host_name();
  auto store = TRY(open_fleet(context, wishes.fleet));
  TRY(fleet::parse_fleet_word("fleet.node", wishes.fleet.node));
  std::unique_ptr<AgentFleet> made(new AgentFleet(context, std::move(wishes), std::move(store)));
  if (context.files.exists(made->part_path())) {
    made->part_ = TRY(read_as(context.files, made->part_path(), fleet::parse_part));
    if (made->part_->services.empty()) made->to_hand_ = made->part_;  // nothing forgets it
  }
  if (context.files.exists(made->budget_path())) {
    auto held = TRY(read_as(context.files, made->budget_path(), fleet::parse_held_budget));
    if (held.boot != made->wishes_.boot) held.watts = held.alone_w = held.least_w;
    made->budget_ = std::move(held);
  }
  const std::string peers = actuate::peers_path(made->wishes_.state_dir);
  if (context.files.exists(peers))  // what its gateway was told before
    if (const auto text = context.files.read(peers))
      if (auto read = actuate::parse_peers(peers, *text)) made->told_peers_ = *std::move(read);
  made->thread_ = std::thread([fleet = made.get()] { fleet->run(); });
  return made;
}

AgentFleet::AgentFleet(Context& context, Wishes wishes, std::unique_ptr<fleet::EtcdStore> store)
    : context_(context),
      wishes_(std::move(wishes)),
      store_(std::move(store)),
      begun_(context.clock.now_ns()),
      heard_ns_(begun_),
      self_(word_of(wishes_.state_dir, wishes_.boot)) {}

AgentFleet::~AgentFleet() {
  {
    const std::lock_guard hold(lock_);
    ending_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void AgentFleet::run() {
  fleet::FleetAgent agent(
      {.fleet = wishes_.fleet.name, .node = wishes_.fleet.node, .leads = wishes_.fleet.leads},
      *store_, ground());
  std::string said;
  const auto pause = [this] { return asked_.empty() ? kTurn : kTurn / 50; };
  for (std::unique_lock hold(lock_); !ending_; wake_.wait_for(hold, pause())) {
    if (!heard_) continue;
    now_.budget = budget_;
    now_.seen_ms = looked_ms_;
    const fleet::NodeNow now = now_;
    const std::vector<Question> asked = std::exchange(asked_, {});
    const bool scraped = context_.clock.now_ns() - scraped_ns_ < kScraped;
    hold.unlock();
    if (!asked.empty() || (scraped && small_)) agent.follow_all();
    fleet::Turn turn = agent.turn(context_.clock.now_ns() / 1'000'000, wishes_.wall_ms(), now);
    fault_ = turn.trouble ? (turn.unseen ? "" : "its store: ") + to_string(*turn.trouble) : "";
    if (!turn.trouble) known_ms_ = wishes_.wall_ms();
    if (!turn.trouble) tell_gateway(agent);
    if (scraped && !turn.trouble) show(agent, small_ || agent.leads());
    const std::size_t answered = answer(asked, agent, turn);
    const std::string state =
        turn.trouble ? fault_ + "; this node goes on with its part" : turn.waits;
    hold.lock();
    asked_.insert(asked_.begin(), asked.begin() + static_cast<std::ptrdiff_t>(answered),
                  asked.end());
    take_budget(turn);
    tell_of_fault(turn);
    for (const std::string& sentence : turn.said) tell(sentence);
    if (state != said) tell(state.empty() ? "goes on" : state);
    said = state;
    if (!turn.take || to_hand_ || handing_ || now_.busy) continue;
    to_hand_ = std::move(turn.take);
    now_.busy = true;
    wishes_.wake();
  }
  agent.leave();
}

// The first of them, as many as there is time for. Who asks the same is told the same.
std::size_t AgentFleet::answer(const std::vector<Question>& asked, fleet::FleetAgent& agent,
                               const fleet::Turn& turn) {
  const std::int64_t end = context_.clock.now_ns() + kAnswering;
  std::map<std::pair<std::string, std::string>, Result<std::string>> told;
  std::size_t n = 0;
  for (; n < asked.size() && (n == 0 || context_.clock.now_ns() < end); ++n) {
    const Call& call = asked[n].call;
    const std::pair what(call.name, call.of);
    auto known = told.find(what);
    if (known == told.end() || changes(call)) {
      auto text = document(call, agent, turn);
      if (changes(call)) told.clear();
      known = told.insert_or_assign(what, std::move(text)).first;
    }
    asked[n].answer(known->second);
  }
  return n;
}

// What metrics show, once a second at most; where it does not follow all, nothing is known.
void AgentFleet::show(fleet::FleetAgent& agent, bool follows_all) {
  const std::int64_t now = context_.clock.now_ns();
  if (now < show_next_) return;
  show_next_ = now + kSecond;
  std::shared_ptr<const fleet::FleetStatus> is;
  if (follows_all) {
    small_ = agent.view().nodes.size() <= kSmallFleet;
    if (auto status = status_of(agent.view(), wishes_.fleet.name, &agent.services()))
      is = std::make_shared<const fleet::FleetStatus>(*std::move(status));
  }
  const std::lock_guard hold(lock_);
  shown_ = std::move(is);
}

std::string AgentFleet::metrics() {
  std::unique_lock hold(lock_);
  const auto shown = shown_;
  scraped_ns_ = context_.clock.now_ns();
  const std::int64_t silent = scraped_ns_ - heard_ns_;
  hold.unlock();
  return api::fleet_metrics(shown.get(), 1e-9 * static_cast<double>(silent), silent > kSilent);
}

// What people and programs hear of: one sentence from when it begins until it is over.
void AgentFleet::tell_of_fault(const fleet::Turn& turn) {
  const std::int64_t now = context_.clock.now_ns();
  if (!turn.trouble) heard_ns_ = now;
  std::string fault = turn.nameless ? "fleet: " + turn.waits : "";
  if (now - heard_ns_ > kSilent) {
    if (silent_.empty())
      silent_ = fmt::format("fleet: {} (for more than {} s); this node goes on with its part",
                            fault_, kSilent / kSecond);
    fault = silent_;
  } else {
    silent_.clear();
  }
  if (fault == told_fault_) return;
  told_fault_ = std::move(fault);
  wishes_.wake();
}

std::string AgentFleet::fault() {
  const std::lock_guard hold(lock_);
  return told_fault_;
}

// Where its gateway may hand requests over to; what it was told last stands while nothing is heard.
void AgentFleet::tell_gateway(fleet::FleetAgent& agent) {
  if (std::exchange(told_changes_, agent.changes()) == agent.changes()) return;
  const fleet::FleetView& view = agent.own_view();
  if (!says_what_is_wanted(view)) return;
  const auto file = agent.services().of(view.wanted->services);
  if (!file) return;
  std::vector<std::string> wanted;
  for (const plan::Service& one : (*file)->services) wanted.push_back(one.name);
  std::ranges::sort(wanted);
  actuate::GatewayPeers peers =
      fleet::peers_of(view.peers, wanted, wishes_.fleet.node, told_peers_);
  if (peers == told_peers_) return;
  const std::string path = actuate::peers_path(wishes_.state_dir);
  if (context_.files.write_atomic(path, actuate::peers_json(peers)))
    told_peers_ = std::move(peers);
  else
    told_changes_ = -1;
}

// It is on disk before the node does so.
void AgentFleet::take_budget(const fleet::Turn& turn) {
  spoken_ms_ = std::max(spoken_ms_, turn.heard_ms);
  std::optional<fleet::HeldBudget> next = turn.budget;
  if (next) next->boot = wishes_.boot;
  if (next == budget_) return;
  const auto kept = next ? context_.files.write_atomic(budget_path(), fleet::write(*next))
                         : context_.files.remove(budget_path());
  if (!kept) tell("its budget of power is not kept: " + to_string(kept.error()));
  budget_ = std::move(next);
  wishes_.wake();
}

std::optional<double> AgentFleet::budget_w() {
  const std::lock_guard hold(lock_);
  if (!budget_) return {};
  const std::int64_t silent_ms = context_.clock.now_ns() / 1'000'000 - spoken_ms_;
  return fleet::gpu_watts(*budget_, 1e-3 * static_cast<double>(silent_ms));
}

// It holds to a budget once its boards are limited so, and the step that was just made raises none.
void AgentFleet::tell_of_budget(const control::Snapshot& now) {
  if (now.power) now_.gpu_draw_w = now.power->draw_w;
  if (now.power && now.power->unlimited == 0) now_.record.least_gpu_w = now.power->least_w;
  if (!budget_ || !now.power || now.power->unlimited > 0) return;
  const double most =
      fleet::gpu_watts(
          {.watts = budget_->watts, .alone_w = budget_->watts, .other_w = budget_->other_w}, 0) +
      1;
  if (std::max(now.power->limits_w, now.power->budget_w) <= most) holds_ = budget_->revision;
  now_.record.holds_budget = holds_;
}

void AgentFleet::tell_of(Call call, std::function<void(Result<std::string>)> answer) {
  {
    const std::lock_guard hold(lock_);
    asked_.push_back({std::move(call), std::move(answer)});
  }
  wake_.notify_all();
}

fleet::FleetGround AgentFleet::ground() const {
  return {.profiles = wishes_.world.profiles,
          .rule = wishes_.world.rule,
          .max_processes = wishes_.world.max_processes};
}

// What people change is read anew and written at once, whoever leads.
Result<std::string> AgentFleet::changed(const Call& call) const {
  FleetDesk desk(*store_, wishes_.fleet.name, call.user);
  if (call.name == "fleet_apply") {
    const auto wishes = TRY(parse_fleet_wishes("body", call.body));
    TRY(desk.read());
    const auto said = TRY(desk.apply(wishes, {call.survive, call.mode}, ground()));
    return api::receipt_json({0, joined(said, "; ")});
  }
  TRY(desk.read());
  if (call.name == "fleet_explain") return desk.explain(call.of);
  const auto said =
      TRY(call.name == "fleet_approve" ? desk.approve(call.of) : desk.drain(call.of, call.back));
  return api::receipt_json({0, said});
}

// Who has just found that the store does not answer does not wait for it again.
Result<std::string> AgentFleet::document(const Call& call, fleet::FleetAgent& agent,
                                         const fleet::Turn& turn) {
  const std::string& operation = call.name;
  const bool asks_store =
      operation != "fleet" && operation != "fleet_plan" && operation != "fleet_history";
  if (turn.trouble && operation != "fleet" && !(asks_store && turn.unseen))
    return environment_error("",
                             fmt::format("the fleet has not been heard for {} s: {}",
                                         (context_.clock.now_ns() - heard_ns_) / kSecond, fault_));
  if (asks_store) return changed(call);
  if (operation == "fleet_history") return history_json(agent.view());
  if (operation == "fleet") {
    auto status = status_of(agent.view(), wishes_.fleet.name, &agent.services());
    if (status && !fault_.empty()) make_stale(*status, fault_, known_ms_);
    return status ? Result<std::string>(status_json(*status)) : failed(status.error());
  }
  if (agent.decision() && !agent.decision()->digest.empty())
    return decision_json(*agent.decision());
  const auto& leader = agent.view().leader;
  return failed({ErrorCode::not_found,
                 leader ? leader->node + " leads; what it decided is there" : "nobody leads now",
                 ""});
}

// The agent says it, at its next step.
void AgentFleet::tell(const std::string& sentence) {
  said_.push_back("fleet: " + sentence);
  wishes_.wake();
}

std::vector<control::Inquiry> AgentFleet::take_inquiries() {
  std::optional<fleet::Part> part;
  {
    const std::lock_guard hold(lock_);
    part = std::exchange(to_hand_, {});
    handing_ = handing_ || part.has_value();
  }
  if (!part) return {};
  const bool again = part_ && part_->revision == part->revision && !refused_.empty();
  if (!again) wishes_.say(fmt::format("fleet: takes revision {}: {}", part->revision, part->cause));
  const bool none = part->services.empty();
  std::vector<control::Inquiry> all;
  all.push_back({{control::SetServices{part->services, none}, kUser},
                 [this, part = *part](const control::Reply& reply) { handed(part, reply); }});
  if (none) return all;
  all.push_back({{control::SetPlan{forms::plan_json(part->plan)}, kUser},
                 [this](const control::Reply& reply) {
                   if (!reply && refused_.empty())
                     wishes_.say(
                         "fleet: the node plans for itself, the leader's plan is not taken: " +
                         to_string(reply.error()));
                 }});
  return all;
}

// What was refused was taken, too: the leader hears why it is not carried out.
void AgentFleet::handed(const fleet::Part& part, const control::Reply& reply) {
  refused_ = reply ? "" : to_string(reply.error());
  again_ns_ = context_.clock.now_ns() + kAgain;
  part_ = part;
  if (auto kept = context_.files.write_atomic(part_path(), fleet::write(part)); !kept)
    wishes_.say("fleet: its part is not kept: " + to_string(kept.error()));
  const std::lock_guard hold(lock_);
  handing_ = false;
}

// What the loop does not have of the part that was taken, since it refused it, or its memory is
// lost, or somebody told it otherwise.
void AgentFleet::hand_over_again(const control::AgentMemory& memory) {
  if (!part_ || memory.services == part_->services || handing_ || to_hand_) return;
  if (context_.clock.now_ns() < again_ns_) return;
  to_hand_ = part_;
  wishes_.wake();
}

void AgentFleet::looked() {
  const std::int64_t now = context_.clock.now_ns();
  if (std::ranges::any_of(
          lacks_, [&](const auto& one) { return !one.second.lost && now >= one.second.until_ns; }))
    wishes_.wake();  // there is something to say
  const std::lock_guard hold(lock_);
  looked_ms_ = now / 1'000'000;
}

void AgentFleet::hear(const control::Loop& loop) {
  const control::Snapshot& snapshot = loop.snapshot();
  const control::AgentMemory& memory = loop.memory();
  const control::GpuUse use = control::gpus_for_services(wishes_.world, snapshot.state, memory.out);
  fleet::NodeRecord record{.node = wishes_.fleet.node,
                           .rack = wishes_.fleet.rack,
                           .zone = wishes_.fleet.zone,
                           .feed = wishes_.fleet.feed,
                           .gateway = wishes_.fleet.gateway,
                           .grpc = wishes_.fleet.grpc,
                           .agent = self_,
                           .gpus = gpus_of(snapshot, use, wishes_.world.nvlink)};
  record.runs = control::current_plan(use, memory.target, snapshot.assignment).gpus;
  tell_of_part(record, loop);
  const bool changes = is_changing(snapshot);
  std::vector<std::string> said;
  {
    const std::lock_guard hold(lock_);
    said = std::exchange(said_, {});
    looked_ms_ = context_.clock.now_ns() / 1'000'000;
    if (!changes) hand_over_again(memory);
    now_ = {std::move(record), changes || handing_ || to_hand_.has_value(), arriving(snapshot),
            asked_in_vain(snapshot), verdicts_of(snapshot)};
    tell_of_budget(snapshot);
    const bool knows = is_all_ || context_.clock.now_ns() - begun_ > kFirstWords;
    heard_ = snapshot.node_fault.empty() && (heard_ || knows);
  }
  wake_.notify_all();
  for (const std::string& sentence : said) wishes_.say(sentence);
}

// What it carries of what is planned: what has workers at its gateway. What had them and has none,
// or some of them alone, for kUnserved is lost here, unless a change is being made, or they are
// known to take longer to start again; the sentence names it. What never had them yet may be on its
// way.
std::string AgentFleet::carry(const fleet::Rates& planned, bool done,
                              const control::Snapshot& now) {
  const std::int64_t at = context_.clock.now_ns();
  std::string few;
  carries_ = lower(carries_, planned);
  for (const auto& [service, rate] : planned) {
    const double share = wishes_.fleet.gateway.empty() ? 1 : served_share(now, service);
    const auto known = lacks_.find(service);
    const bool lost = known != lacks_.end() && known->second.lost;
    if (share >= 1 || (share > 0 && !done && !lost)) {
      if (known != lacks_.end()) lacks_.erase(known);
      if (done) carries_[service] = rate;
      continue;
    }
    if (is_changing(now) && known != lacks_.end() && !lost) lacks_.erase(known);
    if (is_changing(now) || (known == lacks_.end() && !carries_.contains(service))) continue;
    Lack& lack = lacks_.try_emplace(service, Lack{.since_ns = at}).first->second;
    lack.until_ns = lack.since_ns + patience_ns(now, service);
    lack.lost = lack.lost || at >= lack.until_ns;
    if (!lack.lost) continue;
    lack.last_ns = at;
    few += (few.empty() ? "" : ", ") + service;
    if (share > 0)
      carries_[service] = rate * share;
    else
      carries_.erase(service);
  }
  std::erase_if(lacks_, [&](const auto& one) {
    return !planned.contains(one.first) &&
           (!one.second.lost || at - one.second.last_ns >= kPassedOver);
  });
  return few.empty() ? "" : "its gateway has too few workers of " + few;
}

// How far the node is with what it took, and what it carries.
void AgentFleet::tell_of_part(fleet::NodeRecord& record, const control::Loop& loop) {
  const control::AgentMemory& memory = loop.memory();
  const control::Snapshot& snapshot = loop.snapshot();
  fleet::Rates planned;
  if (memory.target)
    for (const control::PlannedFor& one : memory.target->rates) planned[one.service] = one.rate_rps;
  const bool done = memory.target && memory.target->done;
  const std::string few = carry(planned, done, snapshot);
  if (part_) {
    record.taken = part_->revision;
    const fleet::Rates wanted = fleet::rates_of(*part_);
    const bool is_its = wanted.empty() ? !memory.target && !has_instances(snapshot)
                                       : memory.services == part_->services && done;
    if (wanted.empty()) carries_.clear();
    if (is_its && carries(carries_, wanted))
      ready_ = part_->revision;
    else if (!refused_.empty())
      record.trouble = refused_;
    else if (is_its && memory.target && !memory.target->reduced.empty())
      record.trouble = memory.target->reduced;
    else if (snapshot.last && snapshot.last->state == control::ChangeState::failed)
      record.trouble = snapshot.last->error.empty() ? "its change failed" : snapshot.last->error;
  }
  if (record.trouble.empty()) record.trouble = few;
  if (record.trouble.empty() && memory.mode != control::Mode::automatic)
    record.trouble = fmt::format("its agent's mode is {}, and that of a fleet's nodes is automatic",
                                 control::to_string(memory.mode));
  is_all_ = carries(carries_, planned);
  record.ready = ready_;
  record.carries = fleet::carried_of(carries_);
  for (const auto& [service, lack] : lacks_)
    if (lack.lost) record.unserved.push_back(service);
}

}  // namespace partita::cli
