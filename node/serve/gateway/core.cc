#include "serve/gateway/core.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/index.h"
#include "serve/gateway/core_impl.h"
#include "serve/gateway/pipelines.h"
#include "serve/gateway/worker_desk.h"
#include "serve/wire/slot_trace.h"

namespace partita::serve {
namespace {

constexpr auto kHalfWindow = static_cast<Nanos>(actuate::kTrafficStretch / 2 * 1e9);
constexpr Nanos kLookEvery = 500'000'000;
constexpr double kRateWeight = 0.15;  // of the newest half second

std::uint64_t wall_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

double milliseconds(Nanos time) { return static_cast<double>(time) / 1e6; }

Denial denial_of(std::string_view service, const Admission& admission) {
  Denial denial;
  denial.retry_after_ns = admission.retry_after;
  switch (admission.refusal) {
    case Refusal::no_worker:
      denial.kind = Denial::Kind::not_ready;
      denial.elsewhere = true;
      denial.message = fmt::format("no worker of '{}' is ready", service);
      break;
    case Refusal::queue_full:
      denial.kind = Denial::Kind::overloaded;
      denial.elsewhere = true;
      denial.message = fmt::format("the queue of '{}' is full", service);
      break;
    case Refusal::predicted_miss:
      denial.kind = Denial::Kind::would_be_late;
      denial.elsewhere = true;
      denial.message = fmt::format("'{}' would answer {:.1f} ms too late", service,
                                   milliseconds(admission.retry_after));
      break;
    case Refusal::too_many_items:
      denial.kind = Denial::Kind::too_large;
      denial.message = fmt::format("'{}' never takes so many rows at once", service);
      break;
    case Refusal::none:
      break;
  }
  return denial;
}

ServiceSnapshot snapshot_of(const LiveService& service) {
  ServiceSnapshot snapshot;
  snapshot.terms = service.wanted;
  const Nanos at = Loop::now_ns();
  snapshot.p50 = service.recent.percentile(50, at);
  snapshot.p99 = service.recent.percentile(99, at);
  snapshot.capacity_rps = service.brain.pool().capacity_rps();
  snapshot.rate_rps = service.rate_rps;
  snapshot.queued = service.brain.queued();
  snapshot.ready_workers = service.brain.pool().size();
  if (service.slots) {
    snapshot.slots = service.slots->slots();
    snapshot.free_slots = service.slots->free() + service.slots->free_apart();
  }
  snapshot.counters = service.brain.counters();
  snapshot.totals = service.totals;
  snapshot.segments = service.segments;
  snapshot.usage = service.usage;
  snapshot.sequences = service.sequences.size();
  snapshot.moves = service.moves.totals();
  snapshot.cache = totals_of(service.cache.get());
  return snapshot;
}

// Whether nothing is let in to the service, or not this: of a set a request says which model it is
// for.
std::optional<Denial> shut(const LiveService& service, const RequestHead& head, bool closed) {
  if (closed || !service.loaded)
    return Denial{.kind = Denial::Kind::not_ready,
                  .message = closed ? "this gateway is shutting down"
                                    : fmt::format("'{}' was unloaded", head.service),
                  .elsewhere = closed};
  if (!service.model || !service.model->set) return std::nullopt;
  if (!head.model.empty() && fits_slot_model(head.model)) return std::nullopt;
  return Denial{
      .kind = Denial::Kind::bad_request,
      .message = fmt::format("'{}' is a set of models: ask for one of them", head.service)};
}

std::vector<actuate::KeyCounts> counts_of(const std::map<std::string, KeyUsage, std::less<>>& all) {
  std::vector<actuate::KeyCounts> counts;
  for (const auto& [key, usage] : all)
    counts.push_back({.key = key,
                      .answered = static_cast<double>(usage.answered),
                      .refused = static_cast<double>(usage.over_limit + usage.over_share),
                      .bytes = static_cast<double>(usage.bytes)});
  return counts;
}

long over_limits(const ServiceSnapshot& service) {
  long all = 0;
  for (const auto& [key, usage] : service.usage) all += usage.over_limit;
  return all;
}

// Of services and pipelines, by name.
std::vector<ServiceSnapshot> snapshots_of(const Services& services, const Pipelines& pipelines) {
  std::vector<ServiceSnapshot> all = pipelines.snapshots();
  for (const auto& [name, service] : services) all.push_back(snapshot_of(*service));
  std::ranges::sort(all, {}, [](const ServiceSnapshot& one) { return one.terms.name; });
  return all;
}

// What its key's limits say. Counts it as under way where they let it in.
std::optional<Denial> over_limit(Keys& keys, const RequestHead& head, Nanos now) {
  if (head.again) {
    keys.again(head.client);
    return std::nullopt;
  }
  const Nanos wait = keys.ask(head.client, *head.limits, head.bytes, now);
  if (wait == 0) return std::nullopt;
  return Denial{.kind = Denial::Kind::slowed,
                .message = "this key is over its limit: requests or bytes per second, or at once",
                .retry_after_ns = wait};
}

Denial not_here(std::string_view service) {
  return {.kind = Denial::Kind::unknown_model,
          .message = fmt::format("no service '{}' here", service),
          .elsewhere = true};
}

Denial counted(const Denial& over, LiveService& service, const RequestHead& head) {
  ++service.usage[std::string(head.client)].over_limit;
  service.brain.refused(OwnerRefusal::slowed);
  ++service.totals.withdrawn;  // of no concern to how the service does
  return over;
}

// Whether its key's share of the service lets it in now.
tl::expected<std::optional<double>, Denial> share(LiveService& service, const RequestHead& head,
                                                  Nanos now) {
  const double depth = service.brain.depth();
  if (head.limits == nullptr || depth <= 0) return std::nullopt;
  const auto tag = service.shares.may(head.client, head.limits->weight, depth, now);
  if (tag) return tag;
  ++service.usage[std::string(head.client)].over_share;
  service.brain.refused(OwnerRefusal::share, head.again);
  return tl::unexpected<Denial>(
      {.kind = Denial::Kind::overloaded,
       .message = fmt::format("more is asked of '{}' than it carries, and this key is ahead of "
                              "its share",
                              head.service),
       .retry_after_ns = std::max<Nanos>(nanos_of(slo_of(service.wanted)) / 2, 1)});
}

// What its key has of the service with it.
void let_in(LiveRequest& asked, const RequestHead& head, std::optional<double> tag) {
  asked.tag = tag.value_or(0);
  if (tag) asked.service->shares.let_in(head.client, *tag, head.items);
  if (head.again) return;
  KeyUsage& usage = asked.service->usage[asked.client];
  usage.rows += head.items;
  usage.bytes += head.bytes;
}

Denial slowed(LiveService& service, const RequestHead& head, Nanos wait) {
  if (!head.again) {  // of no concern to how the service does
    service.brain.refused(OwnerRefusal::slowed);
    ++service.totals.withdrawn;
  }
  return {.kind = Denial::Kind::slowed,
          .message = fmt::format("{}'s requests crashed workers; retry one at a time", head.client),
          .retry_after_ns = wait};
}

// A place under way of a key, given back where the request is not let in.
class KeyPlace {
 public:
  KeyPlace(Keys& keys, std::string_view key) : keys_(&keys), key_(key) {}
  KeyPlace(const KeyPlace&) = delete;
  ~KeyPlace() {
    if (keys_ != nullptr) keys_->ended(key_);
  }
  void keep() { keys_ = nullptr; }

