#include "serve/front/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "base/door/address.h"
#include "base/parse_number.h"
#include "base/tell.h"
#include "serve/engines/engine_pool.h"
#include "serve/front/grpc_ask.h"
#include "serve/front/model_answers.h"
#include "serve/oip/answer.h"
#include "serve/oip/json_scan.h"

namespace partita::serve {

namespace {

constexpr std::size_t kMaxTextBytes = 65'536;
constexpr std::string_view kGrpcWeb = "application/grpc-web";

using Parts = std::vector<std::string>;

// "/v2/models/a%20b/infer" -> v2, models, "a b", infer; nothing when an escape is broken.
std::optional<Parts> parts_of(std::string_view path) {
  Parts parts;
  while (!path.empty()) {
    if (path[0] != '/') return std::nullopt;
    path.remove_prefix(1);
    const std::size_t length = std::min(path.find('/'), path.size());
    auto part = percent_decoded(path.substr(0, length));
    if (!part || part->size() > kMaxNameBytes) return std::nullopt;
    parts.push_back(std::move(*part));
    path.remove_prefix(length);
  }
  if (!parts.empty() && parts.back().empty()) parts.pop_back();  // a slash at the end
  return parts;
}

Reply bare(int status) { return {.status = status, .text = ""}; }

Reply not_allowed(std::string_view method) {
  Reply reply = error_reply(405, "this is a " + std::string(method));
  reply.headers = "Allow: " + std::string(method) + "\r\n";
  return reply;
}

bool may_see(const RequestFacts& facts, std::string_view service) {
  return facts.token == nullptr || allows(*facts.token, service);
}
// Who hands a request over may have that request alone.
bool may_all(const RequestFacts& facts) {
  return facts.handed_by.empty() && (facts.token == nullptr || facts.token->all);
}

MaySee seen_by(const RequestFacts& facts) {
  return [&facts](const std::string& service) { return may_see(facts, service); };
}

Reply statistics(const Door& door, const RequestFacts& facts, std::string_view only) {
  return {.text = json_of(model_statistics(door.backend, seen_by(facts), only))};
}

void tell_canary(Form& f, CanaryView& canary) {
  tell(f, "version", canary.wish.version, "share", canary.wish.share, "shadow", canary.wish.shadow,
       "state", canary.state, "answers", canary.answers, "bad", canary.bad, "why", canary.why);
}

std::set<std::string, std::less<>> openai_models(Door& door, const RequestFacts& facts) {
  std::set<std::string, std::less<>> speakers;
  for (const std::string& service : door.backend.services()) {
    const auto model = door.model(service);
    if (model != nullptr && model->kind == ModelKind::openai) speakers.insert(service);
  }
  if (door.engines)
    for (const auto& [name, engines] : door.engines->services()) speakers.insert(name);
  std::erase_if(speakers, [&](const std::string& service) { return !may_see(facts, service); });
  return speakers;
}

void tell_openai_model(Form& f, const std::string& service) {
  tell(f, "id", service, "object", "model", "created", 0, "owned_by", "partita");
}

Reply list_of_models(Door& door, const RequestFacts& facts) {
  const auto models = openai_models(door, facts);
  const auto list = [&](Form& f) {
    f.told("object", "list");
    f.rows("data", std::vector(models.begin(), models.end()), tell_openai_model, {});
  };
  return {.text = write_form(list, Form::Style::compact)};
}

// /v1/models/NAME. What a token is not for is not there, as in the list.
Reply one_model(Door& door, const RequestFacts& facts, const std::string& name) {
  if (!openai_models(door, facts).contains(name))
    return openai_error(404, "there is no model '" + name + "'");
  return {.text = write_form([&](Form& f) { tell_openai_model(f, name); }, Form::Style::compact)};
}

Reply metrics(const Door& door) {
  Reply reply{.content_type = "text/plain; version=0.0.4; charset=utf-8"};
  reply.text = door.backend.metrics();
  if (door.engines) reply.text += door.engines->metrics();
  if (door.options.peers) reply.text += door.options.peers->metrics();
  reply.text +=
      "# HELP partita_http_connections Connections of the HTTP front door.\n"
      "# TYPE partita_http_connections gauge\npartita_http_connections " +
      std::to_string(door.counts.connections) +
      "\n# HELP partita_http_answers_total Answers of the HTTP front door.\n"
      "# TYPE partita_http_answers_total counter\n";
  for (std::size_t i = 2; i < door.counts.answers.size(); ++i)
    reply.text += "partita_http_answers_total{status=\"" + std::to_string(i) + "xx\"} " +
                  std::to_string(door.counts.answers[i]) + "\n";
  reply.text +=
      "# HELP partita_http_abandoned_total Requests whose client left before the answer.\n"
      "# TYPE partita_http_abandoned_total counter\npartita_http_abandoned_total " +
      std::to_string(door.counts.abandoned) +
      "\n# HELP partita_http2_streams Requests under way over HTTP/2.\n"
      "# TYPE partita_http2_streams gauge\npartita_http2_streams " +
      std::to_string(door.counts.streams) +
      "\n# HELP partita_http2_floods_total Connections of HTTP/2 put out for asking too much.\n"
      "# TYPE partita_http2_floods_total counter\npartita_http2_floods_total " +
      std::to_string(door.counts.flooded) + "\n";
  return reply;
}

// What is answered from a short text, which may be missing where it is no must.
class TextExchange final : public GatewayExchange {
 public:
  using Answer = std::function<Reply(Door&, const RequestFacts&, std::string_view text)>;
  TextExchange(Door& door, RequestFacts facts, Answer answer)
      : GatewayExchange(door, std::move(facts)), answer_(std::move(answer)) {}
  Step begin() override {
    text_open = facts_.chunked;
    text_wanted = text_open ? kMaxTextBytes : facts_.content_length;
    if (!text_open && text_wanted == 0) return on_text();
    return text_allowed(kMaxTextBytes) ? Step::text : Step::answer;
  }
  Step on_text() override {
    reply = answer_(door_, facts_, text);
    compress();
    return Step::answer;
  }

