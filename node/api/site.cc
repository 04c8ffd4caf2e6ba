#include "api/site.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <utility>
#include <vector>

#include "api/exchanges.h"
#include "api/openapi.h"
#include "api/page.h"
#include "base/check.h"
#include "base/door/address.h"
#include "base/door/gzip.h"
#include "device/node_forms.h"
#include "forms/serving_forms.h"

namespace partita::api {

namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000, kPaceNs = kSecondNs / 4;
constexpr std::size_t kStreamsOfOne = 32;
constexpr std::size_t kMaxDetail = 512;
constexpr std::int64_t kDayMs = 86'400'000;
constexpr std::string_view kNoSniff =
    "X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n";

std::int64_t unix_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

std::optional<long> whole(std::string_view text) {
  long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good = error == std::errc() && end == text.data() + text.size() && value >= 0;
  return good ? std::optional(value) : std::nullopt;
}

std::optional<long> whole_of(const Query& query, std::string_view name) {
  const auto found = query.find(name);
  return found == query.end() ? std::nullopt : whole(found->second);
}

std::string text_of(const Query& query, std::string_view name) {
  const auto found = query.find(name);
  return found == query.end() ? std::string() : found->second;
}

std::string query_value(std::string_view text) {
  std::string spaced(text);
  std::ranges::replace(spaced, '+', ' ');
  return serve::percent_decoded(spaced).value_or("");
}

std::string fault_of(const Field& parameter, const std::string& value) {
  if (value.empty()) return "a value is wanted";
  if (parameter.kind == Field::Kind::whole) {
    const auto number = whole(value);
    if (!number || *number < parameter.least || *number > parameter.most)
      return "a whole number from " + std::to_string(parameter.least) +
             (parameter.most < Field{}.most ? " to " + std::to_string(parameter.most) : "") +
             " is wanted";
  }
  if (parameter.kind == Field::Kind::words &&
      std::ranges::find(parameter.words, value) == parameter.words.end())
    return "'" + value + "' is none of the words it takes";
  return {};
}

}  // namespace

void Postbox::post(std::function<void()> function) {
  const std::lock_guard lock(mutex_);
  if (loop_ == nullptr) return;
  loop_->post([self = shared_from_this(), act = std::move(function)] {
    if (self->is_open()) act();
  });
}

bool Postbox::is_open() {
  const std::lock_guard lock(mutex_);
  return loop_ != nullptr;
}

void Postbox::close() {
  const std::lock_guard lock(mutex_);
  loop_ = nullptr;
}

Result<Query> read_query(const Operation& call, std::string_view query) {
  Query read;
  while (!query.empty()) {
    const std::size_t length = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, length);
    query.remove_prefix(std::min(length + 1, query.size()));
    if (pair.empty()) continue;
    const std::size_t equals = std::min(pair.find('='), pair.size());
    const std::string name(query_value(pair.substr(0, equals)));
    const std::string value = query_value(pair.substr(std::min(equals + 1, pair.size())));
    const Field* known = call.query_field(name);
    if (known == nullptr) return bad_input(name, "this call takes no such parameter");
    if (const std::string fault = fault_of(*known, value); !fault.empty())
      return bad_input(name, fault);
    if (!read.emplace(name, value).second) return bad_input(name, "said twice");
  }
  for (const Field& parameter : call.inputs)
    if (parameter.required && !parameter.of_path && !read.contains(parameter.name))
      return bad_input(std::string(parameter.name), "this call needs it");
  return read;
}

bool is_of_queue(std::string_view name) { return name.starts_with("queue_"); }
bool is_of_fleet(std::string_view name) { return name.starts_with("fleet"); }

queue::Call queue_call(std::string_view name, const std::string& part, const Query& query,
                       std::string user, std::string body) {
  queue::Page page{.all = text_of(query, "all") == "true"};
  page.after = whole_of(query, "after").value_or(page.after);
  page.most = whole_of(query, "most").value_or(page.most);
  return {std::string(name), whole(part).value_or(0), page, std::move(user), std::move(body)};
}

Backend::FleetCall fleet_call(const Asking& asking, std::string body) {
  Backend::FleetCall call{std::string(asking.call->name), std::move(body), asking.caller.user,
                          asking.part};
  for (const char* word : {"of", "digest"})
    if (call.of.empty()) call.of = text_of(asking.query, word);
  call.survive = text_of(asking.query, "survive");
  call.mode = text_of(asking.query, "mode");
  call.back = text_of(asking.query, "back") == "true";
  return call;
}

