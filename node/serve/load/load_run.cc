#include "serve/load/load_run.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>

#include "base/descriptor.h"
#include "base/http/http_response.h"
#include "base/unicode.h"
#include "serve/load/model_inputs.h"
#include "serve/openai/event_stream.h"

namespace partita::serve {
namespace {

using sim::Nanos;

constexpr Nanos kLoadSecond = 1'000'000'000;
constexpr Nanos kLead = 20'000'000;  // from the start to time 0
constexpr Nanos kLongestWait = 100'000'000;
constexpr Nanos kNotYet = sim::kForever / 2;  // of a closed loop that is full
constexpr Nanos kLongestTimer = 3'600 * kLoadSecond;
constexpr std::size_t kBodiesBytes = 8u << 20;  // of a service's different requests
constexpr std::size_t kMostBodies = 16;
constexpr int kMostAtOnce = 64;  // requests, before answers are looked at
constexpr std::size_t kReadBytes = 65'536;
constexpr std::uint64_t kMostStreamed = 1u << 30;  // bytes of an answer
constexpr std::uint32_t kTimer = 0xffffffff;
constexpr char kReset[] = "the connection was refused, or broke";

// No two runs say the same.
Rng new_words() {
  std::uint64_t seed = 0;
  if (::getrandom(&seed, sizeof seed, 0) < 0) seed = static_cast<std::uint64_t>(::getpid());
  return Rng(seed);
}

struct Stream {  // of the requests of one service
  LoadService service;
  std::vector<std::string> requests;  // as they are sent, in turn
  std::size_t next_request = 0;
  Nanos next = 0;  // arrival, from time 0
  RequestTarget target = {};
  Rng rng{1};  // of the requests of a language model, or of a set
  Rng words = new_words();
  int open = 0;
  int asked_out = 0;                    // tokens, of the last one
  std::vector<TensorSpec> inputs = {};  // of the models of a set,
  std::vector<double> until = {};       // and their weights, summed up

  // When the next one is due, at the earliest `now`.
  Nanos upcoming(Nanos now) {
    if (service.in_flight == 0) return service.arrivals.next();
    if (next_request >= service.lengths.size()) return sim::kForever;
    return open < service.in_flight ? now : kNotYet;
  }
  // Each request is another.
  bool has_own_requests() const { return service.tokens || service.models; }
  std::string own_request() {
    Rng own = rng.split(next_request);
    if (service.models) {
      ++next_request;
      const auto drawn = std::ranges::upper_bound(until, own.uniform() * until.back());
      const auto place =
          std::min(static_cast<std::size_t>(drawn - until.begin()), until.size() - 1);
      target.model = service.models->models[place].name;
      return infer_request(target, inputs, own);
    }
    const plan::Length length = next_request < service.lengths.size()
                                    ? service.lengths[next_request]
                                    : plan::drawn(*service.tokens, own);
    asked_out = length.out;
    return completion_request(target, *service.tokens, length, own, words.split(next_request++));
  }
};

struct Due {
  std::size_t service = 0;
  Nanos at = 0;  // on the clock
};

// A connection and the request on it.
struct Lane {
  HttpStream stream;
  HttpResponse answer;
  std::optional<Due> due = {};  // none: nothing is under way, or its end is already counted
  const std::string* request = nullptr;
  std::string own = {};     // where each request is another
  TokenAnswer tokens = {};  // of a language model
  int asked_out = 0;
  std::size_t sent = 0;
  bool busy() const { return request != nullptr; }
};

// The answer to a request for metadata, as an error or as inputs.
Result<std::vector<TensorSpec>> inputs_of(const HttpDialer& dialer, const RequestTarget& target,
                                          Clock& clock) {
  const std::string what =
      fmt::format("{}{}/v2/models/{}", authority_of(target.url), target.url.path, target.model);
  const auto answer = fetch(dialer, metadata_request(target), clock, 10 * kLoadSecond);
  if (!answer) return environment_error(what, answer.error().message);
  if (answer->status != 200)
    return environment_error(
        what, fmt::format("status {} {}", answer->status, answer->body.substr(0, 200)));
  return parse_model_inputs(what, "\n" + answer->body);
}

// A thread that goes before all ordinary ones while this lives, where the system lets it.
class FirstInLine {
 public:
  explicit FirstInLine(bool wanted) {
    const sched_param first{.sched_priority = 1};
    granted_ = wanted && ::sched_getparam(0, &before_) == 0 &&
               ::sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first) == 0;
  }
  ~FirstInLine() {
    if (granted_) ::sched_setscheduler(0, SCHED_OTHER, &before_);
  }
  FirstInLine(const FirstInLine&) = delete;
  FirstInLine& operator=(const FirstInLine&) = delete;
  bool granted() const { return granted_; }

