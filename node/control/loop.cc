#include "control/loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "control/batches.h"
#include "control/bills.h"
#include "control/changes.h"
#include "control/desired.h"
#include "control/energy_meter.h"
#include "control/fan_outs.h"
#include "control/health.h"
#include "control/host_meter.h"
#include "control/lengths.h"
#include "control/plans.h"
#include "control/power.h"
#include "control/rates.h"
#include "control/replanner.h"
#include "control/report.h"
#include "control/sent_plan.h"
#include "control/service_watch.h"
#include "control/show.h"
#include "control/speeds.h"
#include "forms/serving_forms.h"

namespace partita::control {
namespace {

constexpr std::int64_t kForecastsKeptMs = 10 * kMinuteMs;

// Whose joules the boards take: services by their instances, batches by the GPUs that they have.
energy::Tenancy tenancy_of(const NodeView& node) {
  energy::Tenancy tenancy;
  for (const actuate::AssignedSegment& one : node.assignment.segments)
    tenancy.tenures.push_back({{}, one.service, one.device, one.gpu_uuid});
  for (const device::GpuState& gpu : node.state.gpus)
    if (node.lent.contains(gpu.uuid))
      for (const device::Instance& instance : gpu.instances)
        tenancy.tenures.push_back({{}, kBatchTenant, instance.uuid(), gpu.uuid});
  return tenancy;
}

std::optional<PowerNow> power_now(const Seen& seen) {
  if (!seen.budget_w) return {};
  PowerNow now{.budget_w = *seen.budget_w};
  for (const PowerBoard& board : seen.power) {
    now.limits_w += board.now;
    now.least_w += board.fixed ? board.now : board.least;
  }
  if (seen.state) now.unlimited = static_cast<int>(seen.state->gpus.size() - seen.power.size());
  if (!seen.sample) return now;
  double draw = 0;
  for (const telemetry::GpuSample& gpu : seen.sample->gpus) {
    if (!gpu.power) return now;
    draw += gpu.power->value;
  }
  now.draw_w = draw;
  return now;
}

// GPUs that services leave: taken out, or for batches alone.
std::vector<OutGpu> left(std::vector<OutGpu> out, const GpuUse& use) {
  for (const GpuUse::Gpu& gpu : use.batch)
    out.push_back({.uuid = gpu.uuid, .why = fmt::format("gpu {} is for batches", gpu.index)});
  return out;
}

// GPUs that are to be empty where nothing is wanted any more.
std::vector<OutGpu> all_out(std::vector<OutGpu> out, const GpuUse& use) {
  for (const GpuUse::Gpu& gpu : use.usable)
    out.push_back({.uuid = gpu.uuid, .why = "no services are wanted"});
  return out;
}

}  // namespace

// Passes values along between the brains, each of which writes its part of the memory only.
class Loop::Work {
 public:
  Work(World world, AgentMemory memory, long changes);

  Deeds step(std::int64_t now_ms, const Seen& seen);
  bool glance(std::int64_t now_ms, const ServersSeen& servers) const;
  Result<ChangeNow> preview(const std::string& text) const;
  void power_is_back() { power_.is_back(); }
  const Snapshot& snapshot() const { return snapshot_; }
  const AgentMemory& memory() const { return memory_; }
  std::shared_ptr<const std::vector<BatchInfo>> batches() const { return batch_list_; }

 private:
  void begin();
  void look(const Seen& seen);
  void hear(const Seen& seen);
  Reply answer(const Asked& asked);
  Reply roll_back(const std::string& user);
  Reply set_mode(Mode mode, const std::string& user);
  Reply send(const SetPlan& plan, const std::string& user);
  void begin_services();
  void believe();
  void see_speeds(const Seen& seen);
  void decide();
  bool follow(Progress progress);
  void lend();
  void set_power(const Seen& seen);
  void show_all(const Seen& seen);
  void keep();

  PlanGround plan_ground() const;
  ChangeGround change_ground() const;
  Batches::Ground batch_ground() const;
  Health::Ground health_ground() const;
  VerdictGround verdict_ground(const ServersSeen& servers) const;
  ShowGround show_ground(const Seen& seen) const;

