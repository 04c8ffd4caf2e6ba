// gRPC-web at the HTTP door, over HTTP/1.1 and HTTP/2: the calls of inference.GRPCInferenceService,
// their messages and statuses in bodies, as bytes or in base64. To other nodes they go as bytes.
#include <algorithm>
#include <utility>

#include "base/base64.h"
#include "base/parse_number.h"
#include "serve/front/gateway_exchange.h"
#include "serve/front/grpc_ask.h"
#include "serve/oip/json_scan.h"

namespace partita::serve {
namespace {

constexpr std::size_t kPrefixBytes = 5;  // of a message: flags, and its length
constexpr unsigned char kTrailersFlag = 0x80;
constexpr std::string_view kAsBytes = "application/grpc-web+proto",
                           kAsText = "application/grpc-web-text+proto";

// The status in the trailers behind the messages of a body, as HTTP has it; 0: there is none.
int status_in(std::string_view body) {
  while (body.size() >= kPrefixBytes) {
    std::uint64_t length = 0;
    for (std::size_t i = 1; i < kPrefixBytes; ++i)
      length = length << 8 | static_cast<unsigned char>(body[i]);
    const bool trailers = (static_cast<unsigned char>(body[0]) & kTrailersFlag) != 0;
    body.remove_prefix(kPrefixBytes);
    if (length > body.size()) return 0;
    constexpr std::string_view kStatus = "grpc-status:";
    if (trailers && body.starts_with(kStatus)) {
      body = body.substr(kStatus.size(), body.find('\r') - kStatus.size());
      const auto said = parse_number<int>(body);
      return said ? http_status_of(*said) : 500;
    }
    body.remove_prefix(length);
  }
  return 0;
}

std::string prefix(unsigned char flags, std::size_t bytes) {
  std::string out(1, static_cast<char>(flags));
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(bytes >> shift);
  return out;
}

// As a message of a status goes: what is not printable ASCII, and '%', as %XX.
std::string escaped(std::string_view message) {
  static constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : message) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= ' ' && byte <= '~' && c != '%')
      out += c;
    else
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
  }
  return out;
}

// Base64 in pieces, each of which may end in padding.
std::optional<std::string> bytes_of_pieces(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t pad = std::min(text.find('='), text.size());
    const std::size_t end = std::min(text.size(), (pad + 3) / 4 * 4);
    const auto piece = parse_base64(text.substr(0, end));
    if (!piece || end == 0) return std::nullopt;
    out += *piece;
    text.remove_prefix(end);
  }
  return out;
}

class GrpcWebExchange final : public GatewayExchange {
 public:
  GrpcWebExchange(Door& door, RequestFacts facts, bool in_base64)
      : GatewayExchange(door, std::move(facts)), in_base64_(in_base64) {}

  Step begin() override;
  Step on_text() override { return in_our_form(serve()); }
  Step on_growth(std::size_t bytes) override {
    return in_our_form(GatewayExchange::on_growth(bytes));
  }
  void finish() override;

 private:
  std::string_view text_type() const override { return kAsBytes; }
  void on_answer(const PeerAnswer& answer) override { outcome = status_in(answer.body); }
  Step deny_or_go(const Denial& denial, bool asked) {
    return goes_over(denial, asked) ? hand_over() : deny(denial);
  }
  GrpcCaller caller() {
    return {facts_.token.get(), !facts_.handed_by.empty(),
            door_.shared_memory_on ? &door_.shared_memory : nullptr};
  }
  Step serve();
  Step about_model(std::string_view call, Pieces message);
  Step infer(Pieces message);
  Step answer(const CallAnswer& said);
  Step in_our_form(Step next);
  void close_body(int status, std::string_view message, std::string_view more);

  const bool in_base64_;
  GrpcAsk ask_ = {};
  std::shared_ptr<const ModelSpec> model_ = {};
  BoundRequest bound_ = {};
  std::vector<AnsweredOutput> answered_ = {};
  std::vector<std::string> heads_ = {};  // before each output's bytes, and the trailers
};

Step GrpcWebExchange::begin() {
  trace();
  if (facts_.method != Method::post) return in_our_form(refuse(405, "this is a POST"));
  text_open = facts_.chunked;
  text_wanted = text_open ? door_.options.limits.json_bytes : facts_.content_length;
  if (!text_allowed(door_.options.limits.json_bytes)) return in_our_form(Step::answer);
  return Step::text;
}

Step GrpcWebExchange::serve() {
  if (in_base64_) {
    auto bytes = bytes_of_pieces(text);
    if (!bytes) return refuse(400, "the body is not in base64");
    text = *std::move(bytes);
  }
  std::uint64_t length = 0;
  for (std::size_t i = 1; i < kPrefixBytes && i < text.size(); ++i)
    length = length << 8 | static_cast<unsigned char>(text[i]);
  if (text.size() < kPrefixBytes || text[0] != 0 || length != text.size() - kPrefixBytes)
    return refuse(400, "one message is wanted, not compressed, behind its length");
  const std::string_view message = std::string_view(text).substr(kPrefixBytes);
  const std::string_view call = std::string_view(facts_.path).substr(kGrpcService.size());
  if (call == "ModelInfer") return infer({&message, 1});
  if (call == "ModelStreamInfer") return refuse(501, "streams are offered over gRPC alone");
  if (asks_of_model(call)) return about_model(call, {&message, 1});
  return answer(answer_call(door_.backend, caller(), call, {&message, 1}));
}