Result<void> has_body(const Asking& asking, const std::string& body) {
  const bool wanted = !asking.call->request.empty() && asking.call->request != "Why";
  if (wanted && body.find_first_not_of(" \t\r\n") == std::string::npos)
    return bad_input("body", "this call needs a body");
  return {};
}

Result<control::Request> request_of(const Asking& asking, std::string body) {
  TRY(has_body(asking, body));
  if (asking.call->ask == nullptr) return bad_input("", "this call asks nothing of the agent");
  return asking.call->ask({.part = asking.part, .body = std::move(body)});
}

ApiSite::ApiSite(serve::Loop& loop, Backend& backend, const ServerOptions& options)
    : loop_(loop),
      backend_(backend),
      options_(options),
      postbox_(std::make_shared<Postbox>(loop)),
      rate_limit_(options.limits.calls_per_second, options.limits.burst),
      shown_(std::to_string(unix_ms())),
      pace_(loop, [this](std::int64_t) { broadcast(); }),
      late_(loop, [this](std::int64_t due) { look_for_late(due); }) {
  door_limits.connections = options.limits.connections;
  door_limits.idle_ns = options.limits.idle_ns;
  door_limits.head_ns = options.limits.head_ns;
  door_limits.stream_bytes = options.limits.stream_bytes;
  beat_ns_ = serve::Loop::now_ns();
  late_.at(beat_ns_ + kSecondNs);
  backend_.watch([this, box = postbox_] { box->post([this] { news(); }); });
}

ApiSite::~ApiSite() { close(); }

void ApiSite::close() { postbox_->close(); }

serve::Reply ApiSite::refusal(int status, std::string_view message) {
  constexpr std::string_view kCodes[] = {
      "bad_request", "unauthorized", "forbidden",         "not_found",     "method_not_allowed",
      "timeout",     "too_large",    "too_many_requests", "not_available", "no_answer"};
  constexpr int kStatuses[] = {400, 401, 403, 404, 405, 408, 413, 429, 503, 504};
  const auto* const found = std::ranges::find(kStatuses, status);
  const auto index = found == std::end(kStatuses) ? 0 : found - std::begin(kStatuses);
  serve::Reply reply{.status = status, .headers = std::string(kNoSniff)};
  reply.text = error_json(
      {.code = std::string(kCodes[index]), .message = std::string(message), .where = {}});
  return reply;
}

void ApiSite::keep(const Asking& asking, history::Outcome outcome, const std::string& detail) {
  history::Event event{.time_ms = unix_ms(),
                       .kind = history::EventKind::access,
                       .user = asking.caller.user.empty() ? "nobody" : asking.caller.user,
                       .cause = asking.head.method_name + " " + asking.head.path,
                       .subject = asking.part,
                       .outcome = outcome,
                       .detail = asking.address + ": " + detail};
  event.cause.resize(std::min(event.cause.size(), kMaxDetail));
  event.detail.resize(std::min(event.detail.size(), kMaxDetail));
  backend_.keep(std::move(event));
}

void ApiSite::keep_fault(const std::string& why) {
  backend_.keep({.time_ms = unix_ms(),
                 .kind = history::EventKind::access,
                 .user = "agent",
                 .cause = "the files of those who may call have changed",
                 .outcome = history::Outcome::failed,
                 .detail = why + "; what they said before stays in force"});
}

// Refusals are kept at a rate that cannot push everything else out of the history.
void ApiSite::keep_refusal(const Asking& asking, const std::string& detail) {
  ++seen_.refused;
  if (refusals_.wait_s("", serve::Loop::now_ns()) > 0) {
    ++unkept_;
    return;
  }
  const std::uint64_t more = std::exchange(unkept_, 0);
  keep(asking, history::Outcome::refused,
       more == 0 ? detail : detail + " (and " + std::to_string(more) + " refusals before)");
}

