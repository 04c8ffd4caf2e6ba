// A chat or completion request in OpenAI's form: the body goes to the worker as it is, and what the
// worker answers comes back as it is, piece by piece. "model" in the body names the service.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "serve/front/gateway_exchange.h"
#include "serve/oip/json_scan.h"

namespace partita::serve {

namespace {

constexpr std::size_t kLengthBytes = 8;  // before the text, in the slot

Reply openai_error(int status, std::string_view message) {
  Reply reply{.status = status, .text = "{\"error\":{\"message\":"};
  append_json_string(reply.text, message);
  reply.text += R"(,"type":")";
  reply.text += status < 500 ? "invalid_request_error" : "server_error";
  reply.text += R"(","param":null,"code":null}})";
  return reply;
}

class OpenaiExchange final : public GatewayExchange {
 public:
  using GatewayExchange::GatewayExchange;
  Step begin() override;
  Step on_text() override;
  Step on_growth(std::size_t bytes) override {
    return GatewayExchange::on_growth(bytes) == Step::text ? Step::text : in_our_form();
  }
  void finish() override;

 private:
  void on_piece(StreamPiece&& piece) override;
  Step in_our_form();
  Step read_model();
  std::string content_type_ = {};
};

// The reply that the base wrote, with its message where OpenAI's clients look for it.
Step OpenaiExchange::in_our_form() {
  JsonScan scan(reply.text);
  std::string message;
  scan.object([&](const std::string&) { message = scan.string(); });
  std::string headers = std::move(reply.headers);
  reply = openai_error(reply.status, message);
  reply.headers = std::move(headers);
  return Step::answer;
}

Step OpenaiExchange::begin() {
  trace();
  if (facts_.method != Method::post) {
    refuse(405, "this is a POST");
    reply.headers = "Allow: POST\r\n";
    return in_our_form();
  }
  if (facts_.content_length > kOpenaiBodyBytes) {
    refuse(413, std::to_string(facts_.content_length) + " bytes of body where " +
                    std::to_string(kOpenaiBodyBytes) + " are the limit");
    return in_our_form();
  }
  text_open = facts_.chunked;
  text_wanted = text_open ? kOpenaiBodyBytes : facts_.content_length;
  return Step::text;
}

Step OpenaiExchange::read_model() {
  JsonScan scan(text);
  scan.object([&](const std::string& key) {
    if (key == "model")
      service = scan.string();
    else
      scan.raw();
  });
  scan.end();
  if (!scan.ok()) return refuse(400, "request JSON: " + scan.error());
  if (service.empty()) return refuse(400, "request JSON: \"model\" is to name the service");
  if (!permitted()) return Step::answer;
  if (!door_.backend.known(service)) return refuse(404, "there is no model '" + service + "'");
  const auto model = door_.model(service);
  if (model == nullptr) {
    door_.backend.turned_away(service);
    return deny({.kind = Denial::Kind::not_ready,
                 .message = "no worker of model '" + service + "' is ready",
                 .retry_after_ns = 1'000'000'000});
  }
  if (model->kind != ModelKind::openai)
    return refuse(400, "model '" + service + "' takes tensors: /v2/models/" + service + "/infer");
  if (const auto denial = admit(1, {})) return deny(*denial);
  if (!door_.backend.claim(*request_, 1))
    return deny({.kind = Denial::Kind::overloaded,
                 .message = "no memory for another request of '" + service + "'",
                 .retry_after_ns = 1'000'000'000});
  return Step::backend;
}

Step OpenaiExchange::on_text() {
  if (read_model() == Step::answer) return in_our_form();
  const std::span<char> slot = door_.backend.input(*request_, 0, 0);
  CHECK(slot.size() >= kLengthBytes + text.size());
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    slot[i] = static_cast<char>(text.size() >> (8 * i) & 0xFF);
  std::memcpy(slot.data() + kLengthBytes, text.data(), text.size());
  text = {};
  return submit(true);
}

void OpenaiExchange::on_piece(StreamPiece&& piece) {
  if (!stream_begun) {
    stream_begun = true;
    const bool usable = piece.http_status >= 200 && piece.http_status <= 599;
    reply.status = usable ? piece.http_status : 502;
    for (const char c : piece.content_type)
      if (c >= ' ' && c < 127) content_type_.push_back(c);  // it goes into a header
    if (content_type_.empty()) content_type_ = "application/json";
    reply.content_type = content_type_;
  }
  pieces += piece.bytes;
}

void OpenaiExchange::finish() {
  if (stream_begun) {
    stream_broken = denial_.has_value();
    return;
  }
  if (denial_)
    deny(*denial_);
  else
    refuse(502, "the worker gave no answer");
  in_our_form();
}

}  // namespace

std::shared_ptr<Exchange> make_openai_exchange(Door& door, RequestFacts facts) {
  return std::make_shared<OpenaiExchange>(door, std::move(facts));
}

}  // namespace partita::serve