Step GrpcWebExchange::about_model(std::string_view call, Pieces message) {
  const auto named = parse_model_name(message);
  if (!named) return refuse(400, to_string(named.error()));
  service = asked_model(door_.backend, named->name, named->version).service;
  const bool there = !service.empty();
  if (!there) service = named->name.substr(0, kMaxNameBytes);
  if (!permitted()) return Step::answer;
  if (!there) return deny_or_go(not_here(door_.options.peers, service), false);
  return answer(answer_of_model(door_.backend, call, named->name, service));
}

Step GrpcWebExchange::infer(Pieces message) {
  auto ask = ask_by_grpc(door_.backend, message);
  if (!ask) return refuse(400, to_string(ask.error()));
  ask_ = *std::move(ask);
  service = ask_.wanted.model.substr(0, kMaxNameBytes);
  if (!permitted()) return Step::answer;
  infers_ = true;
  if (ask_.other_version) return refuse(404, "model '" + service + "' has no such version");
  if (ask_.asked.service.empty()) return deny_or_go(not_here(door_.options.peers, service), false);
  if (!facts_.handed_by.empty()) door_.options.peers->count_in(service);
  if (door_.backend.model(service) == nullptr) {
    door_.backend.turned_away(service);
    return deny_or_go(no_worker(service), false);
  }
  auto bound = bind_grpc_ask(door_.backend, ask_, caller().shares());
  if (!bound) return refuse(400, to_string(bound.error()));
  bound_ = *std::move(bound);
  service = ask_.wanted.model;
  model_ = door_.model(service);
  if (const auto denial = admit(bound_.items, head_of(ask_.wanted, ask_.asked.of_set)))
    return deny_or_go(*denial, true);
  if (!door_.backend.claim(*request_, bound_.items)) return deny(no_memory(service));
  const InputRow row = [this](int item, int tensor) {
    return door_.backend.input(*request_, item, tensor);
  };
  const GrpcTensors from{message, caller().shares()};
  if (const auto placed = place_grpc_ask(ask_, *model_, bound_, from, row); !placed)
    return refuse(400, to_string(placed.error()));
  text = {};
  return submit(false);
}

void GrpcWebExchange::finish() {
  if (going() && !denial_) {
    finish_over();
    if (reply.content_type != kAsBytes) {  // refused before it was a call
      in_our_form(Step::answer);
    } else if (in_base64_) {
      reply.text = base64(reply.text);
      reply.content_type = kAsText;
    }
    return;
  }
  if (denial_) {
    in_our_form(deny(*denial_));
    return;
  }
  auto outputs = answered_of(door_.backend, *request_, *model_, bound_, ask_.regions);
  if (!outputs) {
    in_our_form(refuse(outputs.error().http_status, outputs.error().message));
    return;
  }
  answered_ = *std::move(outputs);
  InferParts parts = infer_parts(*model_, ask_, bound_, answered_);
  heads_ = std::move(parts.heads);
  heads_.emplace_back();  // all have their places from here on
  reply = {.text = prefix(0, parts.bytes) + std::exchange(heads_[0], {})};
  const auto put = [this](std::string_view part) {
    if (!part.empty()) reply.spans.push_back({const_cast<char*>(part.data()), part.size()});
  };
  for (std::size_t i = 0; i < answered_.size(); ++i) {
    put(heads_[i]);
    for (const std::span<const char> part : answered_[i].parts) put({part.data(), part.size()});
  }
  close_body(0, "", "");
}

Step GrpcWebExchange::answer(const CallAnswer& said) {
  if (!said) return refuse(said.error().http_status, said.error().message);
  reply = {.text = prefix(0, said->size()) + *said};
  close_body(0, "", "");
  return Step::answer;
}

// The reply that the base wrote, with its message and its status where such clients look for them.
Step GrpcWebExchange::in_our_form(Step next) {
  if (next != Step::answer || outcome != 0) return next;
  JsonScan scan(reply.text);
  std::string message, more;
  scan.object([&](const std::string&) { message = scan.string(); });
  constexpr std::string_view kAfter = "Retry-After-Ms: ";
  if (const std::size_t at = reply.headers.find(kAfter); at != std::string::npos)
    more = "retry-after-ms:" +
           reply.headers.substr(at + kAfter.size(),
                                reply.headers.find("\r\n", at) - at - kAfter.size()) +
           "\r\n";
  outcome = reply.status;
  std::string back;  // to a gateway: that it was handed back
  if (const std::size_t at = reply.headers.find(kHandedBack); at != std::string::npos)
    back = reply.headers.substr(at, reply.headers.find("\r\n", at) + 2 - at);
  reply = {.headers = std::move(back)};
  close_body(grpc_status_of(outcome), message, more);
  return Step::answer;
}

// Behind the message, if there is one.
void GrpcWebExchange::close_body(int status, std::string_view message, std::string_view more) {
  if (outcome == 0) outcome = 200;
  std::string trailers = "grpc-status:" + std::to_string(status) + "\r\n";
  if (!message.empty()) trailers += "grpc-message:" + escaped(message) + "\r\n";
  trailers += more;
  trailers = prefix(kTrailersFlag, trailers.size()) + trailers;
  reply.content_type = in_base64_ ? kAsText : kAsBytes;
  if (in_base64_) {
    std::string bytes = std::move(reply.text);
    for (const iovec& span : reply.spans)
      bytes.append(static_cast<const char*>(span.iov_base), span.iov_len);
    reply.spans.clear();
    reply.text = base64(bytes + trailers);
  } else if (reply.spans.empty()) {
    reply.text += trailers;
  } else {
    heads_.back() = std::move(trailers);
    reply.spans.push_back({heads_.back().data(), heads_.back().size()});
  }
}

}  // namespace

std::shared_ptr<Exchange> make_grpc_web_exchange(Door& door, RequestFacts facts, bool in_base64) {
  return std::make_shared<GrpcWebExchange>(door, std::move(facts), in_base64);
}

}  // namespace partita::serve