std::shared_ptr<serve::Exchange> ApiSite::refuse(const Asking& asking, int status,
                                                 const ApiError& error) {
  serve::Reply reply = refusal(status, error.message);
  if (!error.where.empty() || !error.code.empty()) {
    ApiError said = error;
    const auto as_is = parse_api_error("", reply.text);
    if (said.code.empty() && as_is) said.code = as_is->code;
    reply.text = error_json(said);
  }
  if (status == 401) {
    reply.headers += "WWW-Authenticate: Bearer\r\n";
    keep_refusal(asking, error.message);
  }
  if (status == 403) keep_refusal(asking, error.message);
  return std::make_shared<serve::AnsweredExchange>(asking.head, std::move(reply));
}

std::shared_ptr<serve::Exchange> ApiSite::route(const serve::HttpHead& head,
                                                const serve::Peer& peer) {
  Asking asking;
  asking.head = {.method = head.method,
                 .method_name = std::string(head.method_name),
                 .path = std::string(head.target.substr(0, head.target.find('?'))),
                 .content_length = head.content_length.value_or(0),
                 .trace = serve::trace_context(head.trace_parent, head.trace_state),
                 .chunked = head.chunked};
  asking.address = peer.address;
  asking.caller = identify(rules, peer, head.authorization);
  const bool known = asking.caller.role != Role::open;
  const std::string client =
      known && asking.caller.user != "local" ? asking.caller.user : serve::host_of(peer.address);
  if (const int wait = rate_limit_.wait_s(client, serve::Loop::now_ns()); wait > 0) {
    ++seen_.limited;
    serve::Reply reply = refusal(429, "too many calls; wait " + std::to_string(wait) + " s");
    reply.headers += "Retry-After: " + std::to_string(wait) + "\r\n";
    return std::make_shared<serve::AnsweredExchange>(asking.head, std::move(reply));
  }
  if (head.transfer_encoding && !head.chunked)
    return refuse(
        asking, 415,
        {.code = "unsupported", .message = "of Transfer-Encoding, chunked alone is taken"});
  if (!head.content_encoding.empty() && head.content_encoding != "identity")
    return refuse(asking, 415,
                  {.code = "unsupported", .message = "send the body without Content-Encoding"});
  const bool of_page = asking.head.path != "/metrics" && !asking.head.path.starts_with("/v1");
  serve::HttpHead judged = head;
  if (of_page && head.method != serve::Method::post) judged.fetch_site = {};  // a link to it
  if (const std::string fault = browser_fault(
          judged, tls && !peer.user,
          peer.user ? std::vector<std::string>{std::string(head.host)} : options_.hosts);
      !fault.empty())
    return refuse(asking, 403, {.code = "wrong_site", .message = fault});
  asking.if_none_match = head.if_none_match;
  asking.last_event_id = head.last_event_id.substr(0, 64);
  asking.gzip = serve::accepts_gzip(head.accept_encoding);
  if (of_page) return page(asking);
  return admit(head, std::move(asking));
}

// A file of the web page: without a token, which the page asks for when it needs one.
std::shared_ptr<serve::Exchange> ApiSite::page(const Asking& asking) {
  const auto answer = [&](serve::Reply reply) {
    return std::make_shared<serve::AnsweredExchange>(asking.head, std::move(reply));
  };
  const auto file = page_file(asking.head.path);
  if (!file) return answer(refusal(404, "there is no such path"));
  if (asking.head.method != serve::Method::get && asking.head.method != serve::Method::head) {
    serve::Reply reply = refusal(405, "this path takes GET");
    reply.headers += "Allow: GET\r\n";
    return answer(std::move(reply));
  }
  serve::Reply reply{.content_type = file->content_type};
  const auto field = [&](std::string_view name, std::string_view value) {
    reply.headers += std::string(name) + ": " + std::string(value) + "\r\n";
  };
  for (const HeaderField& one : page_headers()) field(one.name, one.value);
  field("ETag", file->etag);
  if (asking.if_none_match.find(file->etag) != std::string::npos) {
    reply.status = 304;
    return answer(std::move(reply));
  }
  field("Vary", "Accept-Encoding");
  if (asking.gzip) {
    field("Content-Encoding", "gzip");
    reply.text = std::string(file->gzip);
  } else {  // curl, for one, asks for nothing and unpacks nothing
    reply.text = serve::unpacked(file->gzip, kMostOfPageFile, [](std::size_t) { return true; })
                     .value_or(std::string());
    CHECK(!reply.text.empty());
  }
  return answer(std::move(reply));
}

