#include "serve/front/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/door/address.h"
#include "base/parse_number.h"
#include "serve/engines/engine_pool.h"
#include "serve/front/grpc_ask.h"
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

void append_count(std::string& out, std::string_view name, std::uint64_t count, std::uint64_t ns) {
  if (out.back() != '{') out.push_back(',');
  out += "\"" + std::string(name) + "\":{\"count\":" + std::to_string(count) +
         ",\"ns\":" + std::to_string(ns) + "}";
}

void append_kept(std::string& out, const KeptAnswers& is) {
  out += fmt::format(
      ",\"response_cache\":{{\"from\":\"{}\",\"memory_mib\":{},\"ttl_s\":{},\"shared\":{},"
      "\"answers\":{},\"bytes\":{}",
      is.from, is.terms.memory.value, is.terms.ttl.value, is.terms.shared, is.answers, is.bytes);
  if (!is.unfit.empty()) {
    out += ",\"none_kept\":";
    append_json_string(out, is.unfit);
  }
  out += "}";
}

// As Triton's statistics extension has it, and what is kept of its answers. Inputs and outputs are
// not copied: their times are 0.
void append_statistics(std::string& out, const NameAndVersion& one, const ServiceStatistics& is) {
  out += "{\"name\":";
  append_json_string(out, one.name);
  out += ",\"version\":";
  append_json_string(out, one.version);
  out += ",\"last_inference\":" + std::to_string(is.last_inference_ms) +
         ",\"inference_count\":" + std::to_string(is.inference_count) +
         ",\"execution_count\":" + std::to_string(is.execution_count) + ",\"inference_stats\":{";
  append_count(out, "success", is.success_count, is.success_ns);
  append_count(out, "fail", is.fail_count, is.fail_ns);
  append_count(out, "queue", is.queue_count, is.queue_ns);
  append_count(out, "compute_input", is.compute_count, 0);
  append_count(out, "compute_infer", is.compute_count, is.compute_ns);
  append_count(out, "compute_output", is.compute_count, 0);
  append_count(out, "cache_hit", is.hit_count, is.hit_ns);
  append_count(out, "cache_miss", is.miss_count, is.miss_ns);
  out += "},\"batch_stats\":[]";
  if (is.kept) append_kept(out, *is.kept);
  out += "}";
}

Reply statistics(const Door& door, const RequestFacts& facts, std::string_view only) {
  Reply reply{.text = "{\"model_stats\":["};
  for (const std::string& service : door.backend.services()) {
    if (!may_see(facts, service) || (!only.empty() && service != only)) continue;
    if (reply.text.back() != '[') reply.text.push_back(',');
    append_statistics(reply.text, name_and_version(door.backend, service),
                      door.backend.statistics(service));
  }
  reply.text += "]}";
  return reply;
}

Reply repository_index(const Door& door, const RequestFacts& facts) {
  Reply reply{.text = "["};
  for (const std::string& service : door.backend.services()) {
    if (!may_see(facts, service)) continue;
    const bool ready = door.backend.ready(service);
    const NameAndVersion one = name_and_version(door.backend, service);
    if (reply.text.back() != '[') reply.text.push_back(',');
    reply.text += "{\"name\":";
    append_json_string(reply.text, one.name);
    reply.text += ",\"version\":";
    append_json_string(reply.text, one.version);
    reply.text += std::string(",\"state\":\"") + (ready ? "READY" : "UNAVAILABLE") +
                  "\",\"reason\":\"" +
                  (ready                           ? ""
                   : !door.backend.loaded(service) ? "unloaded"
                                                   : "no worker is ready") +
                  "\"}";
  }
  reply.text += "]";
  return reply;
}

