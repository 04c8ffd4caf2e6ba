// When to plan, and what of it is worth doing, as loop_work.h says.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "act/change_forms.h"
#include "control/loop_work.h"
#include "forms/serving_forms.h"

namespace partita::control {
namespace {

constexpr double kGrid = 1.05;                   // planned rates are powers of it: noise moves none
constexpr std::int64_t kCalmMs = 5 * kMinuteMs;  // between changes for what is only forecast
constexpr std::int64_t kGainMs = 10 * kMinuteMs;  // after a change, and between looks for gain
constexpr double kLeastSavedGpcs = 2;             // that a look for gain is begun for
constexpr std::int64_t kBudgetMs = 60 * kMinuteMs;
constexpr double kFirstTryPause = 60, kLongestTryPause = 3600;
constexpr double kEnough = 1 + 1e-9;
const std::optional<Target> kNoTarget;
constexpr int kLazier = 3;  // tries for a plan with fewer moves

double on_grid(double rate) {
  if (rate <= 0) return 0;
  return std::pow(kGrid, std::ceil(std::log(rate) / std::log(kGrid) - 1e-9));
}

// The highest rate that the services file says.
double most_wanted(const plan::Service& service) {
  double most = service.rate.value;
  for (const plan::RateAt& one : service.traffic.rates) most = std::max(most, one.rate.value);
  return most;
}

}  // namespace

std::optional<double> Loop::Work::promised(const std::string& service) const {
  if (!memory_.target) return {};
  const auto found = std::ranges::find(memory_.target->rates, service, &PlannedFor::service);
  if (found == memory_.target->rates.end()) return {};
  return found->rate_rps;
}

// At least what is promised: plans have some room.
double Loop::Work::carried(const std::string& service) const {
  const double least = promised(service).value_or(0);
  if (!memory_.target) return least;
  const auto& rows = memory_.target->plan.services;
  const auto row = std::ranges::find(rows, service, &plan::PlannedService::name);
  return row == rows.end() ? least : std::max(least, row->planned.value);
}

double Loop::Work::need(const plan::Service& service, double ahead_s) const {
  const std::int64_t until = local() + static_cast<std::int64_t>(ahead_s * 1000);
  const auto forecast = meters_.forecast(service.name, local(), until);
  if (!forecast) {  // nothing is measured: as the services file says
    if (service.traffic.rates.empty()) return service.rate.value;
    double most = 0;
    for (std::int64_t time = local(); time <= until; time += 5 * kMinuteMs)
      most = std::max(most, plan::rate_at(service.traffic.rates, minute_of_day(time)).value);
    return most;
  }
  const ForecastSettings& policy = world_.settings.forecast;
  const double wanted = most_wanted(service);
  const auto now = meters_.reading(service.name, local());
  const double high = std::max(forecast->high, now.rate.value_or(0));
  return on_grid(std::clamp(high, policy.floor_share * wanted, policy.cap_share * wanted));
}

Want Loop::Work::want_now(double ahead_s, bool lower) const {
  Want want;
  want.survive = survive_;
  want.priority = world_.settings.priority;
  want.services = services_;
  for (plan::Service& one : want.services) {
    const double planned = promised(one.name).value_or(0);
    const double needed = need(one, ahead_s);
    const bool enough = planned >= needed / kEnough;
    const bool keep = enough && (!lower || cooling(memory_.services_touched, one.name) ||
                                 needed > planned * (1 - world_.settings.damping.slack));
    one.rate = Rps{keep ? planned : needed};
  }
  return want;
}

bool Loop::Work::cooling(const std::vector<Touched>& touched, const std::string& subject) const {
  const auto found = std::ranges::find(touched, subject, &Touched::subject);
  const double cooldown_ms = world_.settings.damping.cooldown_s * 1000;
  return found != touched.end() && static_cast<double>(now_ - found->at_ms) < cooldown_ms;
}

int Loop::Work::budget_left(double share) const {
  int used = 0;
  for (const MovesAt& one : memory_.moves)
    if (now_ - one.at_ms < kBudgetMs) used += one.moves;
  return static_cast<int>(world_.settings.damping.moves_per_hour * share) - used;
}

bool Loop::Work::may_try(const std::string& kind, const std::string& about) const {
  const auto found = tried_.find(kind);
  return found == tried_.end() || found->second.about != about || now_ >= found->second.until_ms;
}

void Loop::Work::tried(const std::string& kind, const std::string& about, double pause_s) {
  Tried& one = tried_[kind];
  one.pause_s = one.about == about ? std::min(one.pause_s * 2, kLongestTryPause) : pause_s;
  one.about = about;
  one.until_ms = now_ + static_cast<std::int64_t>(one.pause_s * 1000);
}

Result<Planned> Loop::Work::plan(const Want& want, std::optional<int> max_moves,
                                 bool partial) const {
  // What cannot be brought about is no ground to plan from.
  const std::optional<Target>& basis = stuck_.empty() ? memory_.target : kNoTarget;
  // What batches have is left to them where the rest is enough.
  if (const GpuUse spared = without_lent(); spared.usable.size() < use_.usable.size()) {
    auto planned = plan_target(
        world_, spared, {want, current_plan(spared, basis, assignment_), max_moves, false}, memo_);
    if (planned) return planned;
  }
  return plan_target(world_, use_,
                     {want, current_plan(use_, basis, assignment_), max_moves, partial}, memo_);
}

bool Loop::Work::can_decide() {
  if (!node_known_) return false;
  if (services_.empty()) {
    doing_ = "no services are wanted: send some, or name a services file";
    return false;
  }
  return true;
}

std::string Loop::Work::must_replan() const {
  const std::optional<Target>& basis = memory_.proposal ? memory_.proposal : memory_.target;
  if (!basis) return "no plan is in force";
  if (basis->services != services_key())
    return fmt::format("the services were changed by {}",
                       memory_.services_by == "file" ? "their file" : memory_.services_by);
  for (const plan::PlannedGpu& gpu : basis->plan.gpus) {
    const auto named = std::ranges::find(basis->gpus, gpu.index, &GpuNamed::index);
    if (gpu.instances.empty() || (named != basis->gpus.end() && use_.is_usable(named->uuid)))
      continue;
    const auto why =
        named == basis->gpus.end() ? use_.not_used.end() : use_.not_used.find(named->uuid);
    return why != use_.not_used.end() ? why->second
                                      : fmt::format("gpu {} is not there any more", gpu.index);
  }
  if (!judge_says_.empty()) return judge_says_;
  if (!stuck_.empty() && !memory_.proposal) return stuck_;
  if (basis->reduced.empty()) return {};
  for (const GpuUse::Gpu& gpu : use_.usable)
    if (std::ranges::count(basis->gpus, gpu.uuid, &GpuNamed::uuid) == 0)
      return fmt::format("gpu {} can be used again", gpu.index);
  return {};
}

void Loop::Work::decide() {
  if (under_) return;
  if (!can_decide()) return;
  if (memory_.proposal && mode() == Mode::automatic) {
    const Target target = *memory_.proposal;
    adopt(target, "agent", "the mode is automatic");
  }
  if (memory_.proposal &&
      (memory_.proposal->services != services_key() || !same_gpus_usable(*memory_.proposal, use_)))
    drop_proposal("it no longer fits: services or GPUs have changed");
  const std::string must = must_replan();
  if (forced_) {
    forced_ = false;
    drop_proposal("a new plan was asked for");
    const auto planned = plan(want_now(world_.settings.forecast.horizon_s, true), {}, true);
    if (planned) settle_on(*planned, forced_by_ + " asked for a plan", Why::person);
    if (!planned) tell(NoticeKind::other, "forced", "", "no plan: " + to_string(planned.error()));
    untell("forced");
  } else if (!must.empty()) {
    replan_because(must);
  }
  if (bring_about() || empty_out_gpus() || !memory_.target || !must_replan().empty()) return;
  doing_ = memory_.proposal ? fmt::format("change {} waits for approval", memory_.proposal->change)
                            : "nothing to do";
  if (memory_.proposal || now_ < quiet_until_ms_) return;
  fresh_ = false;
  consider();
  if (fresh_) bring_about();
}

void Loop::Work::replan_because(const std::string& cause) {
  std::string about = cause + services_key();
  for (const GpuUse::Gpu& gpu : use_.usable) about += gpu.uuid;
  if (!may_try("must", about)) return;
  const auto planned = plan(want_now(world_.settings.forecast.horizon_s, true), {}, true);
  if (!planned) {
    tried("must", about, kFirstTryPause);
    doing_ = fmt::format("no plan, though {}: {}", cause, to_string(planned.error()));
    tell(NoticeKind::slo_risk, "must", "", doing_);
    return;
  }
  untell("must");
  judge_says_.clear();
  stuck_.clear();
  settle_on(*planned, cause, Why::must);
}

void Loop::Work::consider() {
  if (in_window(world_.settings.freezes, now_, world_.settings.utc_offset_min)) {
    doing_ = "nothing to do: changes are frozen now";
    return;
  }
  if (!consider_shortage()) consider_gain();
}

// Whether a service is short, whatever comes of it.
bool Loop::Work::consider_shortage() {
  const double horizon = world_.settings.forecast.horizon_s;
  bool measured = false, too_many = false;
  std::string about, cause;
  for (const plan::Service& one : services_) {
    const double planned = promised(one.name).value_or(0), needed = need(one, horizon);
    if (needed <= planned * kEnough) continue;
    const auto reading = meters_.reading(one.name, local());
    measured = measured || reading.rate.value_or(0) > planned * kEnough;
    too_many = too_many || reading.rate.value_or(0) > carried(one.name) * kEnough;
    about += fmt::format("{}:{:.3g} ", one.name, needed);
    if (cause.empty())
      cause = fmt::format(
          "{} needs {:.4g} req/s within {:.0f} min ({:.4g} come now), {:.4g} are "
          "planned for",
          one.name, needed, horizon / 60, reading.rate.value_or(0), planned);
  }
  if (about.empty()) return false;
  if (!measured && now_ - memory_.target->planned_ms < kCalmMs) return true;
  if (!may_try("shortage", about)) return true;
  const int budget = budget_left(1);
  if (budget <= 0) {
    tell(NoticeKind::slo_risk, "budget", "",
         fmt::format("{}; {} instances were made in the last hour, so nothing is changed", cause,
                     world_.settings.damping.moves_per_hour));
    return true;
  }
  untell("budget");
  const auto planned = plan_shortage(too_many);
  if (!planned) {
    tried("shortage", about, kFirstTryPause);
    if (too_many)
      tell(NoticeKind::slo_risk, "shortage", "",
           fmt::format("{}, and there is no plan: {}", cause, to_string(planned.error())));
    return true;
  }
  untell("shortage");
  tried("shortage", about, kFirstTryPause);
  const bool better = std::ranges::any_of(planned->target.rates, [&](const PlannedFor& one) {
    return one.rate_rps > promised(one.service).value_or(0) * (1 + 1e-3);
  });
  if (better) settle_on(*planned, cause, Why::shortage);
  return true;
}

std::vector<MadeAt> Loop::Work::just_made() const {
  std::vector<MadeAt> made = memory_.made;
  const double cooldown_ms = world_.settings.damping.cooldown_s * 1000;
  std::erase_if(made, [&](const MadeAt& one) {
    return static_cast<double>(now_ - one.at_ms) >= cooldown_ms;
  });
  return made;
}

// A plan for a service that is short. It takes back nothing that was just made, if there is such a
// plan; else only where more comes than the plan in force carries.
Result<Planned> Loop::Work::plan_shortage(bool too_many) const {
  const double horizon = world_.settings.forecast.horizon_s;
  const double ahead = std::max(world_.settings.damping.lasts_s, horizon);
  const bool reduced = !memory_.target->reduced.empty();
  const std::vector<MadeAt> made = just_made();
  const auto fine = [&](const Result<Planned>& planned) {
    return planned && !takes_back(use_, memory_.target, planned->target, made);
  };
  std::optional<int> most;
  if (!reduced) most = budget_left(1);
  // A plan that only just holds for the horizon would have to be raised again soon.
  std::optional<Result<Planned>> any;
  for (const double seconds : {ahead, horizon}) {
    const Want want = want_now(seconds, false);
    Result<Planned> planned = plan(want, most, false);
    for (int lazier = 0; lazier < kLazier && planned && !fine(planned); ++lazier) {
      const int moves = planned->changes.moved + planned->changes.created;
      if (moves < 1) break;
      Result<Planned> other = plan(want, moves - 1, false);
      if (!other) break;
      planned = std::move(other);
    }
    if (fine(planned)) return planned;
    if (planned) any = std::move(planned);
  }
  if (!too_many && !reduced)
    return failed(
        {ErrorCode::infeasible, "nothing that was just made is taken back before it must be", ""});
  if (any) return *std::move(any);
  return plan(want_now(horizon, true), most, true);
}

void Loop::Work::consider_gain() {
  const DampingSettings& damping = world_.settings.damping;
  const Target& target = *memory_.target;
  const double ahead = std::max(damping.lasts_s, world_.settings.forecast.horizon_s);
  if (!target.done || !target.reduced.empty() || now_ - target.planned_ms < kGainMs) return;
  const bool open = world_.settings.windows.empty() ||
                    in_window(world_.settings.windows, now_, world_.settings.utc_offset_min);
  const int budget = budget_left(0.5);
  if (!open || budget <= 0) return;
  const Want want = want_now(ahead, true);
  std::map<std::string, double> shares;
  double before = 0, after = 0;
  std::string about;
  for (const plan::Service& one : want.services) {
    const double planned = promised(one.name).value_or(0);
    before += planned;
    after += one.rate.value;
    shares[one.name] = planned > 0 ? one.rate.value / planned : 1;
    about += fmt::format("{:.2g} ", one.rate.value);
  }
  double saved = 0;
  for (const plan::PlannedGpu& gpu : target.plan.gpus)
    for (const plan::PlannedInstance& one : gpu.instances)
      if (shares.contains(one.service))
        saved += gpcs_of_profile(one.profile) * (1 - shares[one.service]);
  if (saved < kLeastSavedGpcs || gpus_in_use(target.plan) < 2 || !may_try("gain", about)) return;
  const auto planned = plan(want, budget, false);
  tried("gain", about, static_cast<double>(kGainMs) / 1000);
  if (!planned || !worth_it(*planned)) return;
  settle_on(*planned,
            fmt::format("{:.4g} req/s of all services are enough for the next {:.0f} min, {:.4g} "
                        "are planned for: {} GPUs instead of {}",
                        after, ahead / 60, before, gpus_in_use(planned->target.plan),
                        gpus_in_use(target.plan)),
            Why::gain);
}

bool Loop::Work::worth_it(const Planned& planned) const {
  const DampingSettings& damping = world_.settings.damping;
  const Difference differs = difference(memory_.target, planned.target);
  const int gpus = gpus_in_use(memory_.target->plan) - gpus_in_use(planned.target.plan);
  const auto made = static_cast<double>(differs.made.size());
  if (gpus < 1 || gpus * damping.lasts_s / 3600 < damping.min_gain_gpu_hours * made) return false;
  if (takes_back(use_, memory_.target, planned.target, just_made())) return false;
  return std::ranges::none_of(
             differs.services,
             [&](const std::string& one) { return cooling(memory_.services_touched, one); }) &&
         std::ranges::none_of(differs.gpus, [&](const std::string& one) {
           return cooling(memory_.gpus_touched, one);
         });
}

std::optional<actuate::Change> Loop::Work::change_to(const Target& target) {
  const auto verdict = judge_target(world_, use_, {services_, target}, memo_);
  if (!verdict) return {};
  auto change =
      actuate::planned_change({state_, assignment_, journal_}, wanted_now(target, *verdict),
                              apply_options(world_.settings), {}, world_.catalogue);
  if (!change) return {};
  return *std::move(change);
}

void Loop::Work::settle_on(Planned planned, const std::string& cause, Why why) {
  Target target = std::move(planned.target);
  target.planned_ms = now_;
  target.services = services_key();
  target.gain = why == Why::gain;
  const Difference differs = difference(memory_.target, target);
  const bool same = memory_.target && differs.services.empty() && target.reduced.empty() &&
                    memory_.target->reduced.empty() && mode() != Mode::observe;
  if (same && why != Why::person) return rerate(std::move(target));
  target.change = ++memory_.changes;
  target.cause = cause;
  ChangeNow shown;
  shown.number = target.change;
  shown.cause = cause;
  shown.planned_ms = now_;
  shown.plan = target.plan;
  shown.explanation = target.plan.explanation;
  if (auto change = change_to(target)) shown.change = *std::move(change);
  std::string detail = to_string(planned.changes);
  if (!target.reduced.empty()) detail += "; " + target.reduced;
  record(history::EventKind::proposed,
         {.change = target.change,
          .cause = cause,
          .detail = detail,
          .documents = {{"plan", forms::plan_json(target.plan)},
                        {"change", actuate::change_json(shown.change)}}});
  if (!target.reduced.empty())
    tell(NoticeKind::slo_risk, "reduced:" + target.reduced, "", target.reduced, target.change);
  proposed_ = std::move(shown);
  if (mode() == Mode::automatic) {
    adopt(std::move(target), "agent", "the mode is automatic");
    return;
  }
  memory_.proposal = std::move(target);
  if (why != Why::gain)
    tell(NoticeKind::approval, waits_key(memory_.proposal->change), "",
         fmt::format("change {} waits for approval: {}", memory_.proposal->change, cause),
         memory_.proposal->change);
}

// The same instances carry other rates: no change of the node, only what is promised.
void Loop::Work::rerate(Target target) {
  target.change = memory_.target->change;
  target.cause = memory_.target->cause;
  rerated_ = memory_.target->done || rerated_;
  fresh_ = true;
  memory_.target = std::move(target);
  judged_.reset();
  judge_says_.clear();
}

void Loop::Work::adopt(Target target, const std::string& user, const std::string& sentence) {
  over(waits_key(target.change));
  rerated_ = false;
  fresh_ = true;
  const Difference differs = difference(memory_.target, target);
  const auto touch = [&](std::vector<Touched>& all, const std::vector<std::string>& subjects) {
    for (const std::string& subject : subjects) {
      std::erase_if(all, [&](const Touched& one) { return one.subject == subject; });
      all.push_back({subject, now_});
    }
    const double cooldown_ms = world_.settings.damping.cooldown_s * 1000;
    std::erase_if(all, [&](const Touched& one) {
      return static_cast<double>(now_ - one.at_ms) >= cooldown_ms;
    });
    std::ranges::sort(all, {}, &Touched::subject);
  };
  touch(memory_.services_touched, differs.services);
  touch(memory_.gpus_touched, differs.gpus);
  std::erase_if(memory_.moves, [&](const MovesAt& one) { return now_ - one.at_ms >= kBudgetMs; });
  if (!differs.made.empty() && memory_.target)
    memory_.moves.push_back({now_, static_cast<int>(differs.made.size())});
  memory_.made = just_made();
  for (MadeAt one : differs.made) {
    one.at_ms = now_;
    memory_.made.push_back(std::move(one));
  }
  record(history::EventKind::approved, {.change = target.change,
                                        .user = user,
                                        .cause = target.cause,
                                        .outcome = history::Outcome::succeeded,
                                        .detail = sentence});
  if (memory_.target) memory_.before = memory_.target;
  memory_.target = std::move(target);
  memory_.proposal.reset();
  judged_.reset();
  judge_says_.clear();
  stuck_.clear();
  in_vain_ = 0;
  retry_ms_ = 0;
  pause_s_ = 0;
}

void Loop::Work::drop_proposal(const std::string& why) {
  if (!memory_.proposal) return;
  over(waits_key(memory_.proposal->change));
  record(history::EventKind::rejected, {.change = memory_.proposal->change,
                                        .cause = why,
                                        .outcome = history::Outcome::refused,
                                        .detail = "superseded"});
  memory_.proposal.reset();
  proposed_.reset();
}

Result<ChangeNow> Loop::Work::preview(const std::string& text) const {
  Work other(world_, memory_, memory_.changes);
  const bool sent = is_plan(text);
  if (!sent)
    if (const auto parsed = forms::parse_services_file("services", text); !parsed)
      return failed(parsed.error());
  if (!node_known_) return failed({ErrorCode::environment, "the node cannot be read now", ""});
  other.node_known_ = true;
  other.now_ = now_;
  other.state_ = state_;
  other.assignment_ = assignment_;
  other.journal_ = journal_;
  other.use_ = use_;
  other.meters_ = meters_;
  if (!sent) other.memory_.services = text;
  other.load_services();
  other.meters_.begin(other.services_, meters_.known());
  const auto planned =
      sent ? other.given(text)
           : other.plan(other.want_now(world_.settings.forecast.horizon_s, true), {}, true);
  if (!planned) return failed(planned.error());
  ChangeNow shown;
  shown.cause = "a preview";
  shown.planned_ms = now_;
  shown.plan = planned->target.plan;
  shown.explanation = planned->target.plan.explanation;
  if (!planned->target.reduced.empty())
    shown.explanation.insert(shown.explanation.begin(), planned->target.reduced);
  if (auto change = other.change_to(planned->target)) shown.change = *std::move(change);
  return shown;
}

}  // namespace partita::control