// A call of the table by somebody who may make it, or why it is none.
std::shared_ptr<serve::Exchange> ApiSite::admit(const serve::HttpHead& head, Asking asking) {
  Lookup lookup = find_operation(asking.head.method_name, asking.head.path);
  if (!lookup.found) {
    if (lookup.others.empty())
      return refuse(asking, 404, {.code = {}, .message = "there is no such call"});
    std::string allow;
    for (const Verb verb : lookup.others)
      allow += (allow.empty() ? "" : ", ") + std::string(to_string(verb));
    serve::Reply reply = refusal(405, "this path takes " + allow);
    reply.headers += "Allow: " + allow + "\r\n";
    return std::make_shared<serve::AnsweredExchange>(asking.head, std::move(reply));
  }
  asking.call = lookup.found->operation;
  asking.part = std::move(lookup.found->part);
  const Role needed = asking.call->role;
  if (needed != Role::open && asking.caller.bad_token)
    return refuse(asking, 401, {.code = {}, .message = "this token is not known"});
  if (asking.caller.role < needed) {
    const bool nobody = asking.caller.role == Role::open && asking.caller.user == "nobody";
    const std::string message =
        nobody ? "a token is wanted (Authorization: Bearer ...)"
               : "this needs the role " + std::string(to_string(needed)) + "; " +
                     asking.caller.user + " has " +
                     (asking.caller.role == Role::open ? "none" : to_string(asking.caller.role));
    // Who comes to the TCP address without tokens set up stays a viewer: another door is shown.
    const std::string way =
        asking.caller.user != "local" ? ""
        : options_.socket.empty()
            ? "; set up tokens_file or socket to give somebody more"
            : "; on this machine go through the socket: partita --server unix:" + options_.socket +
                  " (root, and members of its group)";
    return refuse(asking, nobody ? 401 : 403, {.code = {}, .message = message + way});
  }
  const std::size_t mark = head.target.find('?');
  auto query =
      read_query(*asking.call, mark == head.target.npos ? "" : head.target.substr(mark + 1));
  if (!query)
    return refuse(asking, 400,
                  {.code = {}, .message = query.error().message, .where = query.error().context});
  asking.query = std::move(*query);
  const Field* part = asking.call->path_field();
  if (part != nullptr && part->kind == Field::Kind::whole &&
      whole(asking.part).value_or(0) < part->least)
    return refuse(asking, 400,
                  {.code = {}, .message = "a number from 1 is wanted", .where = asking.part});
  if (asking.call->name != "events")
    return std::make_shared<CallExchange>(*this, std::move(asking));
  const auto of_one = std::ranges::count_if(
      streams_, [&](const EventStream* stream) { return stream->client() == asking.caller.user; });
  if (streams_.size() >= options_.limits.streams ||
      static_cast<std::size_t>(of_one) >= std::max(kStreamsOfOne, options_.limits.streams / 4))
    return refuse(asking, 503, {.code = {}, .message = "too many streams are open"});
  if (head.method == serve::Method::head)
    return std::make_shared<serve::AnsweredExchange>(
        asking.head, serve::Reply{.content_type = "text/event-stream"});
  return std::make_shared<EventStream>(*this, std::move(asking));
}

serve::Reply ApiSite::json(std::string text, const Asking& asking, std::string headers) {
  serve::Reply reply{.headers = std::move(headers), .text = std::move(text)};
  reply.headers += kNoSniff;
  if (asking.gzip) serve::compress(reply);
  return reply;
}

serve::Reply ApiSite::state(const Asking& asking) {
  if (text_of(asking.query, "whole") == "true")
    return json(control::snapshot_json(*backend_.snapshot()), asking);
  const ShownState::Shown& now = shown_.show(backend_.snapshot());
  serve::Reply reply{.headers =
                         "X-Content-Type-Options: nosniff\r\nCache-Control: no-cache\r\n"
                         "Vary: Accept-Encoding\r\nETag: " +
                         now.etag + "\r\n"};
  if (asking.if_none_match == "*" || asking.if_none_match.find(now.etag) != std::string::npos) {
    reply.status = 304;
    return reply;
  }
  if (asking.gzip && now.json.size() >= serve::kWorthGzip) {
    reply.headers += "Content-Encoding: gzip\r\n";
    reply.text = shown_.gzip();
  } else {
    reply.text = now.json;
  }
  return reply;
}