std::string canary_text(const CanaryView& canary) {
  std::string out = "{\"version\":";
  append_json_string(out, canary.wish.version);
  out +=
      fmt::format(",\"share\":{},\"shadow\":{},\"state\":\"{}\",\"answers\":{},\"bad\":{},\"why\":",
                  canary.wish.share, canary.wish.shadow, canary.state, canary.answers, canary.bad);
  append_json_string(out, canary.why);
  return out + "}";
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

void append_openai_model(std::string& text, std::string_view service) {
  text += "{\"id\":";
  append_json_string(text, service);
  text += ",\"object\":\"model\",\"created\":0,\"owned_by\":\"partita\"}";
}

Reply list_of_models(Door& door, const RequestFacts& facts) {
  Reply reply{.text = "{\"object\":\"list\",\"data\":["};
  for (const std::string& service : openai_models(door, facts)) {
    if (reply.text.back() != '[') reply.text.push_back(',');
    append_openai_model(reply.text, service);
  }
  reply.text += "]}";
  return reply;
}

// /v1/models/NAME. What a token is not for is not there, as in the list.
Reply one_model(Door& door, const RequestFacts& facts, const std::string& name) {
  if (!openai_models(door, facts).contains(name))
    return openai_error(404, "there is no model '" + name + "'");
  Reply reply{.text = ""};
  append_openai_model(reply.text, name);
  return reply;
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

// Registers a region.
class RegisterExchange final : public GatewayExchange {
 public:
  RegisterExchange(Door& door, RequestFacts facts, std::string region)
      : GatewayExchange(door, std::move(facts)), region_(std::move(region)) {}
  Step begin() override {
    text_open = facts_.chunked;
    text_wanted = text_open ? kMaxTextBytes : facts_.content_length;
    return text_allowed(kMaxTextBytes) ? Step::text : Step::answer;
  }
  Step on_text() override {
    const auto wanted = parse_register(text);
    if (!wanted) return refuse(400, to_string(wanted.error()));
    const auto added = door_.shared_memory.add(region_, wanted->key, wanted->offset, wanted->bytes);
    if (!added) return refuse(400, to_string(added.error()));
    reply = bare(200);
    return Step::answer;
  }

 private:
  std::string region_;
};

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
    return std::make_shared<RegisterExchange>(door, std::move(facts), name);
  if (verb != "unregister") return answer(error_reply(404, "no such route"));
  if (named)
    door.shared_memory.remove(name);
  else
    door.shared_memory.remove_all();
  return answer(bare(200));
}

Reply set_loaded(Door& door, const std::string& model, bool load) {
  bool any = false;
  for (const std::string& service : door.backend.services()) {
    const bool named = service == model || name_and_version(door.backend, service).name == model;
    any = (named && door.backend.set_loaded(service, load)) || any;
  }
  return any ? bare(200) : error_reply(400, "there is no model '" + model + "'");
}

// Loads a model that is there. Triton takes a configuration and files with it, in the parameters
// `config` and `file:PATH`; what would not be heeded is refused.
class LoadExchange final : public GatewayExchange {
 public:
  LoadExchange(Door& door, RequestFacts facts, std::string model)
      : GatewayExchange(door, std::move(facts)), model_(std::move(model)) {}
  Step begin() override {
    text_open = facts_.chunked;
    text_wanted = text_open ? kMaxTextBytes : facts_.content_length;
    if (!text_open && text_wanted == 0) return on_text();
    return text_allowed(kMaxTextBytes) ? Step::text : Step::answer;
  }
  Step on_text() override {
    JsonScan scan(text);
    std::string brought;
    const auto parameter = [&](const std::string& key) {
      if (key == "config" || key.starts_with("file:")) brought = key;
      scan.skip();
    };
    if (!text.empty()) {
      scan.object([&](const std::string& key) {
        if (key == "parameters")
          scan.object(parameter);
        else
          scan.skip();
      });
      scan.end();
    }
    if (!scan.ok()) return refuse(400, "request JSON: " + scan.error());
    if (!brought.empty())
      return refuse(400, "parameter '" + brought +
                             "': a model's configuration and files are its worker's, and do not "
                             "come with load");
    reply = set_loaded(door_, model_, true);
    return Step::answer;
  }

 private:
  std::string model_;
};

// /v2/repository/models/NAME/load|unload
std::shared_ptr<Exchange> load_route(Door& door, RequestFacts facts, const Parts& parts) {
  const auto answer = [&](Reply reply) {
    return std::make_shared<PlainExchange>(door, std::move(facts), std::move(reply));
  };
  const bool load = parts[4] == "load";
  if (!load && parts[4] != "unload") return answer(error_reply(404, "no such route"));
  if (facts.method != Method::post) return answer(not_allowed("POST"));
  if (!may_all(facts)) return answer(error_reply(403, "this token is not for all services"));
  if (load) return std::make_shared<LoadExchange>(door, std::move(facts), parts[3]);
  return answer(set_loaded(door, parts[3], false));
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
    return answer({.text = canary_text(*canary)});
  }
  if (facts.method != Method::post) return answer(not_allowed("POST"));
  const auto percent = parse_number<double>(parts[6]);
  if (!percent || !(*percent >= 0 && *percent <= 100))
    return answer(error_reply(400, "'" + parts[6] + "' is no percentage"));
  const std::string fault = door.backend.set_canary(
      parts[3], {.version = parts[5], .share = *percent / 100, .shadow = parts[4] == "shadow"});
  return answer(fault.empty() ? bare(200) : error_reply(400, fault));
}

// /v2/models/NAME[/versions/V][/ready|/infer|/stats]
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
  if (facts.method == Method::post) return answer(not_allowed("GET"));
  if (!may_see(facts, name))
    return answer(error_reply(403, "this token is not for service '" + name + "'"));
  if (const auto* model = door.engines ? door.engines->find(name) : nullptr;
      model && verb == "ready")
    return answer(model->engines().ready()
                      ? bare(200)
                      : error_reply(503, "no engine of model '" + name + "' is ready"));
  if (!door.backend.known(name)) {
    if (verb.empty())
      if (auto elsewhere = make_elsewhere_exchange(door, facts, name)) return elsewhere;
    return answer(error_reply(404, "there is no model '" + name + "'"));
  }
  if (verb == "stats") return answer(statistics(door, facts, name));
  const bool ready = door.backend.ready(name);
  if (verb == "ready")
    return answer(ready ? bare(200)
                        : error_reply(503, "no worker of model '" + name + "' is ready"));
  if (!verb.empty()) return answer(error_reply(404, "no such route"));
  const auto model = door.model(name);
  if (model == nullptr)
    return answer(error_reply(503, "no worker of model '" + name + "' has said what it takes"));
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
  if (parts[1] == "repository" && parts.size() == 3 && parts[2] == "index")
    return answer(post ? repository_index(door, facts) : not_allowed("POST"));
  const bool of_model = parts[1] == "repository" && parts.size() >= 5 && parts[2] == "models";
  if (of_model && (parts[4] == "canary" ? parts.size() == 5 || parts.size() == 7
                                        : parts[4] == "shadow" && parts.size() == 7))
    return canary_route(door, std::move(facts), parts);
  if (of_model && parts.size() == 5) return load_route(door, std::move(facts), parts);
  if (parts[1] == "systemsharedmemory" || parts[1] == "cudasharedmemory")
    return shared_memory_route(door, std::move(facts), parts);
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

// The refusals that need no more than the head; nothing when there is none.
std::optional<Reply> refusal(const Door& door, const HttpHead& head, RequestFacts& facts) {
  if (head.transfer_encoding && !head.chunked)
    return error_reply(501, "of Transfer-Encoding, chunked alone is taken");
  if (!head.content_encoding.empty() && head.content_encoding != "identity")
    return error_reply(415, "send the body without Content-Encoding");
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
