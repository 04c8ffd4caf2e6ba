#include "serve/engines/engine_service.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "serve/brain/service_brain.h"

namespace partita::serve {
namespace {

// A prompt may have so many times fewer tokens than its bytes say.
constexpr int kFewerTokens = 2;

Denial not_ready(const std::string& service) {
  return {.kind = Denial::Kind::not_ready,
          .message = "no engine of model '" + service + "' is ready",
          .retry_after_ns = 1'000'000'000};
}

std::int64_t nanos(Millis time) { return static_cast<std::int64_t>(time.value * 1e6); }
std::string millis(std::int64_t ns) { return std::to_string(ns / 1'000'000) + " ms"; }

// Who goes first, where a priority of p is worth p times `each`.
bool before(const EngineCall* one, const EngineCall* other, std::int64_t each) {
  const auto key = [&](const EngineCall* call) {
    return call->place - call->ask().priority * each;
  };
  return key(one) < key(other);
}
std::int64_t each_priority(const plan::Terms& terms) {
  const Millis ttft = terms.tokens ? terms.tokens->ttft : Millis{};
  return nanos(ttft.value > 0 ? ttft : kUsualTtft);
}

// Its TTFT with no other request there, at the least; nothing: nobody knows.
std::optional<std::int64_t> soonest(const EngineCall& call, const EngineSet& engines,
                                    double bytes_per_token, std::int64_t now) {
  if (call.request().media > 0) return std::nullopt;
  const int tokens = std::max(call.prompt_tokens / kFewerTokens, 1);
  std::optional<std::int64_t> least;
  for (const auto& one : engines.here()) {
    if (!one->ready()) continue;
    const int cached = std::min(cached_tokens(call, *one, bytes_per_token), tokens - 1);
    const auto there = one->guess.soonest_ttft(tokens, cached, now);
    if (!there) return std::nullopt;
    least = std::min(*there, least.value_or(*there));
  }
  return least;
}

// Of each of its answers, where one usually has so many.
double tokens_of_one(const OpenaiRequest& request, double usual) {
  return most_answered(request, usual) / request.sequences;
}

// Of the TTFT by which requests are refused; 0: by none.
std::int64_t promised(const plan::Terms& terms, const EngineDesk& desk) {
  return terms.tokens && desk.options.shed ? nanos(terms.tokens->ttft) : 0;
}

// Whether it is another's turn: its key has had less, where nothing is promised.
bool overtakes(const EngineCall& call, const EngineCall& other) {
  return call.ask().priority == other.ask().priority && call.tag && other.tag &&
         *call.tag < *other.tag;
}

// Of the time of all engines, that it will take.
std::int64_t part_of_engines(const EngineCall& call, const EngineSet& engines, double out,
                             double bytes_per_token, std::int64_t now) {
  double in_ns = 0;  // such requests, by all engines
  for (const auto& one : engines.here()) {
    if (!one->ready()) continue;
    const int cached = cached_tokens(call, *one, bytes_per_token);
    const std::int64_t work = one->guess.work(call.prompt_tokens, cached, out, now);
    in_ns += 1 / std::max(static_cast<double>(work), 1.0);
  }
  return in_ns > 0 ? static_cast<std::int64_t>(1 / in_ns) : 0;
}

}  // namespace

EngineService::EngineService(EngineDesk& desk, const TokenService& wanted)
    : sheds(desk.options.shed), desk_(desk), engines_(desk, [this] { pump(); }) {
  serve(wanted);
}

EngineService::~EngineService() = default;

void EngineService::serve(const TokenService& wanted) {
  terms_ = wanted;
  if (terms_.tokens && counters_.arrived == 0) {
    const auto* trace = std::get_if<plan::TokenTrace>(&terms_.tokens->lengths);
    if (trace == nullptr || trace->requests != nullptr)
      mean_out = {mean_of(*terms_.tokens).out, MeanOut::kAnswers};
  }
  engines_.serve(terms_, wanted.engines);
}

TokenSnapshot EngineService::snapshot() const {
  return {.terms = &terms_,
          .counters = &counters_,
          .running = engines_.running(),
          .waiting = waiting(),
          .engines = engines_.shown()};
}

// The service's own name where the engine has it, else its model's, else the first that it has.
std::string model_at(const EngineService& service, const EngineReplica& replica) {
  const plan::Terms& terms = service.terms();
  for (const std::string* name : {&terms.name, &terms.model})
    if (!name->empty() && std::ranges::count(replica.models, *name) > 0) return *name;
  const bool says = !replica.models.empty() && !replica.models.front().empty();
  return says ? replica.models.front() : terms.name;
}

// ---- who is let in

double EngineService::bytes_per_token(std::int64_t now) const {
  return kFirstBytesPerToken * bytes_per_token_.at(now);
}

std::int64_t EngineService::expected_ttft(const EngineCall& call, const EngineReplica& replica,
                                          std::int64_t now) const {
  const std::int64_t computed = replica.guess.ttft(
      call.prompt_tokens, cached_tokens(call, replica, bytes_per_token(now)), now);
  // What finds no room in the KV cache waits there until others end.
  const auto free = replica.kv_tokens_free(now);
  if (!free || *free >= call.prompt_tokens) return computed;
  const double out = mean_out.tokens;
  const double ends = std::ceil((call.prompt_tokens - *free) / (call.prompt_tokens + out));
  return computed +
         static_cast<std::int64_t>(ends * static_cast<double>(replica.guess.gap(out, now)));
}

double EngineService::cost_at(const EngineCall& call, const EngineReplica& replica,
                              std::int64_t now) const {
  const auto scale = [](Millis promised, Millis usual) {
    return static_cast<double>(nanos(promised.value > 0 ? promised : usual));
  };
  const Millis ttft = terms_.tokens ? terms_.tokens->ttft : Millis{};
  const Millis tpot = terms_.tokens ? terms_.tokens->tpot : Millis{};
  const double used =
      static_cast<double>(expected_ttft(call, replica, now)) / scale(ttft, kUsualTtft) +
      static_cast<double>(replica.guess.tpot(now)) / scale(tpot, kUsualTpot);
  return used * (1 + static_cast<double>(replica.guess.open()) / replica.guess.limit());
}

// Until an engine has room, where none has: behind those that go first.
std::int64_t EngineService::expected_wait(const EngineCall& call, std::int64_t now) const {
  double ends_per_ns = 0;
  for (const auto& one : engines_.here())
    if (one->ready())
      ends_per_ns += 1 / std::max(static_cast<double>(one->guess.gap(mean_out.tokens, now)), 1.0);
  const auto ahead = std::ranges::count_if(waiting_, [&](const EngineCall* other) {
    return before(other, &call, each_priority(terms_));
  });
  return static_cast<std::int64_t>(static_cast<double>(ahead + 1) / std::max(ends_per_ns, 1e-15));
}

// The engine that the routing names among those with room.
std::shared_ptr<EngineReplica> EngineService::choose(const EngineCall& call, Room room) {
  const std::int64_t now = Loop::now_ns();
  std::shared_ptr<EngineReplica> best;
  double least = 0;
  const Routing routing = desk_.options.routing;
  const EngineSet::List& engines = engines_.here();
  for (std::size_t i = 0; i < engines.size(); ++i) {
    const auto& one = engines[(turn_ + i) % engines.size()];
    if (!(room == Room::any ? one->ready() : one->free())) continue;
    if (room == Room::idle && one->guess.open() > 0) continue;
    if (std::ranges::count(call.tried, one.get()) > 0) continue;
    const double cost = routing == Routing::tokens           ? cost_at(call, *one, now)
                        : routing == Routing::least_requests ? one->guess.open()
                                                             : static_cast<double>(i);
    if (best != nullptr && cost >= least) continue;
    best = one;
    least = cost;
  }
  return best;
}

Denial EngineService::refused(long TokenFates::*fate, Denial why) {
  ++(counters_.fates.*(last_refusal_ = fate));
  why.elsewhere = true;
  return why;
}

// Whether its key may have it now; where no TTFT is promised it takes its key's turn instead.
bool EngineService::has_share(EngineCall& call, std::int64_t expected, std::int64_t most,
                              std::int64_t now) {
  int ahead = waiting();
  for (const auto& one : engines_.here()) ahead += one->guess.prefilling();
  const std::int64_t promise = promised(terms_, desk_);
  const bool may = shares.may(call, {expected, promise > 0 ? most : 0, ahead},
                              promise > 0 ? promise : nanos(kUsualTtft), now);
  const auto later = std::ranges::find_if(
      waiting_, [&](const EngineCall* other) { return promise == 0 && overtakes(call, *other); });
  if (later != waiting_.end()) call.place = (*later)->place - 1;
  return may;
}

// Why it is not let in, by what is expected.
std::optional<Denial> EngineService::refusal(EngineCall& call, std::int64_t now) {
  const auto best = choose(call, Room::some);
  const bool waits = best == nullptr;
  const std::int64_t promise = promised(terms_, desk_);
  std::int64_t most = promise;
  if (const auto own = call.ask().timeout_ns) most = most > 0 ? std::min(most, *own) : *own;
  const std::int64_t said = most;
  const auto least = most > 0 ? soonest(call, engines_, bytes_per_token(now), now) : std::nullopt;
  if (least && *least > most)
    return refused(
        &TokenFates::rejected,
        {.kind = Denial::Kind::bad_request,
         .message = "its prompt is too long: about " + std::to_string(call.prompt_tokens) +
                    " tokens, whose first answer would come after " + millis(*least) +
                    " at the soonest, of " + millis(most) + " promised"});
  const auto there = waits ? choose(call, Room::any) : best;
  if (there == nullptr) return std::nullopt;
  std::int64_t in_time = each_priority(terms_);  // by what the service promises
  if (promise > 0) {
    in_time = static_cast<std::int64_t>(patience.share() * static_cast<double>(promise));
    most = std::min(most, in_time);
  }
  most = shares.may_use(call.ask().priority, most, now);
  in_time = shares.may_use(call.ask().priority, in_time, now);
  const auto expects = [&] {
    return expected_ttft(call, *there, now) + (waits ? expected_wait(call, now) : 0);
  };
  const bool may = has_share(call, expects(), most, now);
  const std::int64_t expected = expects();  // in the turn that it has now
  if (waits && !has_place(call)) {
    shares.refused(call, now);
    return refused(&TokenFates::full,
                   {.kind = Denial::Kind::slowed,
                    .message = "too many requests wait for '" + terms_.name + "'",
                    .retry_after_ns = expected_wait(call, now)});
  }
  if (said <= 0 || expected <= most) {
    if (may) return std::nullopt;
    ++counters_.keys[call.ask().key].refused;
    return refused(&TokenFates::over_share,
                   {.kind = Denial::Kind::slowed,
                    .message = "this key has had its share of what '" + terms_.name + "' carries",
                    .retry_after_ns = std::max<std::int64_t>(expected, 1'000'000)});
  }
  call.trial = choose(call, Room::idle) != nullptr;
  if (call.trial) return std::nullopt;
  shares.refused(call, now);
  const bool kept = expected <= in_time;  // its client wants it sooner
  if (!kept) patience.refused();
  return refused(
      kept ? &TokenFates::withdrawn : &TokenFates::late,
      {.kind = Denial::Kind::slowed,
       .message = "its first token would come after " + millis(expected) +
                  (most < said ? "; it is let in up to " + millis(most) + ", of " + millis(said)
                               : ", of " + millis(said)) +
                  " promised",
       .retry_after_ns = std::max<std::int64_t>(expected - most, 1'000'000)});
}

// Where too many wait, one of a lower priority that would go behind all makes room, or one whose
// key has had more.
bool EngineService::has_place(const EngineCall& call) const {
  if (waiting() < desk_.options.queue_limit) return true;
  if (waiting_.empty()) return false;
  const EngineCall* const last = waiting_.back();
  return (last->ask().priority < call.ask().priority ||
          (promised(terms_, desk_) == 0 && overtakes(call, *last))) &&
         before(&call, last, each_priority(terms_));
}

Denial over_limit(std::int64_t wait) {
  return {.kind = Denial::Kind::slowed,
          .message = "this key is over its limit: requests, tokens or bytes, or requests at once",
          .retry_after_ns = wait};
}

tl::expected<std::shared_ptr<EngineCall>, Denial> EngineService::begin(EngineAsk& ask) {
  const std::int64_t now = Loop::now_ns();
  ++counters_.arrived;
  if (desk_.closed || !engines_.ready())
    return tl::unexpected(refused(&TokenFates::unready, not_ready(terms_.name)));
  const auto limited = [&](std::int64_t wait) {
    ++counters_.fates.limited;
    ++counters_.keys[ask.key].refused;
    return over_limit(wait);
  };
  const bool has_limits = ask.limits != KeyLimits{};
  if (has_limits)  // before anything is worked out for it
    if (const auto wait = desk_.keys[ask.key].wait(ask.limits, now); wait > 0)
      return tl::unexpected(limited(wait));
  const auto call = std::make_shared<EngineCall>(*this, std::move(ask), now);
  call->place = now;
  if (auto why = refusal(*call, now)) {
    if (last_refusal_ == &TokenFates::late) recents.refused(now, call->prompt_tokens);
    ask = taken_back(*call);
    return tl::unexpected(*std::move(why));
  }
  if (has_limits) {
    KeyUse& use = desk_.keys[call->ask().key];
    call->set_aside = call->prompt_tokens + most_answered(call->request(), mean_out.tokens);
    const KeyAsk asked{.tokens = call->set_aside,
                       .bytes = static_cast<double>(call->ask().body.size())};
    if (const auto wait = use.ask(call->ask().limits, asked, now); wait > 0) {
      ask = taken_back(*call);
      return tl::unexpected(limited(wait));
    }
  }
  ++calls_;
  counters_.keys[call->ask().key].bytes += call->ask().body.size();
  const double most = most_answered(call->request(), mean_out.tokens);
  shares.let_in(*call, part_of_engines(*call, engines_, most, bytes_per_token(now), now), now);
  return call;
}

void EngineService::uncount() {
  --counters_.arrived;
  --(counters_.fates.*last_refusal_);
}

// ---- on their way

void EngineService::start(EngineCall& call) {
  if (const auto replica = choose(call, call.trial ? Room::idle : Room::some)) {
    ++turn_;
    return call.go(replica);
  }
  if (waiting() >= desk_.options.queue_limit) {  // has_place() found it
    EngineCall* const last = waiting_.back();
    const bool lower = last->ask().priority < call.ask().priority;
    const std::string whose = lower ? "a higher priority" : "keys that have had less";
    const Denial why{.kind = Denial::Kind::slowed,
                     .message = "too many requests of " + whose + " wait for '" + terms_.name + "'",
                     .retry_after_ns = expected_wait(*last, Loop::now_ns())};
    waiting_.pop_back();
    last->refuse(why, lower ? &TokenFates::full : &TokenFates::over_share);
  }
  enqueue(call);
}

void EngineService::enqueue(EngineCall& call) {
  const auto goes_before = [each = each_priority(terms_)](const EngineCall* one,
                                                          const EngineCall* other) {
    return before(one, other, each);
  };
  waiting_.insert(std::ranges::upper_bound(waiting_, &call, goes_before), &call);
}

void EngineService::again(EngineCall& call, int tries) {
  if (const auto replica = choose(call, Room::some)) return call.go(replica);
  call.tried.clear();  // whoever is well again may have it
  call.not_before = Loop::now_ns() + (kAgainPause << (2 * std::max(tries - 1, 0)));
  enqueue(call);
}

// Requests that fail at once end inside of it: the outermost goes on.
void EngineService::pump() {
  if (std::exchange(pumping_, true)) return;
  while (!waiting_.empty() && engines_.gone()) {
    EngineCall* const call = waiting_.front();
    waiting_.erase(waiting_.begin());
    strand(*call, not_ready(terms_.name));
  }
  while (true) {
    const std::int64_t now = Loop::now_ns();
    const auto next = std::ranges::find_if(
        waiting_, [&](const EngineCall* call) { return call->not_before <= now; });
    if (next == waiting_.end()) break;
    EngineCall* const call = *next;
    const auto replica = choose(*call, Room::some);
    if (replica == nullptr) break;
    waiting_.erase(next);
    ++turn_;
    call->go(replica);
  }
  pumping_ = false;
}

void EngineService::release(std::shared_ptr<EngineCall> call) {
  std::erase(waiting_, call.get());
  call->leave();
  --calls_;
  if (desk_.buried.empty()) desk_.loop.post([&desk = desk_] { desk.buried.clear(); });
  desk_.buried.push_back(std::move(call));
}

void EngineService::over(EngineCall& call, const EngineCame& came) {
  ++(counters_.fates.*came.fate);
  KeyFates& key = counters_.keys[call.ask().key];
  key.answered += came.fate == &TokenFates::answered;
  key.refused += came.fate == &TokenFates::over_share;
  shares.has_token(call);
  const TokenUsage& used = came.used;
  for (TokenUsage* sum : {&counters_.used, &counters_.by_key[call.ask().key]}) {
    sum->prompt += used.prompt;
    sum->completion += used.completion;
    sum->cached += used.cached;
  }
  if (call.ask().limits != KeyLimits{})
    desk_.keys[call.ask().key].ended(static_cast<double>(used.prompt + used.completion) -
                                     call.set_aside);
  const std::int64_t now = Loop::now_ns();
  if (came.fate == &TokenFates::answered) {
    counters_.fates.in_slo += keeps(terms_, came.times);
    counters_.e2e.add(came.times.e2e);
    recents.answered(now, used, came.told, came.times.tpot);
    if (came.times.tpot > 0) counters_.tpot.add(came.times.tpot);
    if (used.completion > 0)
      mean_out.add(static_cast<double>(used.completion) / call.request().answers);
    shares.answered(static_cast<double>(used.prompt + used.completion), came.times.e2e);
  }
  if (came.prompt_bytes > 0 && used.prompt > 0) {
    const double seen = static_cast<double>(came.prompt_bytes) / static_cast<double>(used.prompt);
    bytes_per_token_.add(seen / kFirstBytesPerToken, call.client, now);
  }
  pump();
}

std::int64_t expected_time(const EngineService& service, const EngineCall& call,
                           const EngineReplica& replica, std::int64_t now) {
  const OpenaiRequest& request = call.request();
  const std::int64_t first = service.expected_ttft(call, replica, now);
  if (request.stream) return first;
  const double rounds = std::ceil(request.sequences / replica.guess.limit());
  return first + static_cast<std::int64_t>(tokens_of_one(request, kUnsaidTokens) * rounds *
                                           static_cast<double>(replica.guess.tpot(now)));
}

bool may_expire(const EngineService& service, const EngineCall& call, std::int64_t now) {
  const plan::Terms& terms = service.terms();
  const Millis tpot = terms.tokens ? terms.tokens->tpot : Millis{};
  const auto each = static_cast<double>(nanos(tpot.value > 0 ? tpot : kUsualTpot));
  std::int64_t promise = each_priority(terms);
  if (!call.request().stream)
    promise +=
        static_cast<std::int64_t>(tokens_of_one(call.request(), service.mean_out.tokens) * each);
  return now - call.arrived() < promise;
}

int on_time(const EngineService& service, std::int64_t now) {
  const auto& tokens = service.terms().tokens;
  const std::int64_t ttft = tokens ? nanos(tokens->ttft) : 0;
  std::ptrdiff_t count = 0;
  for (const auto* engines : {&service.engines().here(), &service.engines().leaving()})
    for (const auto& one : *engines)
      count += std::ranges::count_if(
          one->calls, [&](const EngineCall* call) { return on_time(*call, now, ttft); });
  return static_cast<int>(count);
}

void EngineService::tick(std::int64_t now) {
  engines_.tick(now);
  for (const auto* engines : {&engines_.here(), &engines_.leaving()})
    for (const auto& one : EngineSet::List(*engines))
      for (EngineCall* call : std::vector<EngineCall*>(one->calls))
        call->end_if_idle(now, desk_.options.stream_idle_ns);
  const std::int64_t promised = terms_.tokens ? nanos(terms_.tokens->ttft) : 0;
  const std::vector<EngineCall*> waiting = waiting_;
  for (EngineCall* call : waiting) {
    const std::int64_t most = call->ask().timeout_ns.value_or(
        promised > 0 ? std::max(kPatience * promised, kEngineDead) : kLongestWait);
    if (now - call->arrived() < most || std::erase(waiting_, call) == 0) continue;
    call->expire(now);
  }
  if (!waiting_.empty()) pump();  // who pauses
}

}  // namespace partita::serve