 private:
  sched_param before_{};
  bool granted_ = false;
};

class LoadEngine {
 public:
  LoadEngine(const LoadOptions& options, const HttpDialer& dialer, std::vector<Stream> streams,
             Clock& clock)
      : options_(options),
        dialer_(dialer),
        clock_(clock),
        streams_(std::move(streams)),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)),
        timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
        lanes_(static_cast<std::size_t>(options.connections)) {
    for (std::size_t i = lanes_.size(); i > 0; --i) closed_.push_back(i - 1);
    for (const Stream& stream : streams_) {
      outcome_.services.emplace_back(stream.service.slo);
      outcome_.services.back().tokens.keeps_times = stream.service.keeps_times;
    }
  }

  Result<LoadOutcome> run() {
    if (!watch(timer_.get(), kTimer, EPOLLIN))
      return environment_error("epoll", std::strerror(errno));
    zero_ = clock_.now_ns() + kLead;
    next_look_ = zero_ + kLoadSecond;
    for (Stream& stream : streams_) stream.next = stream.upcoming(0);
    set_timer(std::max<Nanos>(earliest().next, 0) + kLead);
    while (!over()) {
      wait();
      const Nanos now = clock_.now_ns();
      send_due(now);
      look(now);
    }
    give_up_rest();
    return std::move(outcome_);
  }

 private:
  bool watch(int fd, std::uint32_t tag, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u32 = tag;
    return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  }

  // ---- arrivals

  Stream& earliest() {
    return *std::ranges::min_element(streams_, {}, [](const Stream& s) { return s.next; });
  }

  bool arrivals_over(Nanos next) const {
    if (outcome_.stopped || next == sim::kForever) return true;
    return next >= options_.duration && offered_ >= options_.min_requests;
  }

  bool over() {
    if (!ended_ && arrivals_over(earliest().next)) end_arrivals();
    const bool cut = outcome_.stopped && streams_.front().service.in_flight > 0;
    return ended_ && (open_ == 0 || cut || clock_.now_ns() >= *ended_ + options_.patience);
  }

  void end_arrivals() {
    ended_ = clock_.now_ns();
    const Nanos took = std::max<Nanos>(*ended_ - zero_, 0);
    const Nanos whole = outcome_.stopped ? took : std::max(last_, options_.duration);
    outcome_.seconds = static_cast<double>(whole) / 1e9;
  }

  void send_due(Nanos now) {
    for (int sent = 0; !ended_; ++sent) {
      Stream& stream = earliest();
      if (arrivals_over(stream.next)) return end_arrivals();
      const Nanos at = zero_ + stream.next;
      // Answers are to be read between requests, also when the next ones are due already.
      if (at > now || sent == kMostAtOnce) return set_timer(std::max<Nanos>(at - now, 1));
      const auto service = static_cast<std::size_t>(&stream - streams_.data());
      outcome_.services[service].offer(now - at);
      last_ = stream.next;
      ++offered_;
      ++open_;
      ++stream.open;
      send({service, at});
      now = clock_.now_ns();
      stream.next = stream.upcoming(now - zero_);
    }
  }

  void set_timer(Nanos left) {
    left = std::min(left, kLongestTimer);
    const itimerspec time{.it_interval = {}, .it_value = {left / kLoadSecond, left % kLoadSecond}};
    ::timerfd_settime(timer_.get(), 0, &time, nullptr);
  }

  // ---- connections

  void send(Due due) {
    if (waiting_.empty() && !(idle_.empty() && closed_.empty())) return place(due);
    ++outcome_.waited;
    if (waiting_.size() >= kMaxWaiting)
      return fail(due, LoadFate::failed, fmt::format("{} requests waited already", kMaxWaiting));
    waiting_.push_back(due);
  }

  // On a connection that is idle, or on a new one.
  void place(Due due) {
    if (!idle_.empty()) {
      const std::size_t lane = idle_.back();
      idle_.pop_back();
      return begin(lane, due);
    }
    const std::size_t lane = closed_.back();
    closed_.pop_back();
    if (dial(lane)) return begin(lane, due);
    closed_.push_back(lane);
    fail(due, LoadFate::reset, kReset);
  }

  bool dial(std::size_t index) {
    Lane& lane = lanes_[index];
    lane.stream = dialer_.dial();
    if (!lane.stream.open()) return false;
    if (!watch(lane.stream.descriptor(), static_cast<std::uint32_t>(index),
               EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)) {
      lane.stream = {};
      return false;
    }
    const auto open = static_cast<int>(lanes_.size() - closed_.size());
    outcome_.connections = std::max(outcome_.connections, open);
    return true;
  }

  void begin(std::size_t index, Due due) {
    Lane& lane = lanes_[index];
    Stream& stream = streams_[due.service];
    lane.due = due;
    lane.sent = 0;
    lane.answer = stream.service.tokens ? HttpResponse(kMostStreamed) : HttpResponse();
    if (stream.has_own_requests()) {
      lane.own = stream.own_request();
      lane.asked_out = stream.asked_out;
      lane.tokens = {};
      lane.request = &lane.own;
    } else {
      lane.request = &stream.requests[stream.next_request++ % stream.requests.size()];
    }
    write(lane);
  }

  void write(Lane& lane) {
    while (lane.busy() && lane.sent < lane.request->size()) {
      const auto moved = lane.stream.write(std::span(*lane.request).subspan(lane.sent));
      if (moved.kind == HttpStream::Moved::Kind::blocked) break;
      // Whoever answers early may close before it has read everything: the answer counts.
      if (moved.kind != HttpStream::Moved::Kind::some) break;
      lane.sent += moved.bytes;
    }
  }

  // Writes and reads until the system has nothing more; the connection may be closed or free then.
  void pump(std::size_t index) {
    Lane& lane = lanes_[index];
    write(lane);
    while (true) {
      const auto moved = lane.stream.read(room_);
      if (moved.kind == HttpStream::Moved::Kind::blocked) break;
      if (moved.kind != HttpStream::Moved::Kind::some) {
        lane.answer.end();
        if (lane.due && lane.answer.state() == HttpResponse::State::done) count_answer(lane);
        return close(index, LoadFate::reset);
      }
      if (!lane.busy() || !take(lane, moved.bytes)) return close(index, LoadFate::failed);
      if (moved.emptied) break;
    }
    settle(index);
  }

  // False when what came cannot be.
  bool take(Lane& lane, std::size_t bytes) {
    const std::size_t used = lane.answer.take(std::span<const char>(room_).first(bytes));
    if (lane.answer.state() == HttpResponse::State::broken || used < bytes) return false;
    if (lane.due && tokens_of(*lane.due) && lane.answer.status() == 200)
      lane.tokens.take(lane.answer.take_body(), clock_.now_ns());
    if (lane.due && lane.answer.state() == HttpResponse::State::done) count_answer(lane);
    return true;
  }

  const std::optional<plan::TokenTerms>& tokens_of(Due due) const {
    return streams_[due.service].service.tokens;
  }

  void count_answer(Lane& lane) {
    const int status = lane.answer.status();
    const bool refused = status == 503 || status == 429;
    const Due due = *std::exchange(lane.due, std::nullopt);
    const auto& terms = tokens_of(due);
    const bool whole = status == 200 && (!terms || lane.tokens.whole());
    const bool kept = !whole || !terms ||
                      outcome_.services[due.service].tokens.end(lane.tokens, *terms,
                                                                lane.asked_out, due.at);
    if (whole) return finish(due, LoadFate::completed, kept);
    if (refused) {
      std::string& first = outcome_.services[due.service].first_refusal;
      if (first.empty()) first = refusal_of(lane.answer);
      return finish(due, LoadFate::refused);
    }
    fail(due, LoadFate::failed,
         status == 200 ? "an answer without a token, or that did not end as one should"
                       : fmt::format("status {}", status));
  }

  // With what it says, of a language model.
  static std::string refusal_of(const HttpResponse& answer) {
    constexpr std::size_t kMostQuoted = 300;
    const std::string said =
        utf8(printable(message_of_error(answer.body()).substr(0, kMostQuoted)));
    return fmt::format("status {}{}{}", answer.status(), said.empty() ? "" : ": ", said);
  }

  void fail(Due due, LoadFate fate, const std::string& why) {
    std::string& first = outcome_.services[due.service].first_failure;
    if (first.empty()) first = why;
    finish(due, fate);
  }

  void finish(Due due, LoadFate fate, bool kept = true) {
    const Nanos now = clock_.now_ns();
    outcome_.services[due.service].end(fate, std::max<Nanos>(now - due.at, 0), kept);
    outcome_.answered_s = static_cast<double>(now - zero_) / 1e9;
    --open_;
    Stream& stream = streams_[due.service];
    --stream.open;
    if (stream.next == kNotYet) stream.next = stream.upcoming(now - zero_);
  }

  // A lane whose answer is there and whose request has left may take the next one.
  void settle(std::size_t index) {
    Lane& lane = lanes_[index];
    if (!lane.busy() || lane.answer.state() != HttpResponse::State::done) return;
    if (!lane.answer.keeps_alive()) return close(index, LoadFate::reset);
    if (lane.sent < lane.request->size()) return;
    lane.request = nullptr;
    idle_.push_back(index);
  }

  // What was under way there comes to this.
  void close(std::size_t index, LoadFate fate) {
    Lane& lane = lanes_[index];
    const bool idle = !lane.busy();
    const std::optional<Due> lost = std::exchange(lane.due, std::nullopt);
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, lane.stream.descriptor(), nullptr);
    lane.stream = {};
    lane.request = nullptr;
    if (lost) fail(*lost, fate, fate == LoadFate::reset ? kReset : "an answer that is no HTTP");
    if (idle) std::erase(idle_, index);
    closed_.push_back(index);
  }

  // Whoever waits longest gets what is free.

  void serve_waiting() {
    while (!waiting_.empty() && !(idle_.empty() && closed_.empty())) {
      const Due due = waiting_.front();
      waiting_.pop_front();
      place(due);
    }
  }

  // ---- the loop

  void wait() {
    serve_waiting();
    std::array<epoll_event, 256> events{};
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                   static_cast<int>(kLongestWait / 1'000'000));
    for (int i = 0; i < count; ++i) {
      const std::uint32_t tag = events[static_cast<std::size_t>(i)].data.u32;
      if (tag == kTimer) {
        std::uint64_t rings = 0;
        static_cast<void>(::read(timer_.get(), &rings, sizeof rings));
        continue;
      }
      if (lanes_[tag].stream.open()) pump(tag);
      serve_waiting();
      if (!ended_) send_due(clock_.now_ns());
    }
  }

  void look(Nanos now) {
    if (now >= next_stop_) {
      next_stop_ = now + kLongestWait;
      if (!outcome_.stopped && options_.stop && options_.stop()) outcome_.stopped = true;
    }
    if (now < next_look_) return;
    next_look_ += kLoadSecond * ((now - next_look_) / kLoadSecond + 1);
    if (options_.watch) options_.watch({static_cast<double>(now - zero_) / 1e9, outcome_.services});
  }

  // What has no answer yet gets none.
  void give_up_rest() {
    const std::string why = fmt::format("no answer {:g} s after the last request was due",
                                        static_cast<double>(options_.patience) / 1e9);
    for (const Due& due : std::exchange(waiting_, {})) fail(due, LoadFate::failed, why);
    for (Lane& lane : lanes_)
      if (const auto due = std::exchange(lane.due, std::nullopt)) fail(*due, LoadFate::failed, why);
  }

  const LoadOptions& options_;
  const HttpDialer& dialer_;
  Clock& clock_;
  std::vector<Stream> streams_;
  Descriptor epoll_, timer_;
  std::vector<Lane> lanes_;
  std::vector<std::size_t> idle_, closed_;
  std::deque<Due> waiting_;
  std::vector<char> room_ = std::vector<char>(kReadBytes);
  LoadOutcome outcome_;
  Nanos last_ = 0;  // arrival, from time 0
  Nanos zero_ = 0, next_look_ = 0, next_stop_ = 0;
  std::optional<Nanos> ended_;
  long offered_ = 0, open_ = 0;
};

}  // namespace