  const std::vector<plan::FleetEntry> measured_;
  World world_;  // profiles: as they were found to be
  AgentMemory memory_, kept_;
  std::int64_t now_ = 0, kept_ms_ = 0;
  bool begun_ = false;
  NodeView node_;
  std::vector<RateNow> rates_now_;
  std::vector<ServiceNeed> needs_;
  std::optional<std::string> forced_by_;  // a person wants a plan now
  Deeds deeds_;
  Snapshot snapshot_;
  std::shared_ptr<const std::vector<BatchInfo>> batch_list_ =
      std::make_shared<const std::vector<BatchInfo>>();

  Report report_;
  PlanMemo memo_;  // never changes what is decided
  EnergyMeter energy_;
  HostMeter host_;
  Bills bills_;
  Rates rates_;
  Damping damping_;
  Desired desired_;
  Lengths lengths_;
  FanOuts fan_outs_;
  Speeds speeds_;
  DesiredNow believed_;  // what is wanted, of requests and engines as they are
  Health health_;
  ServiceWatch watch_;
  Replanner replanner_;
  Plans plans_;
  Changes changes_;
  Batches batches_;
  Power power_;
};

Loop::Work::Work(World world, AgentMemory memory, long changes)
    : measured_(world.profiles),
      world_(std::move(world)),
      memory_(std::move(memory)),
      bills_(world_.tariff),
      rates_(world_.settings),
      damping_(world_.settings.damping, memory_),
      desired_(world_, memory_, report_),
      lengths_(memory_.lengths),
      fan_outs_(memory_.fan_outs),
      speeds_(memory_.speeds),
      health_(world_, memory_, report_),
      watch_(report_),
      replanner_(world_, damping_, memo_, report_),
      plans_(world_, {memory_, damping_}, memo_, report_),
      changes_(world_, memory_, report_),
      batches_(world_, memory_, report_),
      power_(world_, memory_.power_held, report_) {
  plans_.count_changes(std::max(memory_.changes, changes));
  rates_.begin(desired_.now().services, memory_.forecasts);
  lengths_.begin(desired_.now().services);
  fan_outs_.begin(desired_.now().services);
  world_.profiles = speeds_.corrected(measured_);
  believe();
  node_.lent = batches_.lent();
}

// ---- the order of a step

Deeds Loop::Work::step(std::int64_t now_ms, const Seen& seen) {
  deeds_ = {};
  now_ = std::max(now_, now_ms);
  report_.begin(now_, now_ + static_cast<std::int64_t>(world_.settings.look_s * 1000));
  if (!begun_) begin();
  look(seen);
  hear(seen);
  for (const Asked& asked : seen.asked) deeds_.replies.push_back(answer(asked));
  changes_.watch(seen.apply_steps);
  decide();
  lend();
  set_power(seen);
  memory_.verdicts = watch_.judge(verdict_ground(seen), now_);
  show_all(seen);
  keep();
  deeds_.record = report_.take_events();
  deeds_.notify = report_.take_news();
  deeds_.next_look_ms = report_.next_ms();
  return std::exchange(deeds_, {});
}

void Loop::Work::hear(const Seen& seen) {
  follow(changes_.hear(seen.ended, change_ground()));
  if (desired_.hear_file(seen.services_file, seen.services_fault)) begin_services();
  deeds_.refused_file = desired_.refused_file();
  if (seen.sample && node_.known) {
    const energy::Tenancy tenancy = tenancy_of(node_);
    energy_.see(*seen.sample, tenancy);
    if (seen.host) host_.see(*seen.host, slice_shares(*seen.sample, tenancy));
    bills_.see(now_, energy_.draws(), host_.draws());
  }
  rates_.see(seen, now_);
  rates_now_ = rates_.now(believed_.services);
  if (rates_.minute_ended()) {
    deeds_.measure = measured(show_ground(seen));
    lengths_.see(seen, report_);
    fan_outs_.see(seen, report_);
    see_speeds(seen);
    believe();
  }
  node_.use = health_.watch(health_ground(), seen.health, seen.boot);
  watch_.hear_workers(seen.workers);
  batches_.hear(batch_ground(), seen.batches);
  node_.lent = batches_.lent();
  power_.hear(seen, now_);
}

// What must be planned is, then the node becomes so; then what may be planned.
void Loop::Work::decide() {
  if (changes_.under() || !node_.known) return;
  if (desired_.now().services.empty()) {
    replanner_.need_not();
    report_.doing = "no services are wanted: send some, or name a services file";
    if (!desired_.wants_none() || desired_.mode() != Mode::automatic) return;
    plans_.forget();
    follow(changes_.empty(all_out(left(health_.out(), node_.use), node_.use), change_ground()));
    return;
  }
  needs_ = rates_.needs(believed_.services);
  const PlanGround ground = plan_ground();
  plans_.look(ground);
  const std::string must = plans_.must_replan(ground), refused = plans_.refused_until(ground);
  std::optional<Decision> decision;
  if (const auto user = std::exchange(forced_by_, std::nullopt)) {
    plans_.drop("a new plan was asked for");
    decision = replanner_.forced(ground, *user, plans_.is_stuck());
  } else if (!must.empty() && refused.empty()) {
    decision = replanner_.must(ground, must, plans_.is_stuck());
  }
  if (must.empty()) replanner_.need_not();
  deeds_.unplanned = !must.empty() && refused.empty() && !decision;
  if (decision) plans_.settle_on(*std::move(decision), ground);
  const auto bring_about = [&] {
    ChangeGround change = change_ground();
    change.judged = plans_.judged(ground);
    change.refusal = plans_.refusal();
    return follow(changes_.bring_about(change)) ||
           follow(changes_.empty(left(health_.out(), node_.use), change));
  };
  if (bring_about()) return;
  if (!memory_.target || !plans_.must_replan(ground).empty()) {
    if (!refused.empty()) report_.doing = refused + ": " + must;
    return;
  }
  report_.doing = memory_.proposal
                      ? fmt::format("change {} waits for approval", memory_.proposal->change)
                      : "nothing to do";
  if (memory_.proposal || plans_.is_quiet(now_)) return;
  decision = replanner_.consider(ground);
  if (decision && plans_.settle_on(*std::move(decision), ground)) bring_about();
}

// What a look at changes means for the plans; whether there is something to bring about.
bool Loop::Work::follow(Progress progress) {
  if (progress.changes > 0) plans_.count_changes(progress.changes);
  if (progress.is_there) plans_.is_there(progress.by_repair, now_);
  if (progress.is_not_there) plans_.is_not_there();
  if (!progress.cannot_be.empty()) plans_.cannot_be(progress.cannot_be);
  if (progress.apply) {
    plans_.forget_proposed();
    deeds_.apply = std::move(progress.apply);
  }
  return progress.busy;
}

void Loop::Work::lend() {
  Batches::Ground ground = batch_ground();
  ground.may_begin = !changes_.under();
  ground.idles = memory_.target ? memory_.target->done && plans_.must_replan(plan_ground()).empty()
                                : desired_.now().services.empty();
  deeds_.batches = batches_.lend(ground);
  node_.lent = batches_.lent();
}

void Loop::Work::set_power(const Seen& seen) {
  const auto& services = believed_.services;
  std::map<std::string, ClockedRate> rates;
  if (power_.by_rates()) rates = rates_.clocked(services);
  Power::Deeds deeds = power_.look({now_, desired_.mode(), node_, services, rates, memory_.target,
                                    changes_.under().has_value(), seen});
  deeds_.power = std::move(deeds.set);
  deeds_.power_back = deeds.put_back;
}

void Loop::Work::show_all(const Seen& seen) {
  plans_.show_proposal(plan_ground());
  if (std::vector<BatchInfo> now = batches_.list(node_, now_); now != *batch_list_)
    batch_list_ = std::make_shared<const std::vector<BatchInfo>>(std::move(now));
  rates_now_ = rates_.now(believed_.services);
  ShowGround ground = show_ground(seen);
  const auto draw = energy_.draws().find(kBatchTenant);
  ground.batch = batches_.brief(
      *batch_list_, draw == energy_.draws().end() ? std::optional<Draw>() : draw->second);
  ground.power = power_now(seen);
  ground.uncarried = seen.uncarried;
  ground.fleet_heard = seen.fleet_fault.empty();
  show(snapshot_, ground);
}

void Loop::Work::keep() {
  const bool learned = now_ - kept_ms_ >= kForecastsKeptMs;
  if (learned) memory_.forecasts = rates_.known();
  if (!learned && memory_ == kept_) return;
  memory_.forecasts = rates_.known();
  kept_ = memory_;
  kept_ms_ = now_;
  deeds_.remember = memory_;
}

// ---- what is passed along

PlanGround Loop::Work::plan_ground() const {
  return {now_, desired_.mode(), believed_, node_, memory_, needs_};
}

ChangeGround Loop::Work::change_ground() const {
  return {.now_ms = now_,
          .mode = desired_.mode(),
          .node = node_,
          .target = memory_.target,
          .changes = memory_.changes};
}

Batches::Ground Loop::Work::batch_ground() const {
  return {now_, desired_.mode(), node_, health_.out(), memory_};
}

Health::Ground Loop::Work::health_ground() const {
  return {now_, node_, memory_.target && !memory_.target->reduced.empty()};
}

VerdictGround Loop::Work::verdict_ground(const ServersSeen& servers) const {
  return {believed_.services, memory_, node_.assignment, servers, node_.blind};
}

ShowGround Loop::Work::show_ground(const Seen& seen) const {
  return {.now_ms = now_,
          .world = world_,
          .memory = memory_,
          .node = node_,
          .services = desired_.now().services,
          .verdicts = watch_.verdicts(),
          .rates = rates_now_,
          .draws = energy_.draws(),
          .host_parts = host_,
          .host = host_.whole(),
          .bills = bills_.bills(),
          .sample = seen.sample,
          .workers = seen.workers,
          .under = changes_.under(),
          .proposed = plans_.proposed(),
          .last = changes_.last(),
          .memo = memo_,
          .report = report_,
          .rerated = plans_.is_rerated(),
          .restarts = watch_.restarts(),
          .given_up = watch_.given_up(),
          .changes = changes_.made()};
}

// ---- what is seen

void Loop::Work::begin() {
  begun_ = true;
  kept_ms_ = now_;
  std::string text = fmt::format("mode {}", to_string(desired_.mode()));
  if (memory_.target)
    text += fmt::format(", change {} is in force{}", memory_.target->change,
                        memory_.target->done ? "" : " and not done");
  report_.record(history::EventKind::started, {.cause = "the agent begins", .detail = text});
}

void Loop::Work::look(const Seen& seen) {
  node_.read(seen, now_);
  if (seen.fleet_fault.empty())
    report_.over("fleet");
  else
    report_.tell_anew(NoticeKind::other, "fleet", "", seen.fleet_fault);
  if (node_.known) return report_.over("read");
  report_.doing = node_.blind;
  report_.tell(NoticeKind::health, "read", "", node_.blind);
}

void Loop::Work::begin_services() {
  rates_.begin(desired_.now().services);
  lengths_.begin(desired_.now().services);
  fan_outs_.begin(desired_.now().services);
  believe();
  replanner_.forget_tries();
  changes_.forget_tries();
}

void Loop::Work::believe() {
  believed_ = speeds_.corrected(fan_outs_.corrected(lengths_.corrected(desired_.now())));
}

// Where the node is as planned, how fast its engines are against what the plan goes by.
void Loop::Work::see_speeds(const Seen& seen) {
  const auto& target = memory_.target;
  const bool language = std::ranges::any_of(
      believed_.services, [](const plan::Service& one) { return one.tokens.has_value(); });
  if (!language || !target || !target->done || changes_.under()) return;
  const Want want = want_of(*target, believed_.services);
  const auto problem = problem_of(world_, node_.use, want, !target->reduced.empty());
  if (!speeds_.see({seen, problem, target->plan}, report_)) return;
  world_.profiles = speeds_.corrected(measured_);
  memo_.plans = {};  // answers for engines that were otherwise
  memo_.verdicts = {};
}

bool Loop::Work::glance(std::int64_t now_ms, const ServersSeen& servers) const {
  return watch_.differs(verdict_ground(servers), std::max(now_, now_ms));
}

// ---- people

Reply Loop::Work::answer(const Asked& asked) {
  struct Visit {
    Work& work;
    const std::string user;
    Reply operator()(const SetServices& one) const {
      Reply reply = work.desired_.set(one, user);
      if (reply) work.begin_services();
      return reply;
    }
    Reply operator()(const SetPlan& one) const { return work.send(one, user); }
    Reply operator()(const Approve& one) const {
      return work.plans_.approve(one, user, work.plan_ground());
    }
    Reply operator()(const Reject& one) const {
      const std::optional<ChangeNow> shown = work.plans_.proposed();
      Reply reply = work.plans_.reject(one, user, work.plan_ground());
      if (reply && shown) work.changes_.reject(*shown, one.why, work.now_);
      return reply;
    }
    Reply operator()(const Rollback&) const { return work.roll_back(user); }
    Reply operator()(const Replan&) const {
      work.forced_by_ = user;
      return Receipt{0, "the agent looks and plans now"};
    }
    Reply operator()(const SetMode& one) const { return work.set_mode(one.mode, user); }
    Reply operator()(const TakeOut& one) const {
      return reused(work.health_.take_out(work.health_ground(), one, user), true);
    }
    Reply operator()(const GiveBack& one) const {
      return reused(work.health_.give_back(work.health_ground(), one, user), work.node_.known);
    }
    Reply operator()(const SubmitTasks& one) const {
      return work.batches_.submit(work.batch_ground(), one, user);
    }
    Reply operator()(const CancelBatch& one) const {
      return work.batches_.cancel(work.batch_ground(), one, user);
    }
    Reply operator()(const PauseBatch& one) const { return work.batches_.pause(one, user); }
    Reply operator()(const ResumeBatch& one) const { return work.batches_.resume(one, user); }
    // Other GPUs may be used now.
    Reply reused(Reply reply, bool known) const {
      if (!reply) return reply;
      if (known)
        work.node_.use = gpus_for_services(work.world_, work.node_.state, work.health_.out());
      work.plans_.end_quiet();
      return reply;
    }
  };
  return std::visit(Visit{*this, asked.user.empty() ? "somebody" : asked.user}, asked.request);
}

Reply Loop::Work::roll_back(const std::string& user) {
  Reply reply = plans_.roll_back(user, plan_ground());
  if (!reply) return reply;
  desired_.ask_first();
  if (changes_.stop()) deeds_.stop_apply = true;
  return reply;
}

Reply Loop::Work::set_mode(Mode mode, const std::string& user) {
  desired_.set_mode(mode, user);
  const auto& under = changes_.under();
  if (mode != Mode::observe || !under || under->stopping)
    return Receipt{0, fmt::format("the mode is {}", to_string(mode))};
  deeds_.stop_apply = true;
  return Receipt{*changes_.stop(), "the mode is observe; the change under way ends in order"};
}

Reply Loop::Work::send(const SetPlan& plan, const std::string& user) {
  if (const auto& under = changes_.under())
    return failed(
        {ErrorCode::in_use,
         fmt::format("change {} is being made; send the plan when it has ended", under->number),
         ""});
  return plans_.send(plan, user, plan_ground());
}

Result<ChangeNow> Loop::Work::preview(const std::string& text) const {
  const bool sent = is_plan(text);
  if (!sent) TRY(wanted_services(text, world_.token_traces));
  if (!node_.known) return failed({ErrorCode::environment, "the node cannot be read now", ""});
  AgentMemory memory = memory_;
  if (!sent) memory.services = text;
  Report unheard;
  const Desired desired(world_, memory, unheard);
  Lengths lengths(memory.lengths);
  lengths.begin(desired.now().services);
  FanOuts fan_outs(memory.fan_outs);
  fan_outs.begin(desired.now().services);
  const DesiredNow believed =
      speeds_.corrected(fan_outs.corrected(lengths.corrected(desired.now())));
  const Damping damping(world_.settings.damping, memory);
  Rates rates = rates_;
  rates.begin(desired.now().services);
  const auto needs = rates.needs(believed.services);
  const PlanGround ground{now_, memory.mode, believed, node_, memory, needs};
  PlanMemo memo;
  auto planned = TRY(sent ? sent_plan(world_, ground, memo, text)
                          : Replanner(world_, damping, memo, unheard).plan_all(ground));
  planned.target.cause = "a preview";
  planned.target.planned_ms = now_;
  ChangeNow shown = shown_of(world_, planned.target, ground, memo);
  if (!planned.target.reduced.empty())
    shown.explanation.insert(shown.explanation.begin(), planned.target.reduced);
  return shown;
}

// ---- the interface

Loop::Loop(World world, AgentMemory memory, long changes)
    : work_(std::make_unique<Work>(std::move(world), std::move(memory), changes)) {}
Loop::~Loop() = default;
Loop::Loop(Loop&&) noexcept = default;
Loop& Loop::operator=(Loop&&) noexcept = default;

Deeds Loop::step(std::int64_t now_ms, const Seen& seen) { return work_->step(now_ms, seen); }
const Snapshot& Loop::snapshot() const { return work_->snapshot(); }
void Loop::power_is_back() { work_->power_is_back(); }
const AgentMemory& Loop::memory() const { return work_->memory(); }
bool Loop::glance(std::int64_t now_ms, const ServersSeen& servers) const {
  return work_->glance(now_ms, servers);
}
std::shared_ptr<const std::vector<BatchInfo>> Loop::batches() const { return work_->batches(); }
Result<ChangeNow> Loop::preview(const std::string& text) const { return work_->preview(text); }

}  // namespace partita::control
