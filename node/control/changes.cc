#include "control/changes.h"

#include <fmt/format.h>

#include <algorithm>

#include "act/change_forms.h"

namespace partita::control {
namespace {

constexpr int kEmptyingTries = 3;  // of a GPU with errors; later ones come seldom
constexpr int kMostInVain = 3;     // attempts at a plan before another one is made

// Whether segments are assigned to devices that are no more. Those of a lost GPU may come back.
bool names_what_is_gone(const NodeView& node) {
  return std::ranges::any_of(node.assignment.segments, [&](const actuate::AssignedSegment& one) {
    const device::GpuState* gpu = node.state.find(one.gpu_uuid);
    return gpu == nullptr || (!gpu->lost && !node.has(one));
  });
}

std::string drift_text(const Target& target, const actuate::Change& change) {
  const std::size_t wanted = change.keep.size() + change.create.size();
  std::string text = fmt::format("{} of {} instances of change {} are not there",
                                 change.create.size(), wanted, target.change);
  if (change.create.empty() && !change.reassign.empty())
    text = fmt::format("{} of {} instances of change {} do not run what they should",
                       change.reassign.size(), wanted, target.change);
  if (!change.destroy.empty())
    text += fmt::format(", {} are there that should not be", change.destroy.size());
  return text;
}

}  // namespace

// Another target begins with no failures.
void Changes::begin_target(const ChangeGround& ground) {
  if (!ground.target || ground.target->change == target_) return;
  target_ = ground.target->change;
  in_vain_ = 0;
  retry_ms_ = 0;
  pause_s_ = 0;
}

Progress Changes::as_wanted(const Target& target) {
  if (told_drift_)
    report_.tell(NoticeKind::drift, "drift", "", "the node was not as planned and is so again",
                 repair_number_);
  report_.untell("drift");
  report_.over("observe");
  verify_ = false;
  told_drift_ = false;
  pause_s_ = 0;
  in_vain_ = 0;
  return {.is_there = true, .by_repair = repair_number_ >= target.change};
}

bool Changes::still_as_wanted(const actuate::Wanted& wanted, const ChangeGround& ground) const {
  return settled_ && ground.target->done && !told_drift_ && !verify_ &&
         settled_->state == ground.node.state && settled_->assignment == ground.node.assignment &&
         settled_->wanted == wanted && settled_->journal == ground.node.journal;
}

void Changes::count_drift(const Target& target, const actuate::Change& change, Mode mode) {
  told_drift_ = true;
  ++kept_.drifts;
  report_.record(
      history::EventKind::repair,
      {.change = target.change,
       .cause = drift_text(target, change),
       .detail = mode == Mode::observe ? "only observed" : "the plan in force is made again"});
}

bool Changes::waits_for_batches(const actuate::Wanted& wanted, const NodeView& node) {
  const std::optional<int> gpu = lent_of(node, wanted);
  if (gpu) report_.doing = fmt::format("waits until a batch has left gpu {}", *gpu);
  return gpu.has_value();
}

Progress Changes::bring_about(const ChangeGround& ground) {
  begin_target(ground);
  if (!ground.target) return {};
  const Target& target = *ground.target;
  const NodeView& node = ground.node;
  const bool observes = ground.mode == Mode::observe;
  if (ground.judged == nullptr) {
    report_.doing = ground.refusal;
    return {};
  }
  const actuate::Wanted wanted = wanted_of(node, *ground.judged, target);
  if (!observes && waits_for_batches(wanted, node)) return {.busy = true};
  if (wanted.gpus.empty()) {
    report_.doing = "no GPU can be used for services";
    return {};
  }
  if (still_as_wanted(wanted, ground)) return as_wanted(target);
  auto change = change_to(world_, node, wanted);
  if (!change) {
    report_.doing = "the node cannot become as planned: " + to_string(change.error());
    report_.tell(NoticeKind::failed_change, "plan_change", "", report_.doing, target.change);
    return {.busy = true};
  }
  report_.over("plan_change");
  if (change->empty() && !verify_ && !observes && ground.now_ms >= retry_ms_ &&
      names_what_is_gone(node))  // apply strikes them out
    return {.busy = true,
            .apply = apply(wanted, *std::move(change), {target.change, target.cause}, ground)};
  const bool promised = std::ranges::equal(node.assignment.services, wanted.services);
  // What the apply that has ended wrote down was other terms: those of now are still to be written.
  if (change->empty() && wanted.services != written_) verify_ = false;
  if (change->empty() && (target.done || promised || verify_)) {
    Progress progress = as_wanted(target);
    if (!names_what_is_gone(node))
      settled_ = Settled{node.state, node.assignment, node.journal, wanted};
    return progress;
  }
  return make(wanted, *std::move(change), ground);
}

// The node is not as wanted.
Progress Changes::make(const actuate::Wanted& wanted, actuate::Change change,
                       const ChangeGround& ground) {
  const Target& target = *ground.target;
  const std::string differs = drift_text(target, change);
  Progress progress{.busy = true};
  if (verify_) {
    verify_ = false;
    progress.cannot_be =
        end_badly({ErrorCode::environment, "read back, the node is not as wanted: " + differs, ""},
                  false, ground);
  }
  const bool drift = target.done;
  if (drift && !told_drift_) count_drift(target, change, ground.mode);
  if (ground.mode == Mode::observe) {
    report_.doing = "only observing: " + differs;
    report_.tell(NoticeKind::other, "observe", "", report_.doing);
    return progress;
  }
  report_.untell("observe");
  if (ground.now_ms < retry_ms_) {
    report_.look_by(retry_ms_);
    report_.doing = fmt::format("tries again in {} s", (retry_ms_ - ground.now_ms + 999) / 1000);
    return progress;
  }
  if (drift) {
    repair_number_ = progress.changes = ground.changes + 1;
    progress.is_not_there = true;
  }
  progress.apply =
      apply(wanted, std::move(change),
            {std::max(repair_number_, target.change), drift ? differs : target.cause}, ground);
  return progress;
}

Progress Changes::empty(const std::vector<OutGpu>& out, const ChangeGround& ground) {
  begin_target(ground);
  const NodeView& node = ground.node;
  if (ground.mode == Mode::observe || !node.known || ground.now_ms < retry_ms_) return {};
  for (const OutGpu& one : out) {
    const device::GpuState* gpu = node.state.find(one.uuid);
    if (gpu == nullptr || gpu->lost || gpu->model.empty() || node.lent.contains(one.uuid)) continue;
    const bool planned_with =
        ground.target && std::ranges::count(ground.target->gpus, one.uuid, &GpuNamed::uuid) > 0 &&
        !node.use.usable.empty();
    const bool empty = std::ranges::none_of(
        gpu->instances, [&](const device::Instance& there) { return node.is_ours(there); });
    int& tries = emptying_[one.uuid];
    if (empty) tries = 0;
    const bool later = tries >= kEmptyingTries && !tries_.may(one.uuid, "", ground.now_ms);
    if (planned_with || empty || later) continue;
    actuate::Wanted wanted;
    if (ground.judged != nullptr) wanted = wanted_of(node, *ground.judged, *ground.target);
    if (waits_for_batches(wanted, node)) continue;
    wanted.gpus.push_back({gpu->model, gpu->uuid, {}, gpu->index});
    auto change = change_to(world_, node, wanted);
    if (!change || change->empty()) continue;
    if (++tries >= kEmptyingTries)
      tries_.note(one.uuid, "", world_.settings.longest_pause_s, ground.now_ms);
    repair_number_ = ground.changes + 1;
    ApplyDeed deed = apply(wanted, *std::move(change),
                           {repair_number_, one.why + ": it is emptied", true}, ground);
    return {.busy = true, .apply = std::move(deed), .changes = repair_number_};
  }
  return {};
}

ApplyDeed Changes::apply(actuate::Wanted wanted, actuate::Change change, Under under,
                         const ChangeGround& ground) {
  const bool repair = !ground.target || under.number != ground.target->change;
  under.shown.number = under.number;
  under.shown.state = ChangeState::applying;
  under.shown.cause = under.cause;
  under.shown.planned_ms = ground.now_ms;
  if (ground.target) {
    under.shown.plan = ground.target->plan;
    under.shown.explanation = change.explanation;
  }
  under.shown.change = std::move(change);
  const Settings& settings = world_.settings;
  written_ = wanted.services;
  ApplyDeed deed{under.number, std::move(wanted), apply_options(settings), {}, {}, repair};
  if (!under.writes()) {
    report_.record(history::EventKind::applying, {.change = under.number,
                                                  .cause = under.cause,
                                                  .detail = to_string(under.shown.change.changes)});
    deed.hooks_before = settings.hooks_before;
    deed.hooks_after = settings.hooks_after;
    report_.doing = fmt::format("change {} is made: {}", under.number, under.cause);
  }
  under_ = std::move(under);
  return deed;
}

void Changes::watch(std::size_t steps_done) {
  if (!under_ || under_->writes()) return;
  under_->shown.steps_done = steps_done;
  report_.doing = fmt::format("change {} is made, {} of {} steps are done: {}", under_->number,
                              steps_done, under_->shown.change.steps.size(), under_->cause);
}

std::optional<long> Changes::stop() {
  if (!under_) return {};
  under_->stopping = true;
  return under_->number;
}

void Changes::reject(ChangeNow change, const std::string& why, std::int64_t now_ms) {
  last_ = std::move(change);
  last_->state = ChangeState::rejected;
  last_->ended_ms = now_ms;
  last_->error = why;
}

Progress Changes::hear(const std::vector<ApplyEnd>& ends, const ChangeGround& ground) {
  begin_target(ground);
  Progress progress;
  for (const ApplyEnd& end : ends) {
    if (!under_ || end.change != under_->number) continue;
    if (end.outcome)
      end_well(ground.now_ms);
    else
      progress.cannot_be = end_badly(end.outcome.error(), under_->stopping, ground);
    under_.reset();
  }
  return progress;
}

void Changes::end_well(std::int64_t now_ms) {
  verify_ = !under_->emptying;
  report_.over("apply");
  if (under_->writes()) return;
  last_ = under_->shown;
  last_->state = ChangeState::succeeded;
  last_->ended_ms = now_ms;
  last_->steps_done = last_->change.steps.size();
  report_.record(history::EventKind::applied, {.change = under_->number,
                                               .cause = under_->cause,
                                               .outcome = history::Outcome::succeeded,
                                               .detail = actuate::instances_text(last_->change)});
  ++made_;
}

// Why the target may never be; empty: it is tried again.
std::string Changes::end_badly(const Error& error, bool stopped, const ChangeGround& ground) {
  const Settings& settings = world_.settings;
  const long number = under_ ? under_->number : ground.target ? ground.target->change : 0;
  if (under_) {
    last_ = under_->shown;
    last_->state = ChangeState::failed;
    last_->ended_ms = ground.now_ms;
    last_->error = to_string(error);
  }
  report_.record(history::EventKind::applied,
                 {.change = number,
                  .cause = under_ ? under_->cause : std::string("what was read back"),
                  .outcome = stopped ? history::Outcome::interrupted : history::Outcome::failed,
                  .detail = to_string(error)});
  if (stopped) return {};
  ++kept_.failed_changes;
  pause_s_ =
      pause_s_ == 0 ? settings.first_pause_s : std::min(pause_s_ * 2, settings.longest_pause_s);
  retry_ms_ = ground.now_ms + static_cast<std::int64_t>(pause_s_ * 1000);
  std::string cannot_be;
  // What could not be brought about so often may never be: a process that does not come.
  if (!(under_ && under_->emptying) && ++in_vain_ >= kMostInVain) {
    cannot_be =
        fmt::format("change {} could not be made {} times: {}", number, in_vain_, to_string(error));
    in_vain_ = 0;
  }
  report_.tell(
      NoticeKind::failed_change, "apply", "",
      fmt::format("change {} was not made: {}; it is tried again", number, to_string(error)),
      number);
  return cannot_be;
}

}  // namespace partita::control