Result<LoadOutcome> run_load(const LoadOptions& options, std::vector<LoadService> services,
                             Clock& clock) {
  if (services.empty()) return bad_input("", "there is no service to send requests to");
  if (options.connections < 1 || options.connections > kMaxLoadConnections)
    return bad_input("connections", fmt::format("must be 1 to {}", kMaxLoadConnections));
  const HttpDialer dialer = TRY(HttpDialer::to(options.url, options.tls));
  std::vector<Stream> streams;
  for (LoadService& service : services) {
    RequestTarget target{options.url, service.name, options.token};
    if (service.models) target.model = service.models->models.front().name;
    const Rng rng = sim::component_rng(options.seed, service.name).split(2);
    if (service.tokens) {
      streams.push_back(
          {.service = std::move(service), .requests = {}, .target = target, .rng = rng});
      continue;
    }
    const auto inputs = TRY(inputs_of(dialer, target, clock));
    if (service.models) {
      Stream& set = streams.emplace_back(
          Stream{.service = std::move(service), .requests = {}, .target = target, .rng = rng});
      set.inputs = inputs;
      for (const plan::SetModel& model : set.service.models->models)
        set.until.push_back((set.until.empty() ? 0 : set.until.back()) + model.weight);
      continue;
    }
    Stream& stream = streams.emplace_back(Stream{std::move(service), {}});
    do {
      stream.requests.push_back(infer_request(target, inputs, rng.split(stream.requests.size())));
    } while (stream.requests.size() < kMostBodies &&
             stream.requests.size() * stream.requests.front().size() < kBodiesBytes);
  }
  const FirstInLine first(options.first_in_line);
  Result<LoadOutcome> outcome = LoadEngine(options, dialer, std::move(streams), clock).run();
  if (outcome) outcome->first_in_line = first.granted();
  return outcome;
}

}  // namespace partita::serve
