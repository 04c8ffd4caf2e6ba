#include "serve/gateway/worker_desk.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/cases.h"
#include "base/index.h"
#include "base/parse_number.h"

namespace partita::serve {
namespace {

constexpr std::uint32_t kMostSlots = 65536;
constexpr Nanos kPaused = 50'000'000;  // a look that comes so late: it was we who did not run

// "STATE_FILE:DEVICE:INDEX", as the supervisor names a worker's place.
struct Place {
  std::string device;
  int index = 0;
};
std::optional<Place> parse_place(const std::string& text) {
  const std::size_t last = text.rfind(':');
  if (last == std::string::npos || last == 0) return std::nullopt;
  const std::size_t before = text.rfind(':', last - 1);
  if (before == std::string::npos) return std::nullopt;
  const std::optional<int> index = parse_number<int>(text.substr(last + 1));
  if (!index || *index < 0) return std::nullopt;
  return Place{text.substr(before + 1, last - before - 1), *index};
}

// What the dispatcher is to reckon with: the measured times up to the largest batch that is used,
// straight lines between them. A larger batch is never taken for a quicker one: that is noise.
profile::BatchCurve curve_of(const std::vector<CurvePoint>& measured, int max_batch) {
  profile::BatchCurve curve;
  CurvePoint before = measured.front();
  before.batch = 0;  // what is smaller than the smallest takes as long
  for (CurvePoint point : measured) {
    point.nanos = std::max(point.nanos, before.nanos);
    for (int n = before.batch + 1; n <= std::min(point.batch, max_batch); ++n) {
      const double part = static_cast<double>(n - before.batch) / (point.batch - before.batch);
      const double took =
          std::lerp(static_cast<double>(before.nanos), static_cast<double>(point.nanos), part);
      curve.steps.push_back({n, Millis{took / 1e6}});
    }
    before = point;
  }
  return curve;
}

// That there are some, of larger and larger batches, is the frame's rule.
bool sound(const std::vector<CurvePoint>& curve) {
  return std::ranges::all_of(curve, [](const CurvePoint& one) { return one.nanos >= 1; });
}

}  // namespace

std::string WorkerDesk::Seat::name() const {
  return fmt::format("worker {} of {} on {}, process {}", index, service->wanted.name, device, pid);
}

WorkerDesk::WorkerDesk(Ground ground)
    : ground_(std::move(ground)),
      send_frame_(
          [this](WorkerId worker, const Frame& frame) { links_->send(worker, encode(frame)); }),
      hang_watch_(std::make_unique<Loop::Timer>(
          ground_.loop, [this](std::int64_t due) { look_for_hanging(due); })) {}

Result<std::unique_ptr<WorkerDesk>> WorkerDesk::open(Ground ground) {
  std::unique_ptr<WorkerDesk> made(new WorkerDesk(std::move(ground)));
  WorkerDesk* const desk = made.get();
  made->links_ = TRY(WorkerLinks::open(
      desk->ground_.loop, desk->ground_.options.link_path,
      {.heard = [desk](WorkerId worker, const UnixPeer& peer,
                       Frame frame) { desk->heard(worker, peer, std::move(frame)); },
       .gone = [desk](WorkerId worker, const std::string& why) { desk->gone(worker, why); }}));
  return made;
}

void WorkerDesk::run(LiveService& service, Batch batch) {
  Run run{.batch = batch.id, .deadline = batch.deadline};
  run.slots.reserve(batch.items.size());
  for (const Item& item : batch.items) {
    LiveRequest& asked = ground_.requests.at(item.request);
    run.slots.push_back(asked.slots[item.index]);
    if (asked.waits) begun(asked);
  }
  encode_run(run, run_frame_);
  links_->send(batch.worker, run_frame_);
  service.batches.emplace(batch.id, std::move(batch));
  if (hang_watch_->pending()) return;  // and looks at all that run by then
  const Nanos overdue = service.brain.pool().first_overdue(hang_after(service, ground_.options));
  if (overdue != plan::kForever) hang_watch_->at(overdue);
}

void WorkerDesk::cancel(LiveService& service,
                        const std::vector<std::pair<BatchId, std::uint32_t>>& rows) {
  std::map<BatchId, std::vector<std::uint32_t>> cancelled;
  for (const auto& [batch, index] : rows) cancelled[batch].push_back(index);
  for (auto& [batch, items] : cancelled) {
    const auto found = service.batches.find(batch);
    if (found != service.batches.end())
      links_->send(found->second.worker, encode(Cancel{batch, std::move(items)}));
  }
}

void WorkerDesk::follow_segments(const LiveService& service) {
  for (auto& [worker, seat] : seats_) {
    if (seat.service.get() != &service || !seat.placed) continue;
    const bool assigned =
        std::any_of(service.wanted.segments.begin(), service.wanted.segments.end(),
                    [&](const ServedSegment& segment) { return segment.device == seat.device; });
    if (!assigned) leave(worker, seat);
  }
}

void WorkerDesk::drain(const LiveService& service) {
  for (auto& [worker, seat] : seats_)
    if (seat.service.get() == &service) links_->send(worker, encode(Drain{}));
}

void WorkerDesk::tell(const LiveService& service, const Joint& joint, int descriptor) {
  for (const auto& [worker, seat] : seats_)
    if (seat.service.get() == &service) links_->send(worker, encode(joint), descriptor);
}

void WorkerDesk::changed() {
  if (change_posted_ || !on_change_) return;
  change_posted_ = true;
  ground_.loop.post([this] {
    change_posted_ = false;
    on_change_();
  });
}

void WorkerDesk::refuse(WorkerId worker, const std::string& why) {
  ground_.say(fmt::format("a worker is refused: {}", why));
  links_->send(worker, encode(Refused{why.substr(0, 1000)}));
  links_->close(worker);
  if (seats_.contains(worker)) gone(worker, why);
}

void WorkerDesk::heard(WorkerId worker, const UnixPeer& peer, Frame heard) {
  if (const Hello* hello = std::get_if<Hello>(&heard)) return greet(worker, peer, *hello);
  const auto found = seats_.find(worker);
  if (found == seats_.end()) return refuse(worker, "it did not say HELLO first");
  Seat& seat = found->second;
  const auto of_state = [&](const auto& frame) {
    const std::shared_ptr<LiveService> service = seat.service;
    service->moves.hear(ground_of(*service, send_frame_), worker, frame);
    ground_.step(service);
  };
  std::visit(Cases{[&](const Ready& frame) { ready(worker, seat, frame); },
                   [&](const Done& frame) { done(worker, seat, frame); },
                   [&](const Part& frame) { part(seat, frame); },
                   [&](const Leaving&) { leave(worker, seat); },
                   [&](const StatePart& frame) { of_state(frame); },
                   [&](const FetchState& frame) { of_state(frame); },
                   [&](const Drained&) {},  // its connection ends next
                   [&](const auto&) { refuse(worker, "it sent what only gateways send"); }},
             heard);
}

// Empty, or why that model cannot be what the service serves now.
std::string WorkerDesk::admit_model(LiveService& service, const ModelSpec& model) {
  if (const Result<void> checked = check_model("the model", model); !checked)
    return to_string(checked.error());
  const bool fits = service.slots && service.slots->model().kind == model.kind &&
                    service.slots->model().sequences == model.sequences &&
                    service.slots->model().set == model.set &&
                    service.slots->model().inputs == model.inputs &&
                    service.slots->model().outputs == model.outputs;
  if (fits) return "";
  if (service.slots) {
    const bool others = std::any_of(seats_.begin(), seats_.end(), [&](const auto& entry) {
      return entry.second.service.get() == &service;
    });
    if (others || !service.slots->unused()) {
      return fmt::format("its model takes or gives other tensors than the workers of '{}' that run",
                         service.wanted.name);
    }
  }
  Result<SlotPool> slots = SlotPool::make(model, ground_.options.memory_bytes, kMostSlots);
  if (!slots) return to_string(slots.error());
  service.slots.emplace(*std::move(slots));
  return "";
}

void WorkerDesk::greet(WorkerId worker, const UnixPeer& peer, const Hello& hello) {
  if (seats_.contains(worker)) return refuse(worker, "it said HELLO twice");
  const auto assigned = ground_.services.find(hello.service);
  if (assigned == ground_.services.end())
    return refuse(worker, fmt::format("no service '{}' is assigned here", hello.service));
  const std::shared_ptr<LiveService> service = assigned->second;
  std::string fault = admit_model(*service, hello.model);
  if (fault.empty() && hello.model.set != service->wanted.models.has_value())
    fault = fmt::format("'{}' is {}", hello.service,
                        hello.model.set ? "no set of models, as it has"
                                        : "a set of models, and it has one (--hold-models)");
  if (!fault.empty()) return refuse(worker, fault);
  Seat seat{.service = service, .device = fmt::format("process-{}", peer.pid)};
  seat.pid = peer.pid;
  seat.max_batch = hello.model.max_batch;
  if (const std::optional<Place> place = parse_place(hello.place)) {
    seat.device = place->device;
    seat.index = place->index;
    for (const ServedSegment& segment : service->wanted.segments) {
      if (segment.device != seat.device) continue;
      seat.placed = true;
      if (segment.batch > 0) seat.max_batch = std::min(seat.max_batch, segment.batch);
    }
  }
  service->model = hello.model;
  forget_answers(*service);  // its model may be another one
  if (const std::string line = follow_cache(*service, ground_.options); !line.empty())
    ground_.say(line);
  service->brain.configure(settings_of(service->wanted, ground_.options, !service->streams()));
  const SlotMemory& memory = service->slots->memory();
  const Region region{.slot_bytes = memory.slot_bytes(), .slots = memory.slots()};
  links_->send(worker, encode(region), memory.fd());
  for (const auto& pages : service->joints)
    links_->send(worker, encode(pages->joint), pages->memory->get());
  seats_.emplace(worker, std::move(seat));
  changed();
}

void WorkerDesk::ready(WorkerId worker, Seat& seat, const Ready& frame) {
  if (seat.state != Seat::State::warming || !sound(frame.curve))
    return refuse(worker, "its READY makes no sense");
  seat.state = Seat::State::ready;
  const std::shared_ptr<LiveService> service = seat.service;
  // Servers of streams batch by themselves: each request goes to them at once, alone.
  const bool streams = service->streams();
  service->brain.join(worker, {.device = seat.device,
                               .curve = curve_of(frame.curve, streams ? 1 : seat.max_batch),
                               .at_once = streams ? seat.max_batch : 1});
  service->sequences.join(worker);
  ++service->segments[seat.device].ready_workers;
  ground_.say(fmt::format("{} is ready", seat.name()));
  changed();
  ground_.step(service);
}

void WorkerDesk::done(WorkerId worker, Seat& seat, const Done& frame) {
  const std::shared_ptr<LiveService> service = seat.service;
  if (const auto late = service->abandoned.find(frame.batch);
      late != service->abandoned.end() && late->second.worker == worker) {
    for (const std::uint32_t slot : late->second.slots) service->slots->give_back(slot);
    service->abandoned.erase(late);
    return awake_again(worker, seat);
  }
  const auto found = service->batches.find(frame.batch);
  const bool expected = found != service->batches.end() && found->second.worker == worker &&
                        found->second.items.size() == frame.status.size();
  if (!expected) return refuse(worker, "its DONE is of no batch that it has");
  const Batch batch = std::move(found->second);
  service->batches.erase(found);
  const auto failed = std::make_unique<bool[]>(batch.items.size());
  const RequestId first = batch.items.front().request;
  // What a worker says of a batch may be about somebody else's row: who fails hears it alone.
  const bool shared = std::any_of(batch.items.begin(), batch.items.end(),
                                  [&](const Item& item) { return item.request != first; });
  for (std::size_t i = 0; i < batch.items.size(); ++i) {
    failed[i] = frame.status[i] != ItemStatus::ok;
    if (!failed[i]) continue;
    ground_.requests.at(batch.items[i].request).message =
        shared ? "the batch that it ran in failed, and it must not run again" : frame.message;
  }
  service->totals.execution_ns += frame.nanos;
  service->totals.values += frame.values;
  service->totals.padding += frame.padding;
  service->totals.set.add(frame.set, batch.items.size());
  if (frame.set.loads > 0)
    for (const Item& item : batch.items) ground_.requests.at(item.request).cold = true;
  SegmentTotals& totals = service->segments[seat.device];
  ++totals.batches;
  totals.held = static_cast<int>(frame.set.held);
  totals.items += static_cast<long>(batch.items.size());
  totals.busy += frame.nanos;
  service->brain.done(Loop::now_ns(), batch.id, {failed.get(), batch.items.size()});
  ground_.requests.forget_released(batch.items);
  ground_.step(service);
}

void WorkerDesk::part(Seat& seat, const Part& frame) {
  const auto found = seat.service->batches.find(frame.batch);
  if (found == seat.service->batches.end() || frame.item >= found->second.items.size()) return;
  const auto asked = ground_.requests.by_id.find(found->second.items[frame.item].request);
  if (asked == ground_.requests.by_id.end() || asked->second.state != LiveRequest::State::submitted)
    return;
  const auto piece = asked->second.completion.piece;  // it may release the request
  if (!piece) return;
  piece({.http_status = static_cast<int>(frame.http_status),
         .content_type = frame.content_type,
         .bytes = frame.bytes});
}

void WorkerDesk::leave(WorkerId worker, Seat& seat) {
  if (seat.state == Seat::State::leaving) return;
  forget_answers(*seat.service);
  const bool was_ready = seat.state == Seat::State::ready;
  seat.state = Seat::State::leaving;
  changed();
  if (!was_ready) {
    links_->send(worker, encode(Drain{}));
    return;
  }
  --seat.service->segments[seat.device].ready_workers;
  seat.service->brain.leave(worker);
  seat.service->moves.leave(ground_of(*seat.service, send_frame_), worker);
  ground_.step(seat.service);
}

void WorkerDesk::gone(WorkerId worker, const std::string& why) {
  const auto found = seats_.find(worker);
  if (found == seats_.end()) return;
  const Seat seat = std::move(found->second);
  seats_.erase(found);
  changed();
  const std::shared_ptr<LiveService>& service = seat.service;
  forget_answers(*service);
  std::vector<Item> had;
  std::erase_if(service->batches, [&](const auto& batch) {
    if (batch.second.worker != worker) return false;
    had.insert(had.end(), batch.second.items.begin(), batch.second.items.end());
    return true;
  });
  ground_.doubt(had);
  service->moves.lose(ground_of(*service, send_frame_), worker);
  std::erase_if(service->abandoned, [&](const auto& entry) {
    if (entry.second.worker != worker) return false;
    for (const std::uint32_t slot : entry.second.slots) service->slots->give_back(slot);
    return true;
  });
  if (!had.empty() || seat.hangs) {
    losses_.push_back({seat.device, seat.index, seat.pid});
    if (losses_.size() > kMostWorkerLosses) losses_.pop_front();
  }
  if (seat.state == Seat::State::ready) --service->segments[seat.device].ready_workers;
  if (seat.state != Seat::State::leaving || !had.empty()) {
    ground_.say(fmt::format("{} is gone: {}{}", seat.name(), why,
                            had.empty() ? "" : fmt::format("; it had {} rows", had.size())));
  }
  service->brain.lose(Loop::now_ns(), worker);
  ground_.requests.forget_released(had);
  ground_.step(service);
}

// ---- workers that hang ----

void WorkerDesk::look_for_hanging(Nanos due) {
  const Nanos now = Loop::now_ns();
  // Their answers lie unread: they come before the next look.
  if (now - due > kPaused) return hang_watch_->at(now + kPaused);
  std::vector<std::shared_ptr<LiveService>> all;
  for (const auto& [name, service] : ground_.services) all.push_back(service);
  Nanos next = plan::kForever;
  for (const std::shared_ptr<LiveService>& service : all) {
    const Nanos grace = hang_after(*service, ground_.options);
    for (const WorkerId worker : service->brain.pool().overdue(now, grace)) {
      const auto seat = seats_.find(worker);
      if (seat != seats_.end()) take_back(worker, seat->second);
    }
    next = std::min(next, service->brain.pool().first_overdue(grace));
  }
  if (next != plan::kForever) hang_watch_->at(next);
}

// Its rows move to other slots, since it may still write to the ones it has.
void WorkerDesk::take_back(WorkerId worker, Seat& seat) {
  if (seat.hangs) return;
  const std::shared_ptr<LiveService> service = seat.service;
  seat.hangs = true;
  std::vector<Item> had;
  std::erase_if(service->batches, [&](const auto& batch) {
    if (batch.second.worker != worker) return false;
    Abandoned& abandoned = service->abandoned[batch.first];
    abandoned = {.worker = worker, .since = ground_.loop.awake_ns()};
    for (const Item& item : batch.second.items) move_to_fresh_slot(item, abandoned);
    had.insert(had.end(), batch.second.items.begin(), batch.second.items.end());
    return true;
  });
  ground_.say(
      fmt::format("{} hangs: the {} rows that it had are taken back", seat.name(), had.size()));
  ground_.doubt(had);
  service->moves.lose(ground_of(*service, send_frame_), worker);  // nobody knows how far it came
  service->brain.take_back(Loop::now_ns(), worker);
  ground_.requests.forget_released(had);
  changed();
  ground_.step(service);
}

void WorkerDesk::move_to_fresh_slot(const Item& item, Abandoned& abandoned) {
  LiveRequest& asked = ground_.requests.at(item.request);
  SlotPool& slots = *asked.service->slots;
  std::uint32_t& slot = asked.slots[item.index];
  abandoned.slots.push_back(slot);
  const std::optional<std::uint32_t> fresh =
      asked.state == LiveRequest::State::submitted ? slots.take() : std::nullopt;
  if (fresh) {
    slots.copy_inputs(slot, *fresh);
    slot = *fresh;
    return;
  }
  slot = kNoSlot;
  if (asked.state != LiveRequest::State::submitted) return;
  // No memory to run it again. It still counts as running until the batch is taken back.
  ground_.caches.leave(asked);
  asked.state = LiveRequest::State::finished;
  asked.service->brain.cancel(item.request);
  ++asked.service->totals.given_up;
  const Completion completion = std::move(asked.completion);
  ground_.loop.post([completion] {
    completion.ended(Denial{.kind = Denial::Kind::expired, .message = "its worker hangs"});
  });
}

// It has ended the batch that was taken back; where batches can be late, it has one at a time.
void WorkerDesk::awake_again(WorkerId worker, Seat& seat) {
  seat.hangs = false;
  if (!seat.silent) seat.service->brain.suspend(worker, false);
  if (seat.state == Seat::State::ready) seat.service->sequences.join(worker);
  ground_.say(fmt::format("{} goes on", seat.name()));
  changed();
  ground_.step(seat.service);
}

// A worker that hangs still holds slots, and might write to them: only its end frees them.
void WorkerDesk::end(WorkerId worker, Seat& seat, const std::string& why) {
  if (std::exchange(seat.ended, true)) return;
  ground_.say(fmt::format("{} is killed: {}", seat.name(), why));
  if (::kill(static_cast<pid_t>(seat.pid), SIGKILL) != 0) {
    ground_.say(
        fmt::format("{} cannot be killed; requests that it has stay unanswered", seat.name()));
    leave(worker, seat);
  }
}

void WorkerDesk::look_after() {
  for (const auto& [name, service] : ground_.services)
    for (const auto& [batch, abandoned] : service->abandoned) {
      const auto seat = seats_.find(abandoned.worker);
      if (ground_.loop.awake_ns() - abandoned.since > ground_.options.dead_after &&
          seat != seats_.end())
        end(abandoned.worker, seat->second, "its batch does not end");
    }
  for (auto& [worker, seat] : seats_) {
    const Nanos ago = links_->heard_ago(worker);
    const bool silent = ago > ground_.options.silent_after;
    if (silent != seat.silent && seat.state == Seat::State::ready) {
      seat.silent = silent;
      seat.service->brain.suspend(worker, silent || seat.hangs);
      ground_.step(seat.service);
      changed();
    }
    if (ago > ground_.options.dead_after) end(worker, seat, "it does not answer any more");
  }
}

std::vector<WorkerView> WorkerDesk::views() const {
  std::vector<WorkerView> views;
  for (const auto& [worker, seat] : seats_) {
    const Nanos ago = links_->heard_ago(worker);
    const char* state = seat.state == Seat::State::warming   ? "warming"
                        : seat.state == Seat::State::leaving ? "leaving"
                        : seat.silent                        ? "silent"
                                                             : "ready";
    views.push_back({seat.device, seat.service->wanted.name, state, seat.index, seat.pid, ago});
  }
  return views;
}

}  // namespace partita::serve