serve::Reply ApiSite::change(const Asking& asking) {
  const auto now = backend_.snapshot();
  if (asking.call->name == "current_change")
    return now->current ? json(agent_change_json(*now->current), asking)
                        : refusal(404, "no change is proposed or under way");
  const long number = whole(asking.part).value_or(0);
  for (const auto* one : {&now->current, &now->last})
    if (*one && (*one)->number == number) return json(agent_change_json(**one), asking);
  const auto events = backend_.events({.change = number, .most = history::kMaxRows});
  const auto text = events ? agent_change_json(number, *events) : failed(events.error());
  if (text) return json(*text, asking);
  return error(asking, text.error());
}

serve::Reply ApiSite::events(const Asking& asking) {
  history::EventQuery query;
  query.before = whole_of(asking.query, "before");
  query.after = whole_of(asking.query, "after");
  query.change = whole_of(asking.query, "change");
  query.subject = text_of(asking.query, "subject");
  query.user = text_of(asking.query, "user");
  query.from_ms = whole_of(asking.query, "from_ms");
  query.to_ms = whole_of(asking.query, "to_ms");
  query.documents = text_of(asking.query, "documents") != "false";
  if (const auto kind = history::parse_kind(text_of(asking.query, "kind"))) query.kinds = {*kind};
  query.most = static_cast<int>(whole_of(asking.query, "most").value_or(query.most));
  const bool single = asking.call->name == "history_event";
  const long id = whole(asking.part).value_or(0);
  if (single) {
    query.after = id - 1;
    query.before = id + 1;
    query.most = 1;
  }
  const auto found = backend_.events(query);
  if (!found) return error(asking, found.error());
  if (single && found->empty()) return refusal(404, "there is no such event");
  return json(history::history_json(*found), asking);
}

serve::Reply ApiSite::series(const Asking& asking) {
  history::SeriesQuery query{.metric = text_of(asking.query, "metric"),
                             .subject = text_of(asking.query, "subject")};
  query.to_ms = whole_of(asking.query, "to_ms").value_or(unix_ms());
  query.from_ms =
      whole_of(asking.query, "from_ms").value_or(std::max<long>(0, query.to_ms - kDayMs));
  query.most = static_cast<int>(whole_of(asking.query, "most").value_or(query.most));
  if (query.from_ms > query.to_ms) return refusal(400, "from_ms is after to_ms");
  const auto buckets = backend_.series(query);
  if (buckets) return json(history::series_json({query.metric, query.subject, *buckets}), asking);
  return error(asking, buckets.error());
}

serve::Reply ApiSite::batch(const Asking& asking) {
  const auto all = backend_.batches();
  if (asking.call->name == "batches") return json(control::batches_json(*all), asking);
  const long number = whole(asking.part).value_or(0);
  const auto found = std::ranges::find(*all, number, &control::BatchInfo::number);
  if (found != all->end()) return json(control::batch_json(*found), asking);
  return refusal(404, "batch " + std::to_string(number) + " is not known, or not any more");
}

serve::Reply ApiSite::error(const Asking& asking, const Error& why) {
  serve::Reply reply = json(error_json(api_error(why)), asking);
  reply.status = status_of(why);
  // What a fleet's calls need of the world is its store: it may be heard again soon.
  if (is_of_fleet(asking.call->name) && why.code == ErrorCode::environment) {
    reply.status = 503;
    reply.headers += "Retry-After: 1\r\n";
  }
  return reply;
}

serve::Reply ApiSite::health(const Asking& asking) {
  return json(health_json(*backend_.snapshot()), asking);
}

serve::Reply ApiSite::version(const Asking& asking) {
  return json(version_json(options_.version), asking);
}

serve::Reply ApiSite::openapi(const Asking& asking) {
  if (openapi_.empty()) openapi_ = openapi_json(options_.version);
  return json(openapi_, asking);
}

serve::Reply ApiSite::metrics(const Asking& asking) {
  seen_.connections = counts.connections;
  seen_.streams = streams_.size();
  seen_.answers = counts.answers;
  serve::Reply reply =
      json(agent_metrics(*backend_.snapshot(), seen_) + backend_.fleet_metrics(), asking);
  reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
  return reply;
}

