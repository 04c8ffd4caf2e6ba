#include "act/executor.h"

#include <fmt/format.h>

#include <algorithm>

#include "act/capacity.h"
#include "plan/streams.h"

namespace partita::actuate {
namespace {

constexpr std::int64_t kPollNs = 20'000'000;  // between two looks at who holds an instance

std::int64_t ns(Seconds time) { return static_cast<std::int64_t>(time.value * 1e9); }

}  // namespace

Error interrupted_error(bool untouched) {
  return {ErrorCode::environment,
          untouched
              ? "interrupted; nothing was changed"
              : "interrupted; `partita apply` again goes on, `partita apply --rollback` goes back",
          ""};
}

Done Notebook::note(const Record& record) {
  const Note question{record};
  const Result<void> noted = co_await talk.ask(question);
  if (noted) follow(journal, record);
  co_return noted;
}

Done Notebook::assign(const Assignment& wanted) {
  Assignment next = wanted;
  ++next.revision;
  next.services = services_amid(services, next);
  std::ranges::sort(next.segments, {}, &AssignedSegment::device);
  // Also when it could not be written: what the next attempt writes must be newer.
  assignment = next;
  const Assign question{next};
  co_return co_await talk.ask(question);
}

Done Executor::run(const Change& change, const device::NodeState& state) {
  // The supervisor waits for streams of what runs now.
  Seconds streams = plan::kUsualDrain;
  for (const plan::Terms& one : book_.assignment.services)
    if (one.tokens) streams = std::max(streams, plan::drain_of(one));
  drain_timeout_ = options_.drain_timeout + (streams - plan::kUsualDrain);
  change_ = &change;
  there_.clear();
  stopped_.clear();
  unconfirmed_.clear();
  for (const device::GpuState& gpu : state.gpus) {
    models_[gpu.index] = gpu.model;
    if (!gpu.lost && !gpu.mig_enabled) index_[gpu.uuid] = gpu.index;
    if (gpu.lost) continue;  // what was there may come back, nobody knows when
    for (const device::Instance& one : gpu.instances)
      there_[{gpu.index, one.start, one.profile}] = {one.gi_id, one.compute};
  }
  for (const AssignedSegment& one : book_.assignment.segments) note_group(one);
  for (step_ = 0; step_ < change.steps.size(); ++step_) {
    if (change.steps[step_].kind == Step::Kind::stop) {
      const Result<void> confirmed = co_await confirm(&change.steps[step_]);
      if (!confirmed) co_return confirmed;
    }
    if (talk_.interrupted && may_stop_before(step_)) {
      const Result<void> back = co_await put_back();
      if (!back) co_return back;
      co_return failed(interrupted_error(false));
    }
    talk_.tell({ApplyEvent::Kind::step, change_, step_, ""});
    const Result<void> done = co_await carry_out(change.steps[step_]);
    if (!done) co_return done;
    talk_.tell({ApplyEvent::Kind::done_step, change_, step_, ""});
  }
  if (unconfirmed_.empty()) co_return {};
  step_ = change.steps.size() - 1;  // what is waited for belongs to it
  co_return co_await confirm(nullptr);
}

// Nothing is left half made.
bool Executor::may_stop_before(std::size_t step) const {
  if (step == 0) return true;
  const Step::Kind before = change_->steps[step - 1].kind;
  return before != Step::Kind::create_instance && before != Step::Kind::destroy_compute;
}

Done Executor::put_back() {
  Assignment next = book_.assignment;
  for (const auto& [key, segment] : stopped_) {
    const auto same = [&](const AssignedSegment& one) { return one.device == segment.device; };
    if (std::ranges::none_of(next.segments, same)) next.segments.push_back(segment);
  }
  stopped_.clear();
  if (next == book_.assignment) co_return {};
  co_return co_await book_.assign(next);
}

Done Executor::carry_out(const Step& step) {
  switch (step.kind) {
    case Step::Kind::enable_mig:
    case Step::Kind::disable_mig:
      return set_mig(step);
    case Step::Kind::create_instance:
      return create_instance(step);
    case Step::Kind::create_compute:
      return create_compute(step);
    case Step::Kind::start:
      return start(step);
    case Step::Kind::stop:
      return stop(step);
    case Step::Kind::drain:
      return drain(step);
    case Step::Kind::destroy_compute:
      return destroy_compute(step);
    case Step::Kind::destroy_instance:
      return destroy_instance(step);
  }
  return put_back();  // there is no other kind
}

// The segment of a group, on those of its GPUs that are there, MIG being off.
void Executor::note_group(const AssignedSegment& segment) {
  for (const std::string& uuid : whole_gpus(segment.device))
    if (const auto gpu = index_.find(uuid); gpu != index_.end())
      there_[{gpu->second, segment.start, segment.profile}] = {
          kWholeGpu, {{.ci_id = 0, .gpcs = 0, .uuid = segment.device}}};
}

// A group that was stopped cannot go back to a GPU that is something else now.
void Executor::forget_stopped(const std::string& gpu_uuid) {
  std::erase_if(stopped_, [&](const auto& one) {
    const std::vector<std::string> whole = whole_gpus(one.second.device);
    return std::ranges::count(whole, gpu_uuid) > 0;
  });
}

Done Executor::set_mig(const Step& step) {
  // A worker that has only just been told to end might find itself on an instance.
  const Result<void> free = co_await drain(step);
  if (!free) co_return free;
  ++driver_calls_;
  const bool on = step.kind == Step::Kind::enable_mig;
  const SetMig question{step.place.gpu, on};
  const Result<device::ModeChange> mode = co_await talk_.ask(question);
  if (!mode) co_return failed(mode.error());
  forget_stopped(step.place.gpu_uuid);
  index_.erase(step.place.gpu_uuid);
  if (!on) index_[step.place.gpu_uuid] = step.place.gpu;
  if (*mode == device::ModeChange::done) co_return {};
  std::string why = "MIG mode is stored and takes effect after a reset";
  if (options_.allow_reset && options_.can_reset) {
    const ResetGpu reset{step.place.gpu};
    const Result<void> done = co_await talk_.ask(reset);
    if (done) co_return {};
    if (done.error().code != ErrorCode::reset_required) co_return failed(done.error());
    why += ", and " + done.error().message;
  }
  Error error{
      ErrorCode::reset_required,
      fmt::format("{}: run nvidia-smi --gpu-reset -i {}, then apply again", why, step.place.gpu),
      fmt::format("gpu {}", step.place.gpu)};
  co_return failed(std::move(error));
}

bool Executor::intended(const Place& place) const {
  return std::ranges::count(book_.journal.intended, place) > 0;
}

Done Executor::create_instance(const Step& step) {
  const Place& place = step.place;
  const Result<int> number = nvml_enum(place);
  if (!number) co_return failed(number.error());
  const Record intent = IntentRecord{place};
  const Result<void> noted = co_await book_.note(intent);
  if (!noted) co_return noted;
  ++driver_calls_;
  const CreateInstance question{place.gpu, {*number, place.start}};
  const Result<int> made = co_await talk_.ask(question);
  if (!made) co_return failed(made.error());
  there_[{place.gpu, place.start, place.profile}] = {*made, {}};
  co_return {};
}

// The board's number of the profile; the catalogue's entry of that name says it.
Result<int> Executor::nvml_enum(const Place& place) const {
  if (const hw::GpuModel* model = catalogue_.find(models_.at(place.gpu))) {
    const int profile = model->profile_index(place.profile);
    if (profile >= 0) return model->profiles[static_cast<std::size_t>(profile)].nvml_enum;
  }
  return bad_input(to_string(place), "the catalogue does not know this profile");
}

Done Executor::create_compute(const Step& step) {
  const Place& place = step.place;
  if (!intended(place)) {  // what others left half made
    const Record intent = IntentRecord{place};
    const Result<void> noted = co_await book_.note(intent);
    if (!noted) co_return noted;
  }
  ++driver_calls_;
  const CreateCompute question{place.gpu, there(place).gi_id};
  const Result<device::ComputeInstance> made = co_await talk_.ask(question);
  if (!made) co_return failed(made.error());
  there(place).compute = {*made};
  const Record record = MadeRecord{place, made->uuid};
  co_return co_await book_.note(record);
}

Done Executor::start(const Step& step) {
  const Place& place = step.place;
  for (const std::string& uuid : whole_gpus(step.devices)) {
    Step free = step;
    free.place = {{}, index_.at(uuid), uuid};
    const Result<void> drained = co_await drain(free);
    if (!drained) co_return drained;
    forget_stopped(uuid);
  }
  AssignedSegment group;
  group.device = step.devices;
  group.profile = place.profile;
  note_group(group);
  const std::string device = there(place).compute.front().uuid;
  Assignment next = book_.assignment;
  std::erase_if(next.segments, [&](const auto& one) { return one.device == device; });
  next.segments.push_back({place, step.segment, device, place.gpu_uuid});
  const AssignedSegment started = next.segments.back();
  const Result<void> written = co_await book_.assign(next);
  if (!written) co_return written;
  const AskGateway question;
  const Result<GatewaySeen> seen = co_await talk_.ask(question);
  if (!seen) co_return failed(seen.error());
  if (!seen->state) co_return co_await wait_until_ready(step, device);
  // It is waited for before anything is stopped; until then others may start as well.
  unconfirmed_.push_back({started, book_.assignment.revision});
  co_return {};
}

namespace {

bool ready_on(const GatewayState& gateway, const AssignedSegment& segment) {
  const auto ready = std::ranges::count_if(gateway.workers, [&](const GatewayWorker& one) {
    return one.device == segment.device && one.service == segment.service &&
           one.state == WorkerReadiness::ready;
  });
  return ready >= segment.processes;
}

// How much of its service's capacity a segment is.
double weight_of(const AssignedSegment& segment) {
  return segment.throughput_rps > 0 ? segment.throughput_rps : segment.processes;
}

}  // namespace

std::string Executor::missing(const GatewayState& gateway) const {
  for (const Unconfirmed& one : unconfirmed_) {
    if (gateway.revision >= one.revision && ready_on(gateway, one.segment)) continue;
    return fmt::format("the workers of {} on {} to be ready", one.segment.service,
                       one.segment.device);
  }
  return {};
}

bool Executor::is_there(const std::string& device) const {
  return std::ranges::any_of(there_, [&](const auto& one) {
    return std::ranges::count(one.second.compute, device, &device::ComputeInstance::uuid) > 0;
  });
}

// Whether it would leave less than is to stay up, and more is yet to come: segments on a GPU that
// is lost, or on devices that are gone, do not come.
std::string Executor::too_little(const GatewayState& gateway, const Step& stopping) const {
  const std::string& service = stopping.segment.service;
  const auto told = std::ranges::find(gateway.services, service, &GatewayService::name);
  if (told == gateway.services.end()) return {};
  const There& now = there_.at({stopping.place.gpu, stopping.place.start, stopping.place.profile});
  double ready = 0, going = 0;
  bool all = true, planned = true;
  for (const AssignedSegment& one : book_.assignment.segments) {
    if (one.service != service || !is_there(one.device)) continue;
    const bool goes =
        std::ranges::count(now.compute, one.device, &device::ComputeInstance::uuid) > 0;
    const bool up = ready_on(gateway, one);
    if (up) (goes ? going : ready) += weight_of(one);
    all = all && (up || goes);
    planned = planned && one.throughput_rps > 0;
  }
  // The gateway tells one capacity per service, of full batches, which need not be shared as
  // planned: a large segment may be planned for little. What is planned for those that stay holds.
  const double both = ready + going;
  double left = both > 0 ? told->capacity_rps * ready / both : 0;
  if (planned) left = std::min(left, ready);
  const double needed = options_.min_available * told->rate_rps;
  if (all || reaches(left, needed)) return {};
  return fmt::format("{} to have {:.4g}/s ready without {}; it would have {:.4g}/s", service,
                     needed, to_string(stopping.place), left);
}

Done Executor::confirm(const Step* stopping) {
  if (unconfirmed_.empty() && (stopping == nullptr || options_.min_available <= 0)) co_return {};
  const Seconds patience =
      options_.ready_timeout.value > 0 ? options_.ready_timeout : kGatewayReadyTimeout;
  const std::int64_t until = talk_.now + ns(patience);
  std::string text;
  bool told = false;
  while (true) {
    const AskGateway question;
    const Result<GatewaySeen> seen = co_await talk_.ask(question);
    if (!seen) co_return failed(seen.error());
    text = seen->state ? missing(*seen->state) : std::string{};
    if (seen->state && text.empty() && stopping != nullptr)
      text = too_little(*seen->state, *stopping);
    if (text.empty()) unconfirmed_.clear();
    if (text.empty() || talk_.interrupted) co_return {};
    if (!told) talk_.tell({ApplyEvent::Kind::waiting, change_, step_, text});
    told = true;
    if (talk_.now >= until) break;
    co_await talk_.until(talk_.now + kPollNs);
  }
  waited_in_vain_ = true;
  Error error{ErrorCode::timeout,
              fmt::format("waited {} s for {}; is the supervisor running?", patience.value, text),
              stopping != nullptr ? to_string(stopping->place) : std::string()};
  co_return failed(std::move(error));
}

Done Executor::wait_until_ready(const Step& step, const std::string& device) {
  if (options_.ready_timeout.value <= 0) co_return {};
  const std::int64_t until = talk_.now + ns(options_.ready_timeout);
  AskUsers question = users_of(step.place);
  question.devices.clear();  // workers that hold nothing are not ready
  while (true) {
    const Result<Users> users = co_await talk_.ask(question);
    if (!users) co_return failed(users.error());
    if (!users->holders.empty() || talk_.interrupted) co_return {};
    if (talk_.now >= until) break;
    co_await talk_.until(talk_.now + kPollNs);
  }
  waited_in_vain_ = true;
  Error error{ErrorCode::timeout,
              fmt::format("no process of {} came up on {} within {} s; is the supervisor running?",
                          step.segment.service, device, options_.ready_timeout.value),
              to_string(step.place)};
  co_return failed(std::move(error));
}

Done Executor::stop(const Step& step) {
  const Place& place = step.place;
  Assignment next = book_.assignment;
  for (const device::ComputeInstance& compute : there(place).compute) {
    const auto found = std::ranges::find(next.segments, compute.uuid, &AssignedSegment::device);
    if (found == next.segments.end()) continue;
    stopped_[{place.gpu, place.start, place.profile}] = *found;
    next.segments.erase(found);
  }
  co_return co_await book_.assign(next);
}

// The driver knows who has opened the instance; a worker that has only just been started has not.
AskUsers Executor::users_of(const Place& place) const {
  const auto found = there_.find({place.gpu, place.start, place.profile});
  if (found == there_.end() || found->second.gi_id == kWholeGpu)
    return {place, kWholeGpu, {place.gpu_uuid}, book_.assignment.revision};
  const There& now = found->second;
  AskUsers question{place, now.gi_id, {}, book_.assignment.revision};
  for (const device::ComputeInstance& one : now.compute) question.devices.push_back(one.uuid);
  return question;
}

Done Executor::drain(const Step& step) {
  const std::int64_t until = talk_.now + ns(drain_timeout_);
  const AskUsers question = users_of(step.place);
  bool told = false;
  while (true) {
    const Result<Users> users = co_await talk_.ask(question);
    if (!users) co_return failed(users.error());
    if (users->text.empty()) co_return {};
    if (!told) talk_.tell({ApplyEvent::Kind::waiting, change_, step_, users->text});
    told = true;
    if (talk_.now < until && !talk_.interrupted) {
      co_await talk_.until(talk_.now + kPollNs);
      continue;
    }
    waited_in_vain_ = true;
    const Result<void> back = co_await put_back();
    if (!back) co_return back;
    if (talk_.interrupted) co_return failed(interrupted_error(false));
    Error error{ErrorCode::in_use,
                fmt::format("still held by {} after {} s", users->text, drain_timeout_.value),
                to_string(step.place)};
    co_return failed(std::move(error));
  }
}

template <class Question>
Done Executor::once_free(const Question& question) {
  const std::int64_t until = talk_.now + ns(drain_timeout_);
  while (true) {
    ++driver_calls_;
    const Result<void> done = co_await talk_.ask(question);
    const bool held = !done && done.error().code == ErrorCode::in_use;
    waited_in_vain_ = held && (talk_.now >= until || talk_.interrupted);
    if (!held || waited_in_vain_) co_return done;
    co_await talk_.until(talk_.now + kPollNs);
  }
}

Done Executor::destroy_compute(const Step& step) {
  const Place& place = step.place;
  while (!there(place).compute.empty()) {
    const device::ComputeInstance one = there(place).compute.back();
    const bool ours = std::ranges::count(book_.journal.owned, one.uuid) > 0;
    // Without it, its GPU instance is still ours but has no UUID to know it by.
    if (ours) {
      const Record intent = IntentRecord{place};
      const Result<void> noted = co_await book_.note(intent);
      if (!noted) co_return noted;
    }
    const DestroyCompute question{place.gpu, there(place).gi_id, one.ci_id};
    const Result<void> gone = co_await once_free(question);
    if (!gone) co_return gone;
    there(place).compute.pop_back();
    stopped_.erase({place.gpu, place.start, place.profile});
    if (!ours) continue;
    const Record record = GoneRecord{one.uuid};
    const Result<void> noted = co_await book_.note(record);
    if (!noted) co_return noted;
  }
  co_return {};
}

Done Executor::destroy_instance(const Step& step) {
  const Place& place = step.place;
  const DestroyInstance question{place.gpu, there(place).gi_id};
  const Result<void> gone = co_await once_free(question);
  if (!gone) co_return gone;
  if (!intended(place)) co_return {};
  const Record record = MadeRecord{place, ""};
  co_return co_await book_.note(record);
}

}  // namespace partita::actuate
