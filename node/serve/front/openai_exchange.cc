// A request in OpenAI's form: what an engine or a worker answers comes back as it is, piece by
// piece. "model" in the body names the service: a language model has engines, to which the body
// goes; any other may have workers that pass it on.
#include <cstring>
#include <utility>

#include "base/check.h"
#include "serve/engines/engine_pool.h"
#include "serve/front/gateway_exchange.h"
#include "serve/oip/json_scan.h"
#include "serve/openai/event_stream.h"
#include "serve/openai/openai_request.h"

namespace partita::serve {

namespace {

constexpr std::size_t kLengthBytes = 8;              // before the text, in the slot
constexpr std::size_t kEngineBodyBytes = 32u << 20;  // pictures may be in it
constexpr int kTooMany = 429, kUnauthorized = 401;

class OpenaiExchange final : public GatewayExchange {
 public:
  OpenaiExchange(Door& door, RequestFacts facts) : GatewayExchange(door, std::move(facts)) {
    priority_ = priority_of_key;
  }
  ~OpenaiExchange() override { OpenaiExchange::give_back(); }
  Step begin() override;
  Step on_text() override;
  Step on_growth(std::size_t bytes) override {
    return GatewayExchange::on_growth(bytes) == Step::text ? Step::text : in_our_form();
  }
  void finish() override;
  void give_back() override;