 private:
  Keys* keys_;
  std::string_view key_;
};

// What its sender is remembered for.
void judge(Senders& senders, const LiveRequest& asked, Outcome outcome) {
  if (asked.client.empty() || asked.trial_of) return;
  const Nanos now = Loop::now_ns();
  if (outcome == Outcome::done) {
    if (asked.suspect) senders.clear(asked.client);
    return senders.good(asked.client, now);
  }
  if (outcome == Outcome::harmful) {
    senders.harm(asked.client, now);
  } else if (asked.suspect && !asked.wish.trusted) {
    senders.suspicion(asked.client, now);
  } else if (outcome == Outcome::failed && asked.wish.idempotent) {  // else: perhaps of others
    senders.fault(asked.client, now);
  }
}

Wish wish_of(const RequestHead& head, const LiveService& service, const Senders& senders,
             Nanos now) {
  Wish wish{.items = head.items,
            .arrived = now,
            .priority = head.priority + (head.limits ? static_cast<int>(head.limits->priority) : 0),
            .idempotent = head.idempotent && !service.streams(),  // a part may be with the client
            .again = head.again,
            .trusted = head.client.empty() ? head.trusted : senders.proven(head.client),
            .doubted = senders.doubted(head.client, now)};
  if (head.timeout_ns) wish.deadline = now + *head.timeout_ns;
  wish.done_by = head.done_by;
  return wish;
}

}  // namespace

// ---- latencies ----

void RecentLatencies::turn(Nanos now) {
  if (now - turned_ < kHalfWindow) return;
  if (now - turned_ >= 2 * kHalfWindow) halves_[0].clear();
  std::swap(halves_[0], halves_[1]);
  halves_[0].clear();
  turned_ = now;
}

void RecentLatencies::add(Nanos now, Nanos latency) {
  turn(now);
  halves_[0].add(std::max<Nanos>(latency, 0));
}

// Of the half that has more to say.
Nanos RecentLatencies::percentile(double percent, Nanos now) const {
  if (now - turned_ >= 2 * kHalfWindow) return 0;
  const bool old = now - turned_ >= kHalfWindow;
  const bool newer = old || halves_[0].count() >= halves_[1].count();
  return halves_[newer ? 0 : 1].percentile(percent);
}

// ---- services ----

Millis slo_of(const plan::Terms& terms) { return terms.slo.value > 0 ? terms.slo : kUnsaidSlo; }

// What loads a model first takes so much longer; twice that is a worker that hangs.
Nanos hang_after(const LiveService& service, const CoreOptions& options) {
  constexpr int kSlowLoad = 2;
  const auto& set = service.wanted.models;
  return std::clamp(nanos_of(slo_of(service.wanted)), options.hang_after,
                    std::max(options.hang_after, options.silent_after)) +
         (set ? kSlowLoad * nanos_of(set->load) : 0);
}

ServiceSettings settings_of(const ServedService& service, const CoreOptions& options,
                            bool predictable) {
  int planned = 0;
  for (const ServedSegment& segment : service.segments) planned += std::max(1, segment.processes);
  return {.slo = nanos_of(slo_of(service)),
          .queue_limit = options.queue_limit,
          .planned_workers = planned,
          .shed = options.shed,
          .predictable = predictable};
}

Core::Impl::Impl(Loop& the_loop, CoreOptions the_options,
                 std::function<void(const std::string&)> the_say)
    : loop(the_loop),
      options(std::move(the_options)),
      choices(options),
      say(std::move(the_say)),
      desk(loop, requests, [this](const std::shared_ptr<LiveService>& one) { step(one); }) {
  housekeeping = std::make_unique<Loop::Timer>(loop, [this](std::int64_t) {
    const Nanos now = Loop::now_ns();
    look_after(now);
    housekeeping->at(now + kLookEvery);
  });
  housekeeping->at(Loop::now_ns() + kLookEvery);
}

std::shared_ptr<LiveService> Core::Impl::find(std::string_view name) const {
  const auto found = services.find(name);
  return found == services.end() ? nullptr : found->second;
}

void Core::Impl::serve(const std::vector<ServedService>& wanted) {
  std::set<std::string> names;
  sets.clear();
  for (const ServedService& service : wanted) {
    names.insert(service.name);
    if (service.models)
      for (const plan::SetModel& model : service.models->models)
        sets.emplace(model.name, service.name);
    std::shared_ptr<LiveService> here = find(service.name);
    if (!here) {
      here = std::make_shared<LiveService>(service, settings_of(service, options, true));
      // The service owns its timer, so the timer must not own the service.
      here->timer =
          std::make_unique<Loop::Timer>(loop, [this, weak = std::weak_ptr(here)](std::int64_t) {
            if (const auto alive = weak.lock()) step(alive);
          });
      services.emplace(service.name, here);
      if (const std::string line = choices.begin(*here); !line.empty()) say(line);
    }
    here->wanted = service;
    if (const std::string line = follow_cache(*here, options); !line.empty()) say(line);
    if (here->trial) here->trial->canary.promise(nanos_of(slo_of(service)));
    here->brain.configure(settings_of(service, options, !here->streams()));
    workers->follow_segments(*here);
    step(here);
  }
  for (auto entry = services.begin(); entry != services.end();) {
    const std::shared_ptr<LiveService> service = entry->second;
    if (names.contains(entry->first)) {
      ++entry;
    } else {
      entry = services.erase(entry);
      remove(*service);
    }
  }
  workers->changed();
}

void Core::Impl::remove(LiveService& service) {
  service.removed = true;
  if (service.cache) service.cache->flights.clear();
  workers->drain(service);
  std::vector<RequestId> open;
  for (auto& [id, request] : requests.by_id) {
    if (request.service.get() == &service && request.state == LiveRequest::State::submitted)
      open.push_back(id);
  }
  std::sort(open.begin(), open.end());
  for (const RequestId id : open) {
    LiveRequest& asked = requests.at(id);
    asked.state = LiveRequest::State::finished;
    asked.service->brain.cancel(id);
    const Completion completion = std::move(asked.completion);
    completion.ended(Denial{
        .kind = Denial::Kind::not_ready,
        .message = fmt::format("'{}' has just been taken out of service", service.wanted.name)});
  }
}

// What may happen now, happens. Completions may come back in here: they are served by the loop.
void Core::Impl::step(const std::shared_ptr<LiveService>& service) {
  service->step_again = true;
  if (service->stepping) return;
  service->stepping = true;
  while (std::exchange(service->step_again, false)) {
    Outputs outputs = service->brain.step(Loop::now_ns());
    for (Batch& batch : outputs.run) workers->run(*service, std::move(batch));
    for (const WorkerId worker : outputs.drain)
      service->moves.drain(ground_of(*service, workers->send_frame()), worker);
    if (outputs.wake_at == plan::kForever)
      service->timer->cancel();
    else
      service->timer->at(outputs.wake_at);
    for (const Finished& finished : outputs.finished) {
      const auto landing = service->cache ? desk.land(finished) : CacheDesk::Landing{};
      finish(finished);
      desk.tell_others(service, landing);
    }
  }
  service->stepping = false;
}

void Core::Impl::finish(const Finished& finished) {
  const auto found = requests.by_id.find(finished.request);
  if (found == requests.by_id.end()) return;  // released while it was on its way here
  LiveRequest& asked = found->second;
  LiveService& service = *asked.service;
  // The door may release the request from inside the call.
  const Completion completion = std::move(asked.completion);
  const Nanos now = Loop::now_ns();
  const Nanos latency = now - asked.wish.arrived;
  asked.state = LiveRequest::State::finished;
  const Sequences::Sequence* const sequence =
      asked.sequence ? service.sequences.find(*asked.sequence) : nullptr;
  const bool own = sequence != nullptr && sequence->number == asked.step.sequence;
  const bool lost = own && sequence->state == Sequences::State::lost;
  if (own && asked.step.ends) end_sequence(asked, finished.outcome, workers->send_frame());
  judge(senders, asked, finished.outcome);
  if (const std::string said = note_answer(asked, finished.outcome == Outcome::done, latency);
      !said.empty())
    say(said);
  if (finished.outcome == Outcome::done) {
    if (asked.tag) ++service.usage[asked.client].answered;
    service.recent.add(now, latency);
    if (asked.cold) service.totals.set.cold(service.wanted, latency);
    service.totals.success_ns += latency;
    service.totals.last_inference_ms = wall_ms();
    completion.ended(std::nullopt);
    return;
  }
  service.totals.fail_ns += latency;
  Denial denial{.kind = Denial::Kind::failed, .message = asked.message};
  if (finished.outcome == Outcome::expired) {
    denial.kind = Denial::Kind::expired;
    denial.message =
        asked.wish.deadline ? "its deadline passed while it waited" : "no worker took it in time";
  } else if (finished.outcome == Outcome::harmful) {
    ++service.totals.withdrawn;  // what it does is not what the service does
    if (!asked.client.empty())
      say(fmt::format("a request of {} to {} is refused: {} workers died with it in flight",
                      asked.client, service.wanted.name, kMostDeaths));
    denial.kind = Denial::Kind::harmful;
    denial.message = fmt::format("{} workers died with this request in flight", kMostDeaths);
  } else if (lost) {
    denial.kind = Denial::Kind::lost;
    denial.message = "the worker that had its sequence is gone, and its state with it";
  } else if (denial.message.empty()) {
    denial.message = "its worker died";
  }
  completion.ended(std::move(denial));
}

// Of rows that a worker died or hung with: what else their senders have sent is doubted as well.
void Core::Impl::doubt_senders(const std::vector<Item>& had) {
  const Nanos now = Loop::now_ns();
  std::set<std::string> doubted;
  for (const Item& item : had) {
    LiveRequest& asked = requests.at(item.request);
    asked.suspect = true;
    if (asked.wish.trusted || asked.client.empty() || asked.trial_of) continue;
    senders.doubt(asked.client, now);
    doubted.insert(asked.client);
  }
  if (doubted.empty()) return;
  std::vector<RequestId> theirs;
  for (const auto& [id, asked] : requests.by_id)
    if (asked.state == LiveRequest::State::submitted && doubted.contains(asked.client))
      theirs.push_back(id);
  std::ranges::sort(theirs);
  for (const RequestId id : theirs) requests.at(id).service->brain.doubt(id);
}

// ---- requests ----

LiveRequest& LiveRequests::at(RequestId id) {
  const auto found = by_id.find(id);
  CHECK(found != by_id.end());
  return found->second;
}

void begun(LiveRequest& asked) {
  asked.waits = false;
  asked.service->shares.begun(asked.client, *asked.tag);
}

tl::expected<RequestId, Denial> Core::Impl::admit(const RequestHead& head) {
  const auto denied = [](Denial denial) { return tl::unexpected<Denial>(std::move(denial)); };
  std::shared_ptr<LiveService> service = find(head.service), stable;
  if (!service) return denied(not_here(head.service));
  if (auto denial = shut(*service, head, closed)) {
    service->brain.refused(OwnerRefusal::at_door);
    return denied(*std::move(denial));
  }
  if (auto canary = service->trial ? canary_for(*service, services, head) : nullptr)
    stable = std::exchange(service, std::move(canary));
  const Nanos now = Loop::now_ns();
  const bool well =
      head.trusted && !senders.watched_since_before(head.client, head.trusted_since, now);
  const bool watched = !well && senders.watched(head.client, now);
  if (const Nanos wait = watched ? senders.wait(head.client, now) : 0; wait > 0)
    return denied(slowed(*service, head, wait));
  std::optional<KeyPlace> place;
  if (head.limits != nullptr) {
    if (auto denial = over_limit(keys, head, now)) return denied(counted(*denial, *service, head));
    place.emplace(keys, head.client);
  }
  Wish wish = wish_of(head, *service, senders, now);
  wish.alone = watched;
  if (head.again) --service->totals.withdrawn;  // it was given back in between
  if (service->model && service->model->sequences)
    if (auto denial = find_worker(service, head, wish)) {
      service->brain.refused(OwnerRefusal::at_door);
      return denied(*std::move(denial));
    }
  const auto tag = share(*service, head, now);
  if (!tag) return denied(tag.error());
  const Admission admission = service->brain.admit(now, wish);
  if (admission.refusal == Refusal::too_many_items) ++service->totals.withdrawn;
  if (admission.refusal != Refusal::none) {
    if (*tag) service->shares.refused(head.client, now);
    return denied(denial_of(head.service, admission));
  }
  SlotPool& slots = *service->slots;  // some worker is ready, so it is there
  if (at(head.items) > slots.slots() - slots.apart()) {
    ++service->totals.withdrawn;
    return denied(denial_of(head.service, {.refusal = Refusal::too_many_items}));
  }
  if (!service->has_room(head.client, at(head.items))) {
    service->brain.refused(OwnerRefusal::no_slot);
    return denied({.kind = Denial::Kind::overloaded,
                   .message = fmt::format("no memory for another request of '{}'", head.service),
                   .retry_after_ns = std::max<Nanos>(admission.predicted_finish - now, 1),
                   .elsewhere = true});
  }
  const RequestId id = requests.next++;
  LiveRequest asked{.id = id, .service = service, .wish = wish, .slots = {}};
  asked.client = head.client;
  asked.model = head.model;
  asked.trace_parent = head.trace_parent;
  asked.trace_state = head.trace_state;
  asked.watched = watched;
  asked.trial_of = std::move(stable);
  if (wish.worker) step_taken(asked, head, wish);
  if (watched) senders.begun(head.client);
  if (place) {
    place->keep();
    let_in(asked, head, *tag);
  }
  requests.by_id.emplace(id, std::move(asked));
  return id;
}

bool LiveService::has_room(std::string_view client, std::size_t rows) const {
  if (!slots->has_room(rows)) return false;
  if (client.empty()) return true;
  const auto known = held.find(client);
  const std::size_t has = known == held.end() ? 0 : at(known->second);
  return has + rows <= kClientShare * slots->free();
}

bool Core::Impl::claim(RequestId id, int rows, std::span<const PoolSlot> wanted) {
  LiveRequest& asked = requests.at(id);
  LiveService& service = *asked.service;
  CHECK(asked.state == LiveRequest::State::open && rows <= asked.wish.items);
  const std::size_t had = asked.slots.size();
  if (at(rows) <= had) return true;
  const std::size_t more = at(rows) - had;
  const auto given = [&](std::size_t row) {
    return row < wanted.size() && wanted[row].pool == service.slots->mark().get() &&
           service.slots->is_free_apart(wanted[row].slot);
  };
  std::size_t others = 0;
  for (std::size_t row = had; row < at(rows); ++row) others += given(row) ? 0 : 1;
  asked.starved = others > 0 && !service.has_room(asked.client, others);
  if (asked.starved) return false;
  asked.slots.reserve(at(asked.wish.items));
  for (std::size_t row = had; row < at(rows); ++row) {
    const bool apart = given(row);
    asked.slots.push_back(apart ? wanted[row].slot : *service.slots->take());
    if (apart) service.slots->take_apart(asked.slots.back());
    write_slot_trace(service.slots->trace(asked.slots.back()), asked.trace_parent,
                     asked.trace_state);
    if (service.slots->model().set)
      write_slot_model(service.slots->model_name(asked.slots.back()), asked.model);
    if (service.model->sequences)
      write_slot_step(service.slots->step(asked.slots.back()), asked.step);
  }
  if (!asked.client.empty()) service.held[asked.client] += static_cast<int>(more);
  return true;
}

void Core::Impl::submit(RequestId id, Completion completion) {
  LiveRequest& asked = requests.at(id);
  CHECK(asked.state == LiveRequest::State::open && asked.slots.size() == at(asked.wish.items));
  const std::shared_ptr<LiveService> service = asked.service;
  if (service->removed) {
    completion.ended(Denial{.kind = Denial::Kind::not_ready, .message = "taken out of service"});
    return;
  }
  if (asked.sequence)
    if (auto denial = where_it_is_now(asked)) return completion.ended(*std::move(denial));
  asked.completion = std::move(completion);
  asked.state = LiveRequest::State::submitted;
  if (service->trial && service->trial->wish.shadow) copy_to_canary(asked);
  if (service->cache && desk.takes(asked)) return;
  enqueue(asked);
  step(service);
}

void enqueue(LiveRequest& asked) {
  LiveService& service = *asked.service;
  asked.waits = asked.tag.has_value();
  if (asked.waits) service.shares.waits(asked.client, *asked.tag);
  service.brain.enqueue(Loop::now_ns(), asked.id, asked.wish);
}

void LiveRequests::forget(LiveRequest& asked) {
  LiveService& service = *asked.service;
  for (const std::uint32_t slot : asked.slots)
    if (slot != kNoSlot) service.slots->give_back(slot);
  if (asked.sequence)
    service.sequences.step_over(*asked.sequence, asked.step.sequence, Loop::now_ns());
  if (const auto held = service.held.find(asked.client); held != service.held.end()) {
    held->second -= static_cast<int>(asked.slots.size());
    if (held->second == 0) service.held.erase(held);
  }
  by_id.erase(asked.id);
}

void LiveRequests::forget_released(const std::vector<Item>& items) {
  for (const Item& item : items) {
    const auto found = by_id.find(item.request);
    if (found == by_id.end() || found->second.state != LiveRequest::State::released) continue;
    if (!found->second.service->brain.running(item.request)) forget(found->second);
  }
}

void Core::Impl::release(RequestId id) {
  LiveRequest& asked = requests.at(id);
  const std::shared_ptr<LiveService> service = asked.service;
  if (asked.waits) begun(asked);
  if (asked.tag) keys.ended(asked.client);
  if (asked.watched) {
    const Nanos now = Loop::now_ns();
    senders.ended(asked.client, now, now - asked.wish.arrived);
  }
  const bool submitted = asked.state == LiveRequest::State::submitted;
  if (asked.state == LiveRequest::State::open) {
    const std::shared_ptr<LiveService>& whole = asked.trial_of ? asked.trial_of : service;
    if (whole->trial) whole->trial->given_back = asked.trial_of != nullptr;
  }
  if (submitted || asked.state == LiveRequest::State::open) {
    const bool late =
        submitted && Loop::now_ns() - asked.wish.arrived > nanos_of(slo_of(service->wanted));
    if (asked.starved)
      service->brain.refused(OwnerRefusal::no_slot);
    else
      ++(late ? service->totals.given_up : service->totals.withdrawn);
  }
  if (submitted) {
    desk.leave(asked);
    workers->cancel(*service, service->brain.cancel(id));
  }
  // What a worker may still write to stays taken until its batch has ended.
  if (service->brain.running(id)) {
    asked.state = LiveRequest::State::released;
    asked.completion = {};
  } else {
    requests.forget(asked);
  }
}

// ---- the doors' side ----

Core::Core(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Core::~Core() = default;

namespace {

// What pipelines want of their members.
template <class Inside>
MemberDoors member_doors(Inside* inside) {
  return {.foresee =
              [inside](const std::string& service, long coming, int items) {
                const auto live = inside->find(service);
                return live ? live->brain.foresee(Loop::now_ns(), coming, items) : std::nullopt;
              },
          .held_off =
              [inside](const std::string& service, int items) {
                if (const auto live = inside->find(service))
                  live->brain.note_arrivals(Loop::now_ns(), items);
              },
          .join =
              [inside](const std::vector<JointTensor>& tensors) {
                return Joints::make(inside->joint_doors, tensors);
              },
          .retire =
              [inside](std::shared_ptr<Joints> joints) {
                inside->retired.push_back(std::move(joints));
              },
          .claim =
              [inside](RequestId id, int rows, std::span<const PoolSlot> wanted) {
                return inside->claim(id, rows, wanted);
              },
          .lies = [inside](RequestId id, int item) -> PoolSlot {
            const LiveRequest& asked = inside->requests.at(id);
            return {asked.service->slots->mark().get(), asked.slots[at(item)]};
          }};
}

}  // namespace

Result<std::unique_ptr<Core>> Core::open(Loop& loop, const CoreOptions& options,
                                         std::function<void(const std::string&)> say) {
  auto impl = std::make_unique<Impl>(loop, options, std::move(say));
  Impl* inside = impl.get();
  inside->workers = TRY(WorkerDesk::open(
      {.loop = loop,
       .options = inside->options,
       .services = inside->services,
       .requests = inside->requests,
       .caches = inside->desk,
       .step = [inside](const std::shared_ptr<LiveService>& one) { inside->step(one); },
       .doubt = [inside](const std::vector<Item>& had) { inside->doubt_senders(had); },
       .say = inside->say}));
  std::unique_ptr<Core> core(new Core(std::move(impl)));
  inside->joint_doors = {
      .find = [inside](const std::string& service) { return inside->find(service); },
      .tell = [inside](const LiveService& service, const Joint& joint,
                       int descriptor) { inside->workers->tell(service, joint, descriptor); }};
  inside->pipelines = std::make_unique<Pipelines>(loop, *core, member_doors(inside), inside->say);
  return core;
}

void Core::serve(const std::vector<ServedService>& services) {
  std::vector<ServedService> alone;
  std::vector<plan::Terms> pipelines;
  for (const ServedService& one : services)
    one.pipeline ? pipelines.push_back(one) : alone.push_back(one);
  impl_->pipelines->serve(pipelines);
  for (const plan::Terms& one : pipelines) impl_->choices.begin_pipeline(one.name);
  impl_->serve(alone);
}
void Core::close_doors() { impl_->closed = true; }
bool Core::idle() const { return impl_->requests.by_id.empty() && impl_->pipelines->idle(); }
void Core::on_change(std::function<void()> function) {
  impl_->workers->on_change(std::move(function));
}
std::vector<WorkerView> Core::worker_views() const { return impl_->workers->views(); }

namespace {

std::optional<actuate::ColdStarts> cold_starts_of(const ServiceSnapshot& now) {
  if (!now.terms.models) return std::nullopt;
  const SetTotals& set = now.totals.set;
  const double ms = static_cast<double>(set.cold_ns) * 1e-6;
  return actuate::ColdStarts{set.colds, set.cold_in_time, promised_cold(now.terms).value,
                             set.colds > 0 ? ms / static_cast<double>(set.colds) : 0};
}

}  // namespace

std::vector<ServiceView> Core::service_views() const {
  std::vector<ServiceView> views;
  for (const ServiceSnapshot& now : snapshots_of(impl_->services, *impl_->pipelines))
    views.push_back({.terms = now.terms,
                     .ready_workers = now.ready_workers,
                     .queued = now.queued,
                     .rate_rps = now.rate_rps,
                     .capacity_rps = now.capacity_rps,
                     .p50 = now.p50,
                     .p99 = now.p99,
                     .counters = now.counters,
                     .by_pipelines = impl_->pipelines->asked_of(now.terms.name),
                     .cold = cold_starts_of(now),
                     .withdrawn = now.totals.withdrawn,
                     .given_up = now.totals.given_up,
                     .limited = over_limits(now),
                     .keys = counts_of(now.usage),
                     .fan_outs = now.fan_outs});
  return views;
}

const std::deque<WorkerLoss>& Core::losses() const { return impl_->workers->losses(); }

std::vector<std::string> Core::services() const {
  std::vector<std::string> names = impl_->pipelines->names();
  for (const auto& [name, service] : impl_->services) names.push_back(name);
  std::ranges::sort(names);
  return names;
}

const ModelSpec* Core::model(std::string_view name) const {
  if (impl_->pipelines->known(name)) return impl_->pipelines->model(name);
  const auto service = impl_->find(name);
  return service && service->model ? &*service->model : nullptr;
}

bool Core::set_loaded(std::string_view name, bool loaded) {
  const auto service = impl_->find(name);
  const bool whole = impl_->pipelines->known(name);
  if (service) {
    service->loaded = loaded;
    forget_answers(*service);
  }
  if (whole) impl_->choices.load_pipeline(name, loaded);
  impl_->choices.tell(impl_->services);
  return service != nullptr || whole;
}

bool Core::loaded(std::string_view name) const {
  const auto service = impl_->find(name);
  if (impl_->pipelines->known(name)) return impl_->choices.loaded_pipeline(name);
  return service && service->loaded;
}

bool Core::known(std::string_view name) const {
  return impl_->find(name) != nullptr || impl_->pipelines->known(name);
}

std::string Core::set_of(std::string_view model) const {
  const auto found = impl_->sets.find(model);
  return found == impl_->sets.end() ? "" : found->second;
}

bool Core::ready(std::string_view name) const {
  if (impl_->pipelines->known(name)) return loaded(name) && impl_->pipelines->ready(name);
  const auto service = impl_->find(name);
  return service && service->loaded && service->brain.pool().size() > 0;
}

bool Core::ready() const {
  return !impl_->closed &&
         std::all_of(impl_->services.begin(), impl_->services.end(), [](const auto& entry) {
           // One that the plan has no room for does not take the others from their clients.
           return entry.second->brain.pool().size() > 0 || entry.second->wanted.segments.empty() ||
                  !entry.second->loaded;
         });
}

tl::expected<RequestId, Denial> Core::admit(const RequestHead& head) {
  const bool whole = impl_->pipelines->known(head.service);
  if (whole && !loaded(head.service)) {
    turned_away(head.service);
    return tl::unexpected<Denial>({.kind = Denial::Kind::not_ready,
                                   .message = fmt::format("'{}' was unloaded", head.service)});
  }
  return whole ? impl_->pipelines->admit(head) : impl_->admit(head);
}

bool Core::claim(RequestId id, int rows) {
  return Pipelines::owns(id) ? impl_->pipelines->claim(id, rows) : impl_->claim(id, rows);
}

void Core::turned_away(std::string_view name) {
  if (impl_->pipelines->known(name)) impl_->pipelines->turned_away(name);
  if (const auto service = impl_->find(name)) service->brain.refused(OwnerRefusal::at_door);
}

void Core::uncount(std::string_view name, Denial::Kind why) {
  const Refusal refusal = why == Denial::Kind::not_ready       ? Refusal::no_worker
                          : why == Denial::Kind::would_be_late ? Refusal::predicted_miss
                                                               : Refusal::queue_full;
  if (impl_->pipelines->known(name)) return impl_->pipelines->uncount(name, refusal);
  const auto service = impl_->find(name);
  if (service && !service->trial) serve::uncount(service->brain, refusal);
}

tl::expected<KeyHandle, Denial> Core::key_begun(const RequestHead& head) {
  Keys& keys = impl_->keys;
  if (auto denial = over_limit(keys, head, Loop::now_ns()))
    return tl::unexpected<Denial>(*std::move(denial));
  return KeyHandle(nullptr, [&keys, key = std::string(head.client)](void*) { keys.ended(key); });
}

std::span<char> Core::input(RequestId id, int item, int tensor) {
  if (Pipelines::owns(id)) return impl_->pipelines->input(id, item, tensor);
  const LiveRequest& asked = impl_->requests.at(id);
  return asked.service->slots->input(asked.slots[at(item)], tensor);
}

std::span<const char> Core::output(RequestId id, int item, int tensor) {
  if (Pipelines::owns(id)) return impl_->pipelines->output(id, item, tensor);
  const LiveRequest& asked = impl_->requests.at(id);
  return asked.service->slots->output(asked.slots[at(item)], tensor);
}

void Core::submit(RequestId id, Completion completion) {
  Pipelines::owns(id) ? impl_->pipelines->submit(id, std::move(completion))
                      : impl_->submit(id, std::move(completion));
}

void Core::release(RequestId id) {
  Pipelines::owns(id) ? impl_->pipelines->release(id) : impl_->release(id);
}

ServiceStatistics Core::statistics(std::string_view name) const {
  for (const ServiceSnapshot& one : impl_->pipelines->snapshots())
    if (one.terms.name == name) return statistics_of(one);
  const auto service = impl_->find(name);
  return service ? statistics_of(snapshot_of(*service)) : ServiceStatistics{};
}

std::string Core::metrics() const {
  return prometheus_text(snapshots_of(impl_->services, *impl_->pipelines));
}

// ---- rates ----

void Core::Impl::look_after(Nanos now) {
  std::erase_if(retired, [&](const auto& joints) { return joints->undo(joint_doors); });
  choices.tell(services);
  pipelines->look_after(1e9 / kLookEvery, kRateWeight);
  for (auto& [name, service] : services) {
    const long offered = service->brain.counters().offered;
    const auto came = static_cast<double>(std::max(0L, offered - service->offered_before));
    const double rate = came * 1e9 / kLookEvery;
    service->offered_before = offered;
    service->rate_rps += kRateWeight * (rate - service->rate_rps);
    expire_sequences(*service, workers->send_frame(), now);
    if (const std::string said = look_at_trial(*service, now); !said.empty()) say(said);
  }
  workers->look_after();
}

}  // namespace partita::serve
