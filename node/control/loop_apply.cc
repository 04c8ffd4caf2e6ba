// From the plan in force to the node, as loop_work.h says.
#include <fmt/format.h>

#include <algorithm>

#include "control/loop_work.h"
#include "decide/reasons.h"

namespace partita::control {
namespace {

constexpr int kEmptyingTries = 3;  // of a GPU with errors; later ones come seldom
constexpr int kMostInVain = 3;     // attempts at a plan before another one is made

bool is_ours(const actuate::JournalState& journal, const actuate::Assignment& assignment,
             const device::Instance& instance) {
  return std::ranges::count(journal.owned, instance.uuid()) > 0 ||
         std::ranges::count(assignment.segments, instance.uuid(),
                            &actuate::AssignedSegment::device) > 0;
}

// Whether segments are assigned to devices that are no more. Those of a lost GPU may come back.
bool names_what_is_gone(const actuate::Assignment& assignment, const device::NodeState& state) {
  return std::ranges::any_of(assignment.segments, [&](const actuate::AssignedSegment& one) {
    const device::GpuState* gpu = state.find(one.gpu_uuid);
    if (gpu == nullptr) return true;
    return !gpu->lost && std::ranges::none_of(gpu->instances, [&](const device::Instance& there) {
      return there.uuid() == one.device;
    });
  });
}

}  // namespace

const std::optional<plan::Judged<plan::ServingPlan>>& Loop::Work::judged() {
  if (judged_ || !memory_.target) return judged_;
  auto verdict = judge_target(world_, use_, {services_, *memory_.target}, memo_);
  if (verdict) {
    judged_ = *std::move(verdict);
  } else {
    judge_says_ =
        "the judge refuses the plan in force now: " + to_string(verdict.error().violations.front());
  }
  return judged_;
}

std::string Loop::Work::drift_text(const actuate::Change& change) const {
  std::size_t wanted = change.keep.size() + change.create.size();
  std::string text = fmt::format("{} of {} instances of change {} are not there",
                                 change.create.size(), wanted, memory_.target->change);
  if (change.create.empty() && !change.reassign.empty())
    text = fmt::format("{} of {} instances of change {} do not run what they should",
                       change.reassign.size(), wanted, memory_.target->change);
  if (!change.destroy.empty())
    text += fmt::format(", {} are there that should not be", change.destroy.size());
  return text;
}

// False: nothing is to be brought about.
bool Loop::Work::is_as_wanted() {
  if (told_drift_)
    tell(NoticeKind::drift, "drift", "", "the node was not as planned and is so again",
         repair_number_);
  untell("drift");
  if (!memory_.target->done && repair_number_ < memory_.target->change) begin_cooldown();
  memory_.target->done = true;
  rerated_ = false;
  verify_ = false;
  told_drift_ = false;
  pause_s_ = 0;
  in_vain_ = 0;
  stuck_.clear();
  return false;
}

// A cooldown is counted from when a change was there, not from when it was decided.
void Loop::Work::begin_cooldown() {
  const auto begin = [this](auto& all) {
    for (auto& one : all)
      if (one.at_ms >= memory_.target->planned_ms) one.at_ms = now_;
  };
  begin(memory_.services_touched);
  begin(memory_.gpus_touched);
  begin(memory_.made);
}

bool Loop::Work::still_as_wanted(const actuate::Wanted& wanted) const {
  return settled_ && memory_.target->done && !told_drift_ && !verify_ &&
         settled_->state == state_ && settled_->assignment == assignment_ &&
         settled_->wanted == wanted && settled_->journal == journal_;
}

void Loop::Work::count_drift(const actuate::Change& change) {
  told_drift_ = true;
  ++memory_.drifts;
  record(history::EventKind::repair,
         {.change = memory_.target->change,
          .cause = drift_text(change),
          .detail = mode() == Mode::observe ? "only observed" : "the plan in force is made again"});
}

// True while the node is not as the target wants it, whatever is done about that.
bool Loop::Work::bring_about() {
  if (!memory_.target) return false;
  if (!judged()) {
    doing_ = judge_says_;
    return false;
  }
  Target& target = *memory_.target;
  const actuate::Wanted wanted = wanted_now(target, *judged_);
  if (mode() != Mode::observe && waits_for_batches(wanted)) return true;
  if (wanted.gpus.empty()) {
    doing_ = "no GPU can be used for services";
    return false;
  }
  if (still_as_wanted(wanted)) return is_as_wanted();
  auto change = actuate::planned_change({state_, assignment_, journal_}, wanted,
                                        apply_options(world_.settings), {}, world_.catalogue);
  if (!change) {
    doing_ = "the node cannot become as planned: " + to_string(change.error());
    tell(NoticeKind::failed_change, "plan_change", "", doing_, target.change);
    return true;
  }
  untell("plan_change");
  if (change->empty() && !verify_ && mode() != Mode::observe && now_ >= retry_ms_ &&
      names_what_is_gone(assignment_, state_)) {
    apply(wanted, *std::move(change), target.cause, false);  // it strikes them out
    return true;
  }
  const bool promised = std::ranges::equal(assignment_.services, wanted.services);
  if (change->empty() && (target.done || promised || verify_)) {
    is_as_wanted();
    if (!names_what_is_gone(assignment_, state_))
      settled_ = Settled{state_, assignment_, journal_, wanted};
    return false;
  }
  if (verify_) {
    verify_ = false;
    ended_badly({ErrorCode::environment,
                 "read back, the node is not as wanted: " + drift_text(*change), ""},
                false);
  }
  const bool drift = target.done;
  if (drift && !told_drift_) count_drift(*change);
  if (mode() == Mode::observe) {
    doing_ = "only observing: " + drift_text(*change);
    tell(NoticeKind::other, "observe", "", doing_);
    return true;
  }
  untell("observe");
  if (now_ < retry_ms_) {
    wake_ms_ = std::min(wake_ms_, retry_ms_);
    doing_ = fmt::format("tries again in {} s", (retry_ms_ - now_ + 999) / 1000);
    return true;
  }
  const std::string cause = drift ? drift_text(*change) : target.cause;
  if (drift) {
    repair_number_ = ++memory_.changes;
    target.done = false;
  }
  apply(wanted, *std::move(change), cause, repair_number_ > target.change);
  return true;
}

// GPUs that were taken out are emptied once the plan in force does without them.
bool Loop::Work::empty_out_gpus() {
  if (mode() == Mode::observe || !node_known_ || now_ < retry_ms_) return false;
  for (const OutGpu& out : memory_.out) {
    const device::GpuState* gpu = state_.find(out.uuid);
    if (gpu == nullptr || gpu->lost || gpu->model.empty() || is_lent(out.uuid)) continue;
    const bool planned_with =
        memory_.target && std::ranges::count(memory_.target->gpus, out.uuid, &GpuNamed::uuid) > 0 &&
        !use_.usable.empty();
    const bool empty = std::ranges::none_of(gpu->instances, [&](const device::Instance& one) {
      return is_ours(journal_, assignment_, one);
    });
    int& tries = emptying_[out.uuid];
    if (empty) tries = 0;
    if (planned_with || empty || (tries >= kEmptyingTries && !may_try(out.uuid, ""))) continue;
    actuate::Wanted wanted;
    if (memory_.target && judged()) wanted = wanted_now(*memory_.target, *judged_);
    if (waits_for_batches(wanted)) continue;
    wanted.gpus.push_back({gpu->model, gpu->uuid, {}, gpu->index});
    auto change = actuate::planned_change({state_, assignment_, journal_}, wanted,
                                          apply_options(world_.settings), {}, world_.catalogue);
    if (!change || change->empty()) continue;
    if (++tries >= kEmptyingTries) tried(out.uuid, "", world_.settings.longest_pause_s);
    repair_number_ = ++memory_.changes;
    apply(wanted, *std::move(change), out.why + ": it is emptied", true);
    under_->emptying = true;
    return true;
  }
  return false;
}

void Loop::Work::apply(actuate::Wanted wanted, actuate::Change change, const std::string& cause,
                       bool repair) {
  const Target* target = memory_.target ? &*memory_.target : nullptr;
  Under under;
  under.number = repair || target == nullptr ? repair_number_ : target->change;
  under.repair = repair;
  under.cause = cause;
  under.shown.number = under.number;
  under.shown.state = ChangeState::applying;
  under.shown.cause = cause;
  under.shown.planned_ms = now_;
  if (target != nullptr) {
    under.shown.plan = target->plan;
    under.shown.explanation = change.explanation;
  }
  under.shown.change = std::move(change);
  if (!under.shown.change.empty())  // else only what is promised is written down
    record(
        history::EventKind::applying,
        {.change = under.number, .cause = cause, .detail = to_string(under.shown.change.changes)});
  deeds_.apply = ApplyDeed{under.number,
                           std::move(wanted),
                           apply_options(world_.settings),
                           world_.settings.hooks_before,
                           world_.settings.hooks_after,
                           repair};
  if (under.shown.change.empty()) {
    deeds_.apply->hooks_before.clear();
    deeds_.apply->hooks_after.clear();
  }
  proposed_.reset();
  under_ = std::move(under);
  if (!under_->shown.change.empty())
    doing_ = fmt::format("change {} is made: {}", under_->number, cause);
}

void Loop::Work::watch_apply(const Seen& seen) {
  if (!under_) return;
  if (under_->shown.change.empty()) return;
  under_->shown.steps_done = seen.apply_steps;
  doing_ = fmt::format("change {} is made, {} of {} steps are done: {}", under_->number,
                       seen.apply_steps, under_->shown.change.steps.size(), under_->cause);
}

void Loop::Work::hear_ends(const Seen& seen) {
  for (const ApplyEnd& end : seen.ended) {
    if (!under_ || end.change != under_->number) continue;
    if (end.outcome)
      ended_well();
    else
      ended_badly(end.outcome.error(), under_->stopping);
    under_.reset();
  }
}

void Loop::Work::ended_well() {
  verify_ = !under_->emptying;
  untell("apply");
  if (under_->shown.change.empty()) return;
  last_ = under_->shown;
  last_->state = ChangeState::succeeded;
  last_->ended_ms = now_;
  last_->steps_done = last_->change.steps.size();
  record(history::EventKind::applied, {.change = under_->number,
                                       .cause = under_->cause,
                                       .outcome = history::Outcome::succeeded,
                                       .detail = to_string(last_->change.changes)});
  ++made_;
}

void Loop::Work::ended_badly(const Error& error, bool stopped) {
  const Settings& settings = world_.settings;
  const long number = under_ ? under_->number : memory_.target ? memory_.target->change : 0;
  if (under_) {
    last_ = under_->shown;
    last_->state = ChangeState::failed;
    last_->ended_ms = now_;
    last_->error = to_string(error);
  }
  record(history::EventKind::applied,
         {.change = number,
          .cause = under_ ? under_->cause : std::string("what was read back"),
          .outcome = stopped ? history::Outcome::interrupted : history::Outcome::failed,
          .detail = to_string(error)});
  if (stopped) return;
  ++memory_.failed_changes;
  pause_s_ =
      pause_s_ == 0 ? settings.first_pause_s : std::min(pause_s_ * 2, settings.longest_pause_s);
  retry_ms_ = now_ + static_cast<std::int64_t>(pause_s_ * 1000);
  // What could not be brought about so often may never be: a process that does not come.
  if (!(under_ && under_->emptying) && ++in_vain_ >= kMostInVain) {
    stuck_ =
        fmt::format("change {} could not be made {} times: {}", number, in_vain_, to_string(error));
    in_vain_ = 0;
  }
  tell(NoticeKind::failed_change, "apply", "",
       fmt::format("change {} was not made: {}; it is tried again", number, to_string(error)),
       number);
}

}  // namespace partita::control