 private:
  void on_piece(const StreamPiece& piece) override;
  void on_answer(const PeerAnswer& answer) override {
    used_ = read_answer(answer.body).usage;
    answered_ = answer.status < 400;
  }
  tl::expected<KeyHandle, Denial> key_begun(bool asked) override;
  void uncount(const Denial& why) override {
    engines_ ? engines_->uncount() : GatewayExchange::uncount(why);
  }
  Step deny_or_go(const Denial& why, bool asked) {
    return goes_over(why, asked) ? hand_over() : deny(why);
  }
  Step in_our_form();
  Step read_model();
  Step to_worker();
  Step to_engine(EngineService& engines);
  std::string content_type_ = {};
  EngineService* engines_ = nullptr;
  std::shared_ptr<EngineCall> call_ = {};
  // Of one that another node has: what was set aside of its key's limit, and what it came to.
  double set_aside_ = 0, prompt_ = 0;
  int answers_ = 1;
  bool adds_usage_ = false, answered_ = false;
  EventStream events_ = {};
  std::optional<TokenUsage> used_ = {};
  std::int64_t tokens_ = 0;
};

Step OpenaiExchange::in_our_form() {
  reply = in_openai_form(std::move(reply));
  return Step::answer;
}

Step OpenaiExchange::begin() {
  trace();
  if (facts_.method != Method::post) {
    refuse(405, "this is a POST");
    reply.headers = "Allow: POST\r\n";
    return in_our_form();
  }
  const std::size_t most = door_.engines ? kEngineBodyBytes : kOpenaiBodyBytes;
  if (facts_.content_length > most) {
    refuse(413, std::to_string(facts_.content_length) + " bytes of body where " +
                    std::to_string(most) + " are the limit");
    return in_our_form();
  }
  text_open = facts_.chunked;
  text_wanted = text_open ? most : facts_.content_length;
  return Step::text;
}

Step OpenaiExchange::read_model() {
  const auto request = parse_openai_request(text);
  if (!request) return refuse(400, request.error().message);
  service = request->model;
  answers_ = request->answers;
  if (!permitted()) return Step::answer;
  EngineService* const engines = door_.engines ? door_.engines->find(service) : nullptr;
  return engines ? to_engine(*engines) : to_worker();
}

Step OpenaiExchange::to_engine(EngineService& engines) {
  EngineAsk ask{.path = facts_.path,
                .body = std::move(text),
                .client = facts_.client,
                .priority = priority_(facts_),
                .timeout_ns = facts_.timeout_ns,
                .idempotent = facts_.idempotent,
                .trace = facts_.trace};
  // Without tokens a client is an address, of which there are any number.
  const bool has_key =
      facts_.token != nullptr || (!facts_.handed_by.empty() && door_.options.asks_for_tokens());
  if (has_key) ask.key = facts_.client;
  // Where it came in its limits were asked.
  if (facts_.token != nullptr && facts_.handed_by.empty()) ask.limits = facts_.token->limits;
  if (!facts_.handed_by.empty()) door_.options.peers->count_in(service);
  engines_ = &engines;
  auto call = engines.begin(ask);
  if (!call) {
    text = std::move(ask.body);
    return deny_or_go(call.error(), false);
  }
  call_ = *std::move(call);
  items = 1;
  submitted_ns = Loop::now_ns();
  call_->completion = completion(true);
  engines.start(*call_);
  return Step::stream;
}

Step OpenaiExchange::to_worker() {
  infers_ = true;
  if (!door_.backend.known(service))
    return deny_or_go(not_here(door_.options.peers, service), false);
  if (facts_.path == kEmbeddingsPath) return refuse(404, "there is no model '" + service + "'");
  if (!facts_.handed_by.empty()) door_.options.peers->count_in(service);
  if (text.size() > kOpenaiBodyBytes)
    return refuse(413, "more than " + std::to_string(kOpenaiBodyBytes) + " bytes of JSON");
  const auto model = door_.model(service);
  if (model == nullptr) {
    door_.backend.turned_away(service);
    return deny_or_go(no_worker(service), false);
  }
  if (model->kind != ModelKind::openai)
    return refuse(400, "model '" + service + "' takes tensors: /v2/models/" + service + "/infer");
  if (const auto denial = admit(1, {})) return deny_or_go(*denial, true);
  if (!door_.backend.claim(*request_, 1))
    return deny(no_memory(service));
  const std::span<char> slot = door_.backend.input(*request_, 0, 0);
  CHECK(slot.size() >= kLengthBytes + text.size());
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    slot[i] = static_cast<char>(text.size() >> (8 * i) & 0xFF);
  std::memcpy(slot.data() + kLengthBytes, text.data(), text.size());
  text = {};
  return submit(true);
}

Step OpenaiExchange::on_text() {
  const Step next = read_model();
  return next == Step::answer ? in_our_form() : next;
}

void OpenaiExchange::give_back() {
  if (call_ != nullptr) engines_->release(std::exchange(call_, nullptr));
  GatewayExchange::give_back();
}

// A language model's limits are of requests and tokens.
tl::expected<KeyHandle, Denial> OpenaiExchange::key_begun(bool asked) {
  const bool of_tensors = door_.engines == nullptr || door_.backend.known(service);
  if (of_tensors) return GatewayExchange::key_begun(asked);
  const auto request = parse_openai_request(text);
  prompt_ = guessed_prompt_tokens(*request, kFirstBytesPerToken);
  set_aside_ = prompt_ + most_answered(*request, door_.engines->usual_out(service));
  const KeyAsk key{.tokens = set_aside_, .bytes = static_cast<double>(text.size())};
  const std::int64_t wait = door_.engines->key_begun(facts_.client, facts_.token->limits, key);
  if (wait > 0) return tl::unexpected(over_limit(wait));
  // Who carries it is to say what it came to, which the client need not want to know.
  adds_usage_ = adds_usage(*request);
  if (adds_usage_) text = engine_body(*request, request->model);
  return KeyHandle(nullptr, [this](void*) {  // which this exchange holds
    double came = used_ ? static_cast<double>(used_->prompt + used_->completion) : 0;
    if (!used_ && (answered_ || tokens_ > 0)) came = prompt_ + static_cast<double>(tokens_);
    door_.engines->key_ended(facts_.client, came - set_aside_);
  });
}

void OpenaiExchange::on_piece(const StreamPiece& piece) {
  if (going()) {
    std::string passed;
    const bool read = events_.take(piece.bytes, [&](const StreamEvent& event) {
      if (event.kind == StreamEvent::Kind::token) ++tokens_;
      if (event.usage) used_ = event.usage;
      if (event.kind != StreamEvent::Kind::usage) passed += event.bytes;
    });
    if (adds_usage_ && read) {
      pieces += passed;
      return;
    }
  }
  if (!stream_begun) {
    stream_begun = true;
    const bool usable = piece.http_status >= 200 && piece.http_status <= 599;
    reply.status = usable ? piece.http_status : 502;
    for (const char c : piece.content_type)
      if (c >= ' ' && c < 127) content_type_.push_back(c);  // it goes into a header
    if (content_type_.empty()) content_type_ = "application/json";
    reply.content_type = content_type_;
    if (!piece.retry_after.empty())
      reply.headers = "Retry-After: " + std::string(piece.retry_after) + "\r\n";
  }
  pieces += piece.bytes;
}

void OpenaiExchange::finish() {
  if (going()) {
    if (used_ && used_->completion > 0 && door_.engines != nullptr)
      door_.engines->answered_elsewhere(service, static_cast<double>(used_->completion) / answers_);
    finish_over();
    if (denial_ && !stream_begun) in_our_form();
    return;
  }
  if (stream_begun) {
    stream_broken = stream_broken || denial_.has_value();
    return;
  }
  if (denial_)
    deny(*denial_);
  else
    refuse(502, "the worker gave no answer");
  in_our_form();
}

}  // namespace

Reply in_openai_form(Reply reply) {
  JsonScan scan(reply.text);
  std::string message;
  scan.object([&](const std::string&) { message = scan.string(); });
  Reply ours = openai_error(reply.status, message);
  ours.headers = std::move(reply.headers);
  return ours;
}

Reply openai_error(int status, std::string_view message) {
  Reply reply{.status = status, .text = "{\"error\":{\"message\":"};
  append_json_string(reply.text, message);
  reply.text += R"(,"type":")";
  reply.text += status == kTooMany ? "rate_limit_error"
                : status < 500     ? "invalid_request_error"
                                   : "server_error";
  reply.text += R"(","param":null,"code":)";
  reply.text += status == kTooMany        ? "\"rate_limit_exceeded\""
                : status == kUnauthorized ? "\"invalid_api_key\""
                                          : "null";
  reply.text += "}}";
  return reply;
}

std::shared_ptr<Exchange> make_openai_exchange(Door& door, RequestFacts facts) {
  return std::make_shared<OpenaiExchange>(door, std::move(facts));
}

}  // namespace partita::serve
