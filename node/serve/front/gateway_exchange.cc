#include "serve/front/gateway_exchange.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/check.h"
#include "base/door/gzip.h"
#include "serve/oip/answer.h"

namespace partita::serve {

namespace {

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "100m": nanoseconds of gRPC's header, at most a day's; nothing: it is none.
std::optional<std::int64_t> grpc_timeout(std::string_view text) {
  constexpr std::int64_t kSecond = 1'000'000'000, kDay = 86'400 * kSecond;
  constexpr std::pair<char, std::int64_t> kUnits[] = {
      {'n', 1},       {'u', 1000},         {'m', 1'000'000},
      {'S', kSecond}, {'M', 60 * kSecond}, {'H', 3600 * kSecond}};
  if (text.empty() || text.size() > 9) return std::nullopt;
  const auto count = whole_number(text.substr(0, text.size() - 1));
  const auto unit = std::ranges::find(kUnits, text.back(), &std::pair<char, std::int64_t>::first);
  if (!count || *count < 1 || unit == std::end(kUnits)) return std::nullopt;
  return *count > kDay / unit->second ? kDay : *count * unit->second;
}

}  // namespace

std::shared_ptr<const ModelSpec> Door::model(std::string_view service) {
  const ModelSpec* now = backend.model(service);
  if (now == nullptr) return nullptr;
  const auto found = models.find(service);
  if (found != models.end() && *found->second == *now) return found->second;
  auto copy = std::make_shared<const ModelSpec>(*now);
  models.insert_or_assign(std::string(service), copy);
  return copy;
}

Denial unknown_model(const std::string& name) {
  return {.kind = Denial::Kind::unknown_model,
          .message = "there is no model '" + name + "'",
          .elsewhere = true};
}

Denial no_worker(const std::string& service) {
  return {.kind = Denial::Kind::not_ready,
          .message = "no worker of model '" + service + "' is ready",
          .retry_after_ns = 1'000'000'000,
          .elsewhere = true};
}

Denial no_memory(const std::string& service) {
  return {.kind = Denial::Kind::overloaded,
          .message = "no memory for another request of '" + service + "'",
          .retry_after_ns = 1'000'000'000};
}

RequestHead head_of(const InferRequest& wanted, std::string_view of_set) {
  RequestHead head;
  head.model = of_set;
  head.timeout_ns = wanted.timeout_ns;
  head.priority = wanted.priority;
  head.sequence = wanted.sequence;
  head.sequence_begins = wanted.sequence_begins;
  head.sequence_ends = wanted.sequence_ends;
  return head;
}

bool Door::evict(std::string_view service, const Filling* except) {
  Filling* worst = nullptr;
  const std::int64_t since = Loop::now_ns() - kFillGrace;
  for (Filling* one : filling) {
    if (one == except || one->filling_since > since || !one->fills(service)) continue;
    if (worst == nullptr || one->rows_held() > worst->rows_held()) worst = one;
  }
  if (worst != nullptr) worst->evict();
  return worst != nullptr;
}

std::size_t HeldText::of_client() const {
  const auto found = door_.json_of.find(client_);
  return found == door_.json_of.end() ? 0 : found->second;
}

bool HeldText::too_much(std::size_t more) const {
  const std::size_t most = door_.options.limits.json_bytes_in_flight;
  const std::size_t all = door_.json_in_flight + more;
  if (all > most) return true;
  return bytes_ + more > kSmallText && of_client() + more > kJsonShare * (most - all);
}

HeldText* HeldText::worst() const {
  const std::int64_t before = Loop::now_ns() - kFillGrace;
  const auto held = [](const HeldText* one) { return std::pair(one->of_client(), one->bytes_); };
  HeldText* worst = nullptr;
  for (HeldText* one : door_.reading)
    if (one != this && one->since_ < before && (worst == nullptr || held(worst) < held(one)))
      worst = one;
  return worst == nullptr || worst->of_client() < of_client() ? nullptr : worst;
}

bool HeldText::grow(std::size_t bytes) {
  while (bytes > bytes_ && too_much(bytes - bytes_)) {
    HeldText* const other = worst();
    if (other == nullptr) return false;
    other->hold(0);
    other->dropped();
  }
  hold(bytes);
  if (bytes > kSmallText) door_.reading.insert(this);
  return true;
}

void HeldText::came() {
  if (bytes_ > kSmallText) door_.reading.erase(this);
}

void HeldText::hold(std::size_t bytes) {
  door_.json_in_flight += bytes - bytes_;
  const std::size_t before = std::exchange(bytes_, bytes);
  const auto counted = [](std::size_t count) { return count > kSmallText ? count : 0; };
  if (counted(before) == counted(bytes)) return;
  const auto of = door_.json_of.try_emplace(client_).first;
  of->second += counted(bytes) - counted(before);
  if (of->second == 0) door_.json_of.erase(of);
  if (bytes == 0) door_.reading.erase(this);
}

int status_of(Denial::Kind kind) {
  using Kind = Denial::Kind;
  static constexpr std::pair<Kind, int> kHttpStatuses[] = {
      {Kind::unknown_model, 404}, {Kind::bad_request, 400}, {Kind::too_large, 413},
      {Kind::not_ready, 503},     {Kind::absent, 503},      {Kind::overloaded, 503},
      {Kind::would_be_late, 503}, {Kind::expired, 504},     {Kind::failed, 500},
      {Kind::harmful, 422},       {Kind::lost, 410},        {Kind::slowed, 429},
      {Kind::no_answer, 502}};
  return std::ranges::find(kHttpStatuses, kind, &std::pair<Kind, int>::first)->second;
}

Reply error_reply(int status, std::string_view message) {
  return {.status = status, .text = error_answer(message)};
}

Reply denial_reply(const Denial& denial) {
  Reply reply = error_reply(status_of(denial.kind), denial.message);
  if (denial.retry_after_ns > 0) {
    constexpr std::int64_t kMilli = 1'000'000, kSecond = 1'000'000'000;
    const auto up = [&](std::int64_t unit) { return (denial.retry_after_ns - 1) / unit + 1; };
    reply.headers = "Retry-After: " + std::to_string(up(kSecond)) +
                    "\r\nRetry-After-Ms: " + std::to_string(up(kMilli)) + "\r\n";
  }
  return reply;
}

Result<RequestFacts> facts_of(const HttpHead& head) {
  RequestFacts facts;
  facts.method = head.method;
  facts.method_name = head.method_name;
  facts.path = head.target.substr(0, head.target.find('?'));
  facts.content_length = head.content_length.value_or(0);
  facts.chunked = head.chunked;
  facts.json_bytes = head.json_bytes;
  facts.gzip = accepts_gzip(head.accept_encoding);
  facts.packed = is_packed(head.content_encoding);
  facts.trace = trace_context(head.trace_parent, head.trace_state);
  if (head.json_bytes && *head.json_bytes > facts.content_length && !head.chunked && !facts.packed)
    return bad_input("Inference-Header-Content-Length", "more than Content-Length");
  if (head.timeout_ms) {
    const auto value = whole_number(*head.timeout_ms);
    if (!value || *value > 86'400'000) return bad_input("Partita-Timeout-Ms", "1 to a day's");
    facts.timeout_ns = TRY(timeout_from_us("Partita-Timeout-Ms", *value * 1000));
  }
  if (head.grpc_timeout) {
    const auto timeout = grpc_timeout(*head.grpc_timeout);
    if (!timeout) return bad_input("grpc-timeout", "a number and its unit are wanted");
    facts.timeout_ns = std::min(*timeout, facts.timeout_ns.value_or(*timeout));
  }
  if (head.priority) {
    facts.priority =
        TRY(priority_from("Partita-Priority", whole_number(*head.priority).value_or(99)));
  }
  if (head.idempotent) {
    if (*head.idempotent != "true" && *head.idempotent != "false")
      return bad_input("Partita-Idempotent", "true or false is wanted");
    facts.idempotent = *head.idempotent == "true";
  }
  return facts;
}

GatewayExchange::~GatewayExchange() { give_back(); }

Step GatewayExchange::refuse(int status, std::string_view message) {
  give_back();
  reply = error_reply(status, message);
  return Step::answer;
}

Step GatewayExchange::deny(const Denial& why) {
  const bool counted_there = peer_call_ && peer_call_->was_handed_back();
  give_back();
  Denial denial = why;
  if (facts_.handed_by.empty() && denial.kind == Denial::Kind::absent)
    denial = told_apart(*door_.options.peers, std::move(denial), service, PeerPool::Way::http,
                        facts_.client, infers_ && !counted_there);
  reply = denial_reply(denial);
  if (facts_.handed_by.empty() || !denial.elsewhere || submitted_ns > 0) return Step::answer;
  reply.headers += std::string(kHandedBack) + ": " +
                   std::string(is_not_here(denial) ? kBackAbsent : kBackFull) + "\r\n";
  if (facts_.counted_there) uncount(denial);
  return Step::answer;
}

bool GatewayExchange::permitted() {
  if (facts_.token == nullptr || allows(*facts_.token, service)) return true;
  refuse(403, "this token is not for service '" + service + "'");
  return false;
}

bool GatewayExchange::may_share() const {
  return facts_.handed_by.empty() && door_.shared_memory_on &&
         (facts_.token == nullptr || facts_.token->all);
}

bool GatewayExchange::text_allowed(std::size_t limit) {
  if (text_wanted <= limit) return true;
  refuse(413, facts_.chunked ? "more than " + std::to_string(limit) + " bytes of JSON"
                             : std::to_string(text_wanted) + " bytes of JSON where " +
                                   std::to_string(limit) + " are the limit");
  return false;
}

Step GatewayExchange::on_growth(std::size_t bytes) {
  const auto no_room = [this](const char* why) {
    if (!request_) door_.backend.turned_away(service);
    return deny({.kind = Denial::Kind::overloaded,
                 .message = why,
                 .retry_after_ns = 1'000'000'000,
                 .elsewhere = true});
  };
  if (!held_text_.dropped)
    held_text_.dropped = [this, no_room] {
      const auto kept = weak_from_this().lock();  // its connection drops it when it has ended
      std::string().swap(text);
      no_room("its body came slowly, and others needed the memory");
      end();
    };
  if (held_text_.grow(bytes)) return Step::text;
  return no_room("too much JSON in flight; try again, or send tensors in binary form");
}

void GatewayExchange::trace() {
  if (door_.options.new_traces && facts_.trace.parent.empty())
    facts_.trace.parent = new_trace_parent();
}

std::optional<Denial> GatewayExchange::admit(int wanted_items, const RequestHead& extra) {
  RequestHead head = extra;
  head.service = service;
  head.items = wanted_items;
  head.idempotent = facts_.idempotent;
  head.client = facts_.client;
  head.trusted = facts_.trusted;
  head.trusted_since = facts_.trusted_since;
  head.limits = facts_.token == nullptr ? nullptr : &facts_.token->limits;
  head.bytes = facts_.content_length;
  head.trace_parent = facts_.trace.parent;
  head.trace_state = facts_.trace.state;
  if (facts_.priority) head.priority = *facts_.priority;
  if (facts_.timeout_ns)
    head.timeout_ns = std::min(*facts_.timeout_ns, head.timeout_ns.value_or(*facts_.timeout_ns));
  auto request = door_.backend.admit(head);
  if (!request) return std::move(request.error());
  request_ = *request;
  admitted_items_ = items = wanted_items;
  return std::nullopt;
}

void GatewayExchange::give_back() {
  if (peer_call_) PeerCall::let_go(std::move(peer_call_));
  key_.reset();
  if (request_) door_.backend.release(*std::exchange(request_, std::nullopt));
}

Completion GatewayExchange::completion(bool streaming) {
  Completion completion;
  // Who locks the exchange may have this one.
  completion.ended = [self = weak_from_this(), this](std::optional<Denial> why) {
    if (const auto exchange = self.lock()) on_end(std::move(why));
  };
  if (!streaming) return completion;
  completion.piece = [self = weak_from_this(), this](const StreamPiece& piece) {
    const auto exchange = self.lock();
    if (exchange == nullptr) return;
    on_piece(piece);
    if (wake) wake();
  };
  return completion;
}

Step GatewayExchange::submit(bool streaming) {
  CHECK(request_);
  submitted_ns = Loop::now_ns();
  door_.backend.submit(*request_, completion(streaming));
  return streaming ? Step::stream : Step::backend;
}

void GatewayExchange::on_end(std::optional<Denial> denial) {
  if (ended()) return;
  denial_ = std::move(denial);
  end();
}

void GatewayExchange::compress() {
  constexpr std::size_t kMostText = 1u << 20;  // milliseconds of the loop's time
  if (door_.options.compress && facts_.gzip && reply.text.size() <= kMostText)
    serve::compress(reply);
}

PlainExchange::PlainExchange(Door& door, RequestFacts facts, Reply answer)
    : GatewayExchange(door, std::move(facts)) {
  reply = std::move(answer);
  compress();
}

}  // namespace partita::serve
