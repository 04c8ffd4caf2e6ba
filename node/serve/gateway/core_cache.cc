// Answers that are kept for whoever asks the same again, and requests that wait for an equal one.
//
// What was asked is what a worker would be given: the inputs in the slots, and the sender, unless
// the cache is shared. Of an answer all outputs are kept; which of them a request wants is its
// door's to choose. What is kept was given by a worker that is still there: it is forgotten when
// one comes or goes, since what comes may have another model. Hits are answered in time like
// others, and no measure of what workers do: they are in no latency by which plans are made.
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/index.h"
#include "serve/gateway/core_impl.h"
#include "serve/wire/items.h"
#include "serve/wire/texts.h"

namespace partita::serve {
namespace {

// What of a row says something: its sizes, where they are open, and its values. Nothing where a
// worker wrote what cannot be.
std::optional<std::span<const char>> told(const TensorSpec& tensor, std::span<const char> row) {
  const auto used = used_part(tensor, row);
  if (!used) return std::nullopt;
  return std::span(row.data(), head_bytes(tensor) + used->size());
}

// Of each row each output, behind its length.
std::optional<std::string> packed(const LiveRequest& asked) {
  const SlotPool& slots = *asked.service->slots;
  const std::vector<TensorSpec>& outputs = slots.model().outputs;
  std::string answer;
  for (const std::uint32_t slot : asked.slots)
    for (std::size_t t = 0; t < outputs.size(); ++t) {
      const auto part = told(outputs[t], slots.output(slot, static_cast<int>(t)));
      if (!part) return std::nullopt;
      const std::uint64_t bytes = part->size();
      answer.append(reinterpret_cast<const char*>(&bytes), sizeof bytes);
      answer.append(part->data(), part->size());
    }
  return answer;
}

void unpack(const std::string& answer, const LiveRequest& asked) {
  const SlotPool& slots = *asked.service->slots;
  std::string_view rest = answer;
  for (const std::uint32_t slot : asked.slots)
    for (std::size_t t = 0; t < slots.model().outputs.size(); ++t) {
      const std::span<char> row = slots.output(slot, static_cast<int>(t));
      std::uint64_t bytes = 0;
      CHECK(rest.size() >= sizeof bytes);
      std::memcpy(&bytes, rest.data(), sizeof bytes);
      rest.remove_prefix(sizeof bytes);
      CHECK(bytes <= rest.size() && bytes <= row.size());
      std::memcpy(row.data(), rest.data(), bytes);
      rest.remove_prefix(bytes);
    }
  CHECK(rest.empty());
}

std::optional<CacheKey> key_of(RequestDigest& digest, const LiveRequest& asked) {
  const LiveService& service = *asked.service;
  const std::vector<TensorSpec>& inputs = service.slots->model().inputs;
  digest.begin();
  const std::uint64_t rows = asked.slots.size();
  digest.add({reinterpret_cast<const char*>(&rows), sizeof rows});
  digest.add(service.cache->terms.shared ? std::string_view() : std::string_view(asked.client));
  for (const std::uint32_t slot : asked.slots)
    for (std::size_t t = 0; t < inputs.size(); ++t) {
      const auto part = told(inputs[t], service.slots->input(slot, static_cast<int>(t)));
      if (!part) return std::nullopt;
      digest.add(*part);
    }
  return digest.end();
}

// Why the answers of such a model are not kept; empty: they may be.
std::string unfit(const ModelSpec& model) {
  if (model.kind != ModelKind::tensors) return "it answers in streams";
  if (model.sequences) return "it has state";
  if (model.set) return "it is a set of models";
  return "";
}

// Which cache a service is to have, and who says so.
struct WantedCache {
  plan::CacheTerms terms = {};
  const char* from = "";
};
WantedCache wanted_cache(const LiveService& service, const CoreOptions& options) {
  const auto given = options.caches.find(service.wanted.name);
  if (given != options.caches.end()) return {given->second, "--cache"};
  if (service.wanted.cache) return {*service.wanted.cache, "services"};
  const auto asked = options.caches.find(kCachesAsked);
  if (asked != options.caches.end() && service.model && service.model->cache)
    return {asked->second, "model"};
  return {};
}

// In place of what was kept.
void make_room(AnswerCache& cache, const plan::CacheTerms& terms) {
  constexpr double kMib = 1 << 20, kNsPerSecond = 1e9;
  if (cache.answers) cache.totals.evictions += cache.answers->evictions();
  cache.terms = terms;
  cache.answers.reset();
  if (terms.memory.value > 0)
    cache.answers.emplace(static_cast<std::size_t>(terms.memory.value * kMib),
                          static_cast<Nanos>(std::ceil(terms.ttl.value * kNsPerSecond)));
}

// Whether the request itself may be answered by what another got.
bool plain(const LiveRequest& asked) {
  const AnswerCache& cache = *asked.service->cache;
  return !asked.trial_of && !asked.watched && !asked.wish.doubted && asked.wish.idempotent &&
         cache.answers && cache.unfit.empty();
}

// Whether `other` would lose nothing by waiting for `leader`.
bool goes_before(const Wish& leader, const Wish& other) {
  if (leader.priority < other.priority) return false;
  return !other.deadline || (leader.deadline && *leader.deadline <= *other.deadline);
}

// Its outputs are in place.
void answer_now(LiveRequest& asked) {
  LiveService& service = *asked.service;
  const Nanos now = Loop::now_ns();
  const Completion completion = std::move(asked.completion);
  asked.state = LiveRequest::State::finished;
  service.brain.ended_outside(now, asked.wish, Outcome::done);
  if (asked.tag) ++service.usage[asked.client].answered;
  service.totals.success_ns += now - asked.wish.arrived;
  completion.ended(std::nullopt);
}

}  // namespace

void forget_answers(LiveService& service) {
  if (service.cache && service.cache->answers) service.cache->answers->clear();
}

std::optional<CacheTotals> totals_of(const AnswerCache* cache) {
  if (cache == nullptr || !cache->answers) return std::nullopt;
  CacheTotals totals = cache->totals;
  totals.terms = cache->terms;
  totals.from = cache->from;
  totals.unfit = cache->unfit;
  totals.evictions += cache->answers->evictions();
  totals.answers = cache->answers->size();
  totals.bytes = cache->answers->bytes();
  totals.most_bytes = cache->answers->most_bytes();
  return totals;
}

std::string follow_cache(LiveService& service, const CoreOptions& options) {
  const WantedCache wanted = wanted_cache(service, options);
  if (!service.cache && wanted.terms.memory.value == 0) return "";
  if (!service.cache) service.cache = std::make_unique<AnswerCache>();
  AnswerCache& cache = *service.cache;
  cache.from = wanted.from;
  const bool other = !(cache.terms == wanted.terms);
  if (other) make_room(cache, wanted.terms);
  const std::string before =
      std::exchange(cache.unfit, service.model ? unfit(*service.model) : std::string());
  if (!cache.answers)
    return other ? fmt::format("no answers of {} are kept any more", service.wanted.name) : "";
  if (!cache.unfit.empty() && (other || cache.unfit != before))
    return fmt::format("no answers of {} are kept: {}", service.wanted.name, cache.unfit);
  return other ? fmt::format("answers of {} are kept: {} ({})", service.wanted.name,
                             plan::to_string(cache.terms), cache.from)
               : "";
}

bool CacheDesk::takes(LiveRequest& asked) {
  if (!plain(asked)) return false;
  AnswerCache& cache = *asked.service->cache;
  const Nanos began = Loop::now_ns();
  asked.key = key_of(digest_, asked);
  if (!asked.key) return false;
  if (const std::string* answer = cache.answers->find(*asked.key, began)) {
    ++cache.totals.hits;
    unpack(*answer, asked);
    cache.totals.hit_ns += Loop::now_ns() - began;
    asked.key.reset();
    answer_now(asked);
    return true;
  }
  const auto [flight, first] = cache.flights.try_emplace(*asked.key);
  if (first) flight->second.leader = asked.id;
  const bool waits = !first && goes_before(requests_.at(flight->second.leader).wish, asked.wish);
  if (waits) flight->second.others.insert(asked.id);
  ++(waits ? cache.totals.merged : cache.totals.misses);
  if (!waits) cache.totals.miss_ns += Loop::now_ns() - began;
  return waits;
}

CacheDesk::Landing CacheDesk::land(const Finished& finished) {
  Landing landing{.outcome = finished.outcome};
  const auto found = requests_.by_id.find(finished.request);
  if (found == requests_.by_id.end() || !found->second.key) return landing;
  LiveRequest& asked = found->second;
  AnswerCache& cache = *asked.service->cache;
  const CacheKey key = *std::exchange(asked.key, std::nullopt);
  if (const auto flight = cache.flights.find(key);
      flight != cache.flights.end() && flight->second.leader == asked.id) {
    landing.others = std::move(flight->second.others);
    cache.flights.erase(flight);
  }
  if (finished.outcome != Outcome::done) return landing;
  auto answer = packed(asked);
  if (!answer) {
    landing.outcome = Outcome::failed;
    return landing;
  }
  if (!landing.others.empty()) landing.answer = *answer;
  if (cache.answers) cache.answers->put(key, *std::move(answer), Loop::now_ns());
  return landing;
}

// Errors are nobody else's: who waited runs by itself. But for what ended workers.
void CacheDesk::tell_others(const std::shared_ptr<LiveService>& service, const Landing& landing) {
  for (const RequestId id : landing.others) {
    const auto found = requests_.by_id.find(id);
    if (found == requests_.by_id.end() || found->second.state != LiveRequest::State::submitted)
      continue;
    LiveRequest& other = found->second;
    other.key.reset();
    if (landing.outcome == Outcome::done) {
      unpack(landing.answer, other);
      answer_now(other);
    } else if (landing.outcome == Outcome::harmful) {
      const Completion completion = std::move(other.completion);
      other.state = LiveRequest::State::finished;
      service->brain.ended_outside(Loop::now_ns(), other.wish, Outcome::harmful);
      ++service->totals.withdrawn;
      completion.ended(Denial{
          .kind = Denial::Kind::harmful,
          .message = fmt::format("{} workers died with an equal request in flight", kMostDeaths)});
    } else {
      enqueue(other);
      step_(service);
    }
  }
}

// Of those that wait the next one runs: in the loop's turn, since this may be a door's.
void CacheDesk::leave(LiveRequest& asked) {
  if (!asked.key) return;
  AnswerCache& cache = *asked.service->cache;
  const auto flight = cache.flights.find(*std::exchange(asked.key, std::nullopt));
  if (flight == cache.flights.end()) return;
  if (flight->second.others.erase(asked.id) > 0)
    asked.service->brain.ended_outside(Loop::now_ns(), asked.wish, std::nullopt);
  if (flight->second.leader != asked.id) return;
  const std::set<RequestId> others = std::move(flight->second.others);
  cache.flights.erase(flight);
  if (others.empty()) return;
  loop_.post([this, service = asked.service, others] {
    for (const RequestId id : others) {
      const auto found = requests_.by_id.find(id);
      if (found == requests_.by_id.end() || found->second.state != LiveRequest::State::submitted)
        continue;
      if (!takes(found->second)) enqueue(found->second);
    }
    step_(service);
  });
}

}  // namespace partita::serve