serve::Reply ApiSite::node(const Asking& asking) {
  const auto now = backend_.snapshot();
  std::vector<control::ServiceVerdict> verdicts;
  for (const control::ServiceNow& one : now->services) verdicts.push_back(one.is);
  const auto more = [&](Form& f) {
    control::tell_age(f, now->node_read_ms, now->node_fault);
    control::describe_verdicts(f, verdicts);
  };
  return json(device::state_json(now->state, actuate::occupants_of(now->assignment), {}, more),
              asking);
}

serve::Reply ApiSite::plan(const Asking& asking) {
  const auto now = backend_.snapshot();
  return now->plan ? json(forms::plan_json(*now->plan), asking)
                   : refusal(404, "no plan is in force");
}

serve::Reply ApiSite::services(const Asking& asking) {
  serve::Reply reply = json(backend_.services(), asking);
  reply.content_type = "application/yaml";
  return reply;
}

serve::Reply ApiSite::latest(const Asking& asking) {
  const auto values = backend_.latest();
  return values ? json(latest_json(*values), asking) : error(asking, values.error());
}

serve::Reply ApiSite::leases(const Asking& asking) {
  const auto leases = backend_.leases();
  return leases ? json(*leases, asking) : error(asking, leases.error());
}

// What is answered from what is known, without the loop.
serve::Reply ApiSite::answer_now(const Asking& asking) {
  struct View {
    std::string_view operation;
    serve::Reply (ApiSite::*answer)(const Asking& asking);
  };
  static constexpr View kViews[] = {{"health", &ApiSite::health},
                                    {"version", &ApiSite::version},
                                    {"openapi", &ApiSite::openapi},
                                    {"metrics", &ApiSite::metrics},
                                    {"state", &ApiSite::state},
                                    {"node", &ApiSite::node},
                                    {"plan", &ApiSite::plan},
                                    {"services", &ApiSite::services},
                                    {"current_change", &ApiSite::change},
                                    {"change", &ApiSite::change},
                                    {"batches", &ApiSite::batch},
                                    {"batch", &ApiSite::batch},
                                    {"history", &ApiSite::events},
                                    {"history_event", &ApiSite::events},
                                    {"series", &ApiSite::series},
                                    {"latest", &ApiSite::latest},
                                    {"leases", &ApiSite::leases}};
  const View* found = std::ranges::find(kViews, asking.call->name, &View::operation);
  CHECK(found != std::end(kViews));
  return (this->*found->answer)(asking);
}

// ---- news

void ApiSite::news() {
  if (streams_.empty() || pace_.pending()) return;
  pace_.at(std::max(sent_ns_ + kPaceNs, serve::Loop::now_ns()));
}

void ApiSite::broadcast() {
  sent_ns_ = serve::Loop::now_ns();
  const ShownState::Shown& now = shown_.show(backend_.snapshot());
  const std::string event = event_text("state", now.id, now.json);
  const auto wants = [](const EventStream* stream) { return stream->wants_changes(); };
  const std::string before = shown_.told_id();
  const std::string changes = shown_.changes(std::ranges::any_of(streams_, wants));
  const std::set<EventStream*> all = streams_;  // one may end while it is served
  for (EventStream* stream : all) {
    if (!streams_.contains(stream)) continue;
    const bool knows = !changes.empty() && stream->wants_changes() && stream->knows(before);
    stream->offer(now.id, knows ? changes : event);
  }
}

void ApiSite::look_for_late(std::int64_t due_ns) {
  const std::int64_t now = serve::Loop::now_ns();
  std::vector<CallExchange*> late;
  for (CallExchange* call : waiting_)
    if (call->late_ns() <= now) late.push_back(call);
  for (CallExchange* call : late)
    if (waiting_.contains(call)) call->too_late();
  if (now - beat_ns_ >= options_.limits.heartbeat_s * kSecondNs) {
    beat_ns_ = now;
    const std::set<EventStream*> all = streams_;
    const std::int64_t time_ms = backend_.snapshot()->time_ms;
    for (EventStream* stream : all)
      if (streams_.contains(stream)) stream->beat(time_ms);
  }
  late_.at(std::max(due_ns + kSecondNs, now));
}

}  // namespace partita::api