 private:
  const Answer answer_;
};

Reply register_region(Door& door, const std::string& region, std::string_view text) {
  const auto wanted = parse_register(text);
  if (!wanted) return error_reply(400, to_string(wanted.error()));
  const auto added = door.shared_memory.add(region, wanted->key, wanted->offset, wanted->bytes);
  return added ? bare(200) : error_reply(400, to_string(added.error()));
}

// /v2/cudasharedmemory[/region/NAME]/register|unregister|status. No handle of a client's device
// memory is opened, so there are no regions: what clients forget before they begin is forgotten.
Reply cuda_shared_memory(bool post, const std::string& region, std::string_view verb) {
  if (verb == "status") {
    if (post) return not_allowed("GET");
    if (!region.empty()) return error_reply(400, "region '" + region + "' is not registered");
    return {.text = "[]"};
  }
  if (!post) return not_allowed("POST");
  if (verb == "unregister") return bare(200);
  if (verb != "register" || region.empty()) return error_reply(404, "no such route");
  return error_reply(501, "CUDA shared memory is not offered: register system shared memory");
}

// /v2/systemsharedmemory[/region/NAME]/register|unregister|status, and cudasharedmemory
std::shared_ptr<Exchange> shared_memory_route(Door& door, RequestFacts facts, const Parts& parts) {
  const auto answer = [&](Reply reply) {
    return std::make_shared<PlainExchange>(door, std::move(facts), std::move(reply));
  };
  const bool named = parts.size() == 5 && parts[2] == "region";
  if (!named && parts.size() != 3) return answer(error_reply(404, "no such route"));
  const std::string name = named ? parts[3] : "";
  const std::string& verb = parts.back();
  if (!door.shared_memory_on) return answer(error_reply(404, "shared memory is not offered here"));
  if (!may_all(facts)) return answer(error_reply(403, "this token is not for all services"));
  const bool post = facts.method == Method::post;
  if (parts[1] == "cudasharedmemory") return answer(cuda_shared_memory(post, name, verb));
  if (verb == "status") {
    if (post) return answer(not_allowed("GET"));
    if (named && !door.shared_memory.find(name))
      return answer(error_reply(400, "region '" + name + "' is not registered"));
    return answer({.text = door.shared_memory.status(name)});
  }
  if (!post) return answer(not_allowed("POST"));
  if (verb == "register" && named)
    return std::make_shared<TextExchange>(
        door, std::move(facts), [name](Door& at, const RequestFacts&, std::string_view text) {
          return register_region(at, name, text);
        });
  if (verb != "unregister") return answer(error_reply(404, "no such route"));
  if (named)
    door.shared_memory.remove(name);
  else
    door.shared_memory.remove_all();
  return answer(bare(200));
}

// Of the text that comes with questions about the repository.
Result<RepositoryAsk> parse_repository_json(std::string_view text) {
  RepositoryAsk ask;
  if (text.empty()) return ask;
  JsonScan scan(text);
  scan.object([&](const std::string& key) {
    if (key == "ready") {
      ask.ready = scan.boolean();
    } else if (key == "parameters") {
      scan.object([&](const std::string& name) {
        if (brings_model(name)) ask.brought = name;
        scan.skip();
      });
    } else {
      scan.skip();
    }
  });
  scan.end();
  if (!scan.ok()) return bad_input("request JSON", scan.error());
  return ask;
}

Reply repository_index(Door& door, const RequestFacts& facts, std::string_view text) {
  const auto ask = parse_repository_json(text);
  if (!ask) return error_reply(400, to_string(ask.error()));
  return {.text = json_of(model_states(door.backend, seen_by(facts), ask->ready))};
}

Reply loaded_reply(Door& door, const std::string& model, bool load, std::string_view text) {
  const auto ask = parse_repository_json(text);
  if (!ask) return error_reply(400, to_string(ask.error()));
  const std::string fault = set_loaded(door.backend, model, load, load ? ask->brought : "");
  return fault.empty() ? bare(200) : error_reply(400, fault);
}

// /v2/repository/models/NAME/load|unload
std::shared_ptr<Exchange> load_route(Door& door, RequestFacts facts, const Parts& parts) {
  const auto answer = [&](Reply reply) {
    return std::make_shared<PlainExchange>(door, std::move(facts), std::move(reply));
  };
  const bool load = parts[4] == "load";
  if (!load && parts[4] != "unload") return answer(error_reply(404, "no such route"));
  if (facts.method != Method::post) return answer(not_allowed("POST"));
  if (!may_all(facts)) return answer(error_reply(403, "this token is not for all services"));
  return std::make_shared<TextExchange>(
      door, std::move(facts),
      [load, model = parts[3]](Door& at, const RequestFacts&, std::string_view text) {
        return loaded_reply(at, model, load, text);
      });
}

// /v2/repository/models/NAME/canary: how it does; /canary/VERSION/PERCENT begins it (0: ends it),
// and so does /shadow/VERSION/PERCENT.
std::shared_ptr<Exchange> canary_route(Door& door, RequestFacts facts, const Parts& parts) {
  const auto answer = [&](Reply reply) {
    return std::make_shared<PlainExchange>(door, std::move(facts), std::move(reply));
  };
  if (!may_all(facts)) return answer(error_reply(403, "this token is not for all services"));
  if (parts.size() == 5) {
    if (facts.method == Method::post) return answer(not_allowed("GET"));
    const auto canary = door.backend.canary(parts[3]);
    if (!canary) return answer(error_reply(404, "model '" + parts[3] + "' has no canary"));
    return answer({.text = write_form(*canary, tell_canary, Form::Style::compact)});
  }
  if (facts.method != Method::post) return answer(not_allowed("POST"));
  const auto percent = parse_number<double>(parts[6]);
  if (!percent || !(*percent >= 0 && *percent <= 100))
    return answer(error_reply(400, "'" + parts[6] + "' is no percentage"));
  const std::string fault = door.backend.set_canary(
      parts[3], {.version = parts[5], .share = *percent / 100, .shadow = parts[4] == "shadow"});
  return answer(fault.empty() ? bare(200) : error_reply(400, fault));
}

// What Triton has and a gateway has not, by name; nothing: it is no such route.
std::optional<Reply> not_offered(const Parts& parts) {
  const std::size_t size = parts.size();
  if (size >= 3 && parts[size - 2] == "trace" && parts[size - 1] == "setting")
    return error_reply(501, std::string(kNoTraceSettings));
  if (size == 2 && parts[1] == "logging") return error_reply(501, std::string(kNoLogSettings));
  return std::nullopt;
}

// /v2/models/NAME[/versions/V][/ready|/config|/infer|/stats]
std::shared_ptr<Exchange> model_route(Door& door, RequestFacts facts, Parts parts) {
  const auto answer = [&](Reply reply) {
    return std::make_shared<PlainExchange>(door, std::move(facts), std::move(reply));
  };
  std::string version;
  if (parts.size() >= 5 && parts[3] == "versions") {
    version = parts[4];
    parts.erase(parts.begin() + 3, parts.begin() + 5);
  }
  const std::string verb = parts.size() == 4 ? parts[3] : "";
  if (parts.size() > 4) return answer(error_reply(404, "no such route"));
  AskedModel asked = asked_model(door.backend, parts[2], version);
  const std::string found = asked.service;
  if (found.empty() && !version.empty() && !versions_of(door.backend, parts[2]).empty())
    return answer(error_reply(404, "model '" + parts[2] + "' has no version '" + version + "'"));
  const std::string name = found.empty() ? parts[2] : found;
  if (verb == "infer")
    return make_infer_exchange(door, std::move(facts), {name, std::move(asked.of_set)},
                               any_bucket(parts[2], name));
  constexpr std::string_view kAsked[] = {"", "config", "ready", "stats"};
  if (std::ranges::count(kAsked, verb) == 0) return answer(error_reply(404, "no such route"));
  if (facts.method == Method::post) return answer(not_allowed("GET"));
  if (!may_see(facts, name))
    return answer(error_reply(403, "this token is not for service '" + name + "'"));
  if (const auto* model = door.engines ? door.engines->find(name) : nullptr;
      model && verb == "ready")
    return answer(model->engines().ready()
                      ? bare(200)
                      : error_reply(503, "no engine of model '" + name + "' is ready"));
  if (!door.backend.known(name)) {
    if (verb.empty() || verb == "config")
      if (auto elsewhere = make_elsewhere_exchange(door, facts, name)) return elsewhere;
    return answer(error_reply(404, "there is no model '" + name + "'"));
  }
  if (verb == "stats") return answer(statistics(door, facts, name));
  const bool ready = door.backend.ready(name);
  if (verb == "ready")
    return answer(ready ? bare(200)
                        : error_reply(503, "no worker of model '" + name + "' is ready"));
  const auto model = door.model(name);
  if (model == nullptr)
    return answer(error_reply(503, "no worker of model '" + name + "' has said what it takes"));
  if (verb == "config")
    return answer({.text = json_of(served_config(door.backend, parts[2], name, *model))});
  return answer({.text = model_metadata(*model, versions_of(door.backend, parts[2]))});
}

std::shared_ptr<Exchange> v2_route(Door& door, RequestFacts facts, const Parts& parts) {
  const auto answer = [&](Reply reply) {
    return std::make_shared<PlainExchange>(door, std::move(facts), std::move(reply));
  };
  const bool post = facts.method == Method::post;
  if (parts.size() == 1)
    return answer(post ? not_allowed("GET") : Reply{.text = server_metadata()});
  if (parts[1] == "health" && parts.size() == 3) {
    if (post) return answer(not_allowed("GET"));
    if (parts[2] == "live") return answer(bare(200));
    if (parts[2] == "ready")
      return answer(door.backend.ready() && (!door.engines || door.engines->ready())
                        ? bare(200)
                        : error_reply(503, "not all services are ready"));
  }
  if (parts[1] == "repository" && parts.size() == 3 && parts[2] == "index") {
    if (!post) return answer(not_allowed("POST"));
    return std::make_shared<TextExchange>(door, std::move(facts), repository_index);
  }
  const bool of_model = parts[1] == "repository" && parts.size() >= 5 && parts[2] == "models";
  if (of_model && (parts[4] == "canary" ? parts.size() == 5 || parts.size() == 7
                                        : parts[4] == "shadow" && parts.size() == 7))
    return canary_route(door, std::move(facts), parts);
  if (of_model && parts.size() == 5) return load_route(door, std::move(facts), parts);
  if (parts[1] == "systemsharedmemory" || parts[1] == "cudasharedmemory")
    return shared_memory_route(door, std::move(facts), parts);
  if (auto no = not_offered(parts)) return answer(*std::move(no));
  if (parts[1] == "models" && parts.size() == 3 && parts[2] == "stats")
    return answer(post ? not_allowed("GET") : statistics(door, facts, ""));
  if (parts[1] == "models" && parts.size() >= 3) return model_route(door, std::move(facts), parts);
  return answer(error_reply(404, "no such route"));
}

bool is_open(std::string_view path) {
  if (path.starts_with(kGrpcService)) {
    path.remove_prefix(kGrpcService.size());
    return path == "ServerLive" || path == "ServerReady";
  }
  return path == "/v2/health/live" || path == "/v2/health/ready";
}

Reply unauthorized(std::string_view why) {
  Reply reply = error_reply(401, std::string(why) + " (Authorization: Bearer ...)");
  reply.headers = "WWW-Authenticate: Bearer\r\n";
  return reply;
}

// What another gateway hands over: it shows the token of the fleet's gateways, and has asked for
// its client's and its limits.
std::optional<Reply> of_peer(const Door& door, const HttpHead& head, RequestFacts& facts) {
  const auto by = door.options.peers->handed_by(head.handed_over, head.authorization);
  if (!by) return unauthorized("who hands over shows the token of the gateways");
  facts.handed_by = by->node;
  facts.counted_there = by->counted;
  facts.client = head.handed_for.empty() ? facts.handed_by : std::string(head.handed_for);
  return std::nullopt;
}

// In the form of those who ask there.
Reply refused(std::string_view path, Reply reply) {
  return path.starts_with("/v1/") ? in_openai_form(std::move(reply)) : reply;
}

bool is_infer(std::string_view path) {
  return path.starts_with("/v2/models/") && path.ends_with("/infer");
}

// The refusals that need no more than the head; nothing when there is none.
std::optional<Reply> refusal(const Door& door, const HttpHead& head, RequestFacts& facts) {
  if (head.transfer_encoding && !head.chunked)
    return error_reply(501, "of Transfer-Encoding, chunked alone is taken");
  if (!head.content_encoding.empty() && head.content_encoding != "identity") {
    if (!is_infer(facts.path)) return error_reply(415, "send the body without Content-Encoding");
    if (!facts.packed)
      return error_reply(415, "of Content-Encoding, gzip and deflate alone are taken");
  }
  if (head.method == Method::other || head.method == Method::put)
    return error_reply(501, "GET, HEAD and POST are taken");
  if (door.options.peers != nullptr && !head.handed_over.empty()) return of_peer(door, head, facts);
  if (!door.options.asks_for_tokens() || is_open(facts.path)) return std::nullopt;
  auto held = held_token(door.options.tokens, door.options.oidc.get(), head.authorization);
  if (held) {
    facts.token = *std::move(held);
    return std::nullopt;
  }
  return unauthorized(held.error());
}

// ---- pages of other origins (CORS, https://fetch.spec.whatwg.org/#http-cors-protocol)

constexpr std::string_view kAskedByPages =
    "Authorization, Content-Type, Grpc-Timeout, Inference-Header-Content-Length, Last-Event-ID, "
    "Partita-Idempotent, Partita-Priority, Partita-Timeout-Ms, Traceparent, Tracestate, "
    "X-Grpc-Web, X-User-Agent";
constexpr std::string_view kShownToPages =
    "Inference-Header-Content-Length, Retry-After, Retry-After-Ms";
constexpr int kPreflightSeconds = 600;

bool may_call(const FrontOptions& options, std::string_view origin) {
  const auto& all = options.origins;
  return !origin.empty() && (std::ranges::count(all, "*") > 0 || std::ranges::count(all, origin));
}

// What browsers want to see before they let a page have any answer. Who has asked is said back, and
// not "*": caches are to keep the answers apart.
std::string cors_headers(const FrontOptions& options, std::string_view origin) {
  if (options.origins.empty()) return "";
  std::string headers = "Vary: Origin\r\n";
  if (may_call(options, origin))
    headers +=
        fmt::format("Access-Control-Allow-Origin: {}\r\nAccess-Control-Expose-Headers: {}\r\n",
                    origin, kShownToPages);
  return headers;
}

// A browser asks before it sends a page's request: without a token, and for no model.
Reply preflight() {
  return {.content_type = "text/plain",
          .headers = fmt::format("Access-Control-Allow-Methods: GET, HEAD, POST\r\n"
                                 "Access-Control-Allow-Headers: {}\r\n"
                                 "Access-Control-Max-Age: {}\r\n",
                                 kAskedByPages, kPreflightSeconds)};
}

std::shared_ptr<Exchange> route_alone(Door& door, const HttpHead& head, const Peer& peer) {
  auto read = facts_of(head);
  if (!read) {
    RequestFacts facts;
    facts.method = head.method;
    facts.content_length = head.content_length.value_or(0);
    return std::make_shared<PlainExchange>(
        door, std::move(facts), refused(head.target, error_reply(400, to_string(read.error()))));
  }
  RequestFacts facts = std::move(*read);
  facts.client = host_of(peer.address);
  facts.trusted = peer.answered_ns > 0 && !peer.faulted;
  facts.trusted_since = peer.answered_ns;
  const auto answer = [&](Reply reply) {
    return std::make_shared<PlainExchange>(door, std::move(facts), std::move(reply));
  };
  if (head.method_name == "OPTIONS" && may_call(door.options, head.origin))
    return answer(preflight());
  const auto refuse = [&](Reply reply) { return answer(refused(facts.path, std::move(reply))); };
  if (auto no = refusal(door, head, facts)) return refuse(std::move(*no));
  if (facts.token != nullptr) facts.client = facts.token->name;
  const auto parts = parts_of(facts.path);
  if (!parts || parts->empty()) return refuse(error_reply(404, "no such route"));
  const bool post = facts.method == Method::post;
  if (facts.path.starts_with(kGrpcService) && head.content_type.starts_with(kGrpcWeb)) {
    const bool in_base64 = head.content_type.substr(kGrpcWeb.size()).starts_with("-text");
    return make_grpc_web_exchange(door, std::move(facts), in_base64);
  }
  if (parts->front() == "v2") return v2_route(door, std::move(facts), *parts);
  if (facts.path == "/metrics") {
    if (post) return answer(not_allowed("GET"));
    if (!may_all(facts)) return answer(error_reply(403, "this token is not for all services"));
    return answer(metrics(door));
  }
  if (facts.path == "/v1/models")
    return post ? refuse(not_allowed("GET")) : answer(list_of_models(door, facts));
  if (parts->size() == 3 && parts->at(0) == "v1" && parts->at(1) == "models")
    return post ? refuse(not_allowed("GET")) : answer(one_model(door, facts, parts->at(2)));
  if (facts.path == "/v1/chat/completions" || facts.path == "/v1/completions" ||
      facts.path == kEmbeddingsPath)
    return make_openai_exchange(door, std::move(facts));
  return refuse(error_reply(404, "no such route"));
}

}  // namespace

std::shared_ptr<Exchange> route(Door& door, const HttpHead& head, const Peer& peer) {
  const auto exchange = route_alone(door, head, peer);
  exchange->more_headers = cors_headers(door.options, head.origin);
  return exchange;
}

}  // namespace partita::serve
