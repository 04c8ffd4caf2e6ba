#include "api/documents.h"

#include <algorithm>
#include <utility>

#include "act/change_forms.h"
#include "base/error_code.h"
#include "base/form.h"
#include "base/json_writer.h"
#include "control/batch_list.h"
#include "forms/serving_forms.h"

namespace partita::api {

namespace {

constexpr Range kNumbers{.high = 9e15};
constexpr Range kTimes{.high = 1e15};  // milliseconds since 1970
constexpr ListForm kLines{.most = 100'000, .indent = "    "};
constexpr std::initializer_list<const char*> kModes = {"automatic", "approve", "observe"};

void describe_error(Form& f, ApiError& error) {
  f.document("ApiError");
  f.text("code", error.code, "a word for programs: not_found, forbidden, bad_input ...");
  f.text("message", error.message, "a sentence for people");
  f.note("where", error.where, "FILE:LINE or a parameter; may be empty");
}

struct Health {
  std::string node;
  control::Mode mode = control::Mode::automatic;
  bool converged = false;
  long version = 0;
};

void describe_health(Form& f, Health& health) {
  f.document("Health");
  f.note("node", health.node, "host name");
  f.word("mode", health.mode, kModes, "how changes come about");
  f.boolean("converged", health.converged, "the node is as the plan in force wants it");
  f.whole("version", health.version, kNumbers, "of the state; grows with every change of it");
}

void describe_version(Form& f, std::string& version) {
  f.document("Version");
  f.text("program", version, "what `partita --version` says");
}

void describe_receipt(Form& f, control::Receipt& receipt) {
  f.document("Receipt");
  f.whole("change", receipt.change, kNumbers, "the change it leads to; 0: none");
  f.text("sentence", receipt.sentence, "what happens now");
}

struct Newest {
  long time_ms = 0;
  std::string metric, subject;
  double value = 0;
};

void describe_newest(Form& f, Newest& newest) {
  f.whole("time_ms", newest.time_ms, kTimes, "since 1970");
  f.text("metric", newest.metric, "what was measured");
  f.note("subject", newest.subject, "service or GPU; empty: the node");
  f.number("value", newest.value, kAnyNumber, "then");
}

void describe_latest(Form& f, std::vector<Newest>& values) {
  f.document("Latest");
  f.list("values", values, describe_newest, kLines, "of every metric and subject");
}

void describe_why(Form& f, std::string& why) {
  f.closed();
  f.optional(!why.empty()).note("why", why, "for the history");
}

void describe_mode(Form& f, control::Mode& mode) {
  f.closed();
  f.word("mode", mode, kModes, "how changes come about");
}

template <class T>
Result<T> read_body(std::string_view text, void (*describe)(Form&, T&)) {
  const auto document = parse_document("body.json", text);
  if (!document) return failed(document.error());
  return read_form<T>(*document, describe);
}

std::string_view without_break(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

struct ChangeFacts {
  long number = 0;
  std::string state = {}, cause = {}, error = {};
  std::int64_t planned_ms = 0, ended_ms = 0;
  std::size_t steps_done = 0;
  std::vector<std::string> explanation = {};
  std::string plan = {}, change = {};  // documents; empty: not known
};

std::string change_document(const ChangeFacts& facts) {
  JsonWriter out;
  out.raw("{\n  \"api_version\": \"partita/v1\",\n  \"kind\": \"AgentChange\",\n  \"number\": ");
  out.number(facts.number).raw(",\n  \"state\": ").string(facts.state);
  out.raw(",\n  \"cause\": ").string(facts.cause);
  out.raw(",\n  \"planned_ms\": ").number(static_cast<long>(facts.planned_ms));
  out.raw(",\n  \"ended_ms\": ").number(static_cast<long>(facts.ended_ms));
  out.raw(",\n  \"steps_done\": ").number(static_cast<long>(facts.steps_done));
  out.raw(",\n  \"error\": ").string(facts.error);
  out.raw(",\n  \"explanation\": ");
  out.list(facts.explanation, "    ", [&](const std::string& line) { out.string(line); });
  if (!facts.plan.empty()) out.raw(",\n  \"plan\": ").raw(without_break(facts.plan));
  if (!facts.change.empty()) out.raw(",\n  \"change\": ").raw(without_break(facts.change));
  return out.raw("\n}\n").take();
}

const char* state_after(const history::Event& event) {
  using enum history::EventKind;
  switch (event.kind) {
    case proposed:
      return "proposed";
    case approved:
      return "approved";
    case rejected:
      return "rejected";
    case applying:
    case step:
      return "applying";
    case applied:
      return event.outcome == history::Outcome::succeeded ? "succeeded" : "failed";
    default:
      return nullptr;
  }
}

// Documents of others that are embedded must be JSON themselves.
bool is_json(const std::string& text) { return parse_document("document.json", text).has_value(); }

constexpr std::string_view kNodeState = R"({
  "title": "NodeState", "type": "object",
  "required": ["api_version", "kind", "driver", "driver_version", "gpus"],
  "properties": {
    "api_version": {"const": "partita/v1"}, "kind": {"const": "NodeState"},
    "driver": {"type": ["string", "null"]}, "driver_version": {"type": ["string", "null"]},
    "gpus": {"type": "array", "maxItems": 1000000, "items": {
      "type": "object", "required": ["index", "uuid", "model", "mig_enabled", "instances"],
      "properties": {
        "index": {"type": "integer", "minimum": 0}, "uuid": {"type": ["string", "null"]},
        "name": {"type": ["string", "null"]}, "model": {"type": ["string", "null"]},
        "pci_device_id": {"type": ["string", "null"]},
        "memory_mib": {"type": "number", "minimum": 0},
        "mig_capable": {"type": "boolean"}, "mig_enabled": {"type": "boolean"},
        "mig_pending": {"type": "boolean"}, "lost": {"type": "boolean"},
        "holders": {"type": "array", "maxItems": 1000000, "items": {"type": "object"}},
        "instances": {"type": "array", "maxItems": 64, "items": {
          "type": "object", "required": ["profile", "start"],
          "properties": {"profile": {"type": "string"}, "start": {"type": "integer"},
            "size": {"type": "integer"}, "gpcs": {"type": "integer"},
            "profile_id": {"type": "integer"}, "gi_id": {"type": "integer"},
            "uuid": {"type": ["string", "null"]}, "busy": {"type": "boolean"},
            "compute": {"type": "array", "maxItems": 64, "items": {"type": "object"}},
            "holders": {"type": "array", "maxItems": 1000000, "items": {"type": "object"}},
            "service": {"type": "string"}, "batch": {"type": "integer"},
            "processes": {"type": "integer"}}}}}}},
    "as_of": {"type": "string", "description": "when this was read, UTC"},
    "fault": {"type": "string", "description": "why it cannot be read now"},
    "services": {"type": "array", "maxItems": 100000, "items": {
      "type": "object", "required": ["name", "verdict", "since", "why", "asked_rps",
        "answered_rps", "can_carry_rps"],
      "properties": {"name": {"type": "string"},
        "verdict": {"enum": ["serves", "degraded", "at_risk", "down", "unknown"]},
        "since": {"type": "string"}, "as_of": {"type": "string"}, "why": {"type": "string"},
        "asked_rps": {"type": "number", "minimum": 0},
        "answered_rps": {"type": "number", "minimum": 0},
        "can_carry_rps": {"type": "number", "minimum": 0}}}},
    "unfinished": {"type": "object"}}
})";

constexpr std::string_view kChange = R"({
  "title": "Change", "type": "object",
  "required": ["api_version", "kind", "keep", "destroy", "create", "move", "steps",
    "affected_services", "predicted_s"],
  "properties": {
    "api_version": {"const": "partita/v1"}, "kind": {"const": "Change"},
    "keep": {"type": "array", "maxItems": 100000, "items": {"type": "object"}},
    "destroy": {"type": "array", "maxItems": 100000, "items": {"type": "object"}},
    "create": {"type": "array", "maxItems": 100000, "items": {"type": "object"}},
    "move": {"type": "array", "maxItems": 100000, "items": {"type": "object"}},
    "reassign": {"type": "array", "maxItems": 100000, "items": {"type": "object"}},
    "temporary": {"type": "array", "maxItems": 100000, "items": {"type": "object"}},
    "blockers": {"type": "array", "maxItems": 1000000, "items": {"type": "object"}},
    "explanation": {"type": "array", "maxItems": 1000000, "items": {"type": "string"}},
    "changes": {"type": "object"}, "kept_gpcs": {"type": "integer"},
    "steps": {"type": "array", "maxItems": 1000000, "items": {"type": "object"}},
    "affected_services": {"type": "array", "maxItems": 1000000, "items": {"type": "object"}},
    "predicted_s": {"type": "number", "minimum": 0}}
})";

constexpr std::string_view kAgentChange = R"({
  "title": "AgentChange", "type": "object",
  "required": ["api_version", "kind", "number", "state", "cause", "planned_ms", "ended_ms",
    "steps_done", "error", "explanation"],
  "properties": {
    "api_version": {"const": "partita/v1"}, "kind": {"const": "AgentChange"},
    "number": {"type": "integer", "minimum": 0, "description": "0: a preview"},
    "state": {"enum": ["proposed", "approved", "applying", "succeeded", "failed", "rejected"]},
    "cause": {"type": "string"}, "planned_ms": {"type": "integer", "minimum": 0},
    "ended_ms": {"type": "integer", "minimum": 0, "description": "0: not yet"},
    "steps_done": {"type": "integer", "minimum": 0}, "error": {"type": "string"},
    "explanation": {"type": "array", "maxItems": 100000, "items": {"type": "string"}},
    "plan": {"$ref": "#/components/schemas/ServingPlan"},
    "change": {"$ref": "#/components/schemas/Change"}}
})";

}  // namespace

std::string error_json(const ApiError& error) { return write_form(error, describe_error); }

Result<ApiError> parse_api_error(const std::string& file, std::string_view text) {
  return read_form<ApiError>(file, text, describe_error);
}

ApiError api_error(const Error& error) {
  return {.code = to_string(error.code),
          .message = error.message.empty() ? "no reason was given" : error.message,
          .where = error.context};
}

int status_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::bad_input:
    case ErrorCode::invalid_argument:
      return 400;
    case ErrorCode::not_found:
      return 404;
    case ErrorCode::denied:
      return 403;
    case ErrorCode::infeasible:
    case ErrorCode::in_use:
    case ErrorCode::no_room:
    case ErrorCode::reset_required:
    case ErrorCode::not_supported:
      return 409;
    case ErrorCode::limit:
      return 503;
    case ErrorCode::timeout:
      return 504;
    default:
      return 500;
  }
}

std::string health_json(const control::Snapshot& snapshot) {
  return write_form(Health{.node = snapshot.node,
                           .mode = snapshot.mode,
                           .converged = snapshot.converged,
                           .version = snapshot.version},
                    describe_health);
}

std::string version_json(const std::string& version) {
  return write_form(version.empty() ? std::string("partita") : version, describe_version);
}

std::string receipt_json(const control::Receipt& receipt) {
  control::Receipt said = receipt;
  if (said.sentence.empty()) said.sentence = "done";
  return write_form(said, describe_receipt);
}

Result<control::Receipt> parse_receipt(const std::string& file, std::string_view text) {
  return read_form<control::Receipt>(file, text, describe_receipt);
}

std::string latest_json(const std::vector<history::Measured>& values) {
  std::vector<Newest> all;
  for (const history::Measured& one : values)
    all.push_back({.time_ms = static_cast<long>(one.time_ms),
                   .metric = one.metric,
                   .subject = one.subject,
                   .value = one.value});
  return write_form(all, describe_latest);
}

std::string agent_change_json(const control::ChangeNow& change) {
  return change_document({.number = change.number,
                          .state = to_string(change.state),
                          .cause = change.cause,
                          .error = change.error,
                          .planned_ms = change.planned_ms,
                          .ended_ms = change.ended_ms,
                          .steps_done = change.steps_done,
                          .explanation = change.explanation,
                          .plan = forms::plan_json(change.plan),
                          .change = actuate::change_json(change.change)});
}

Result<std::string> agent_change_json(long number, const std::vector<history::Event>& events) {
  ChangeFacts facts{.number = number};
  for (auto event = events.rbegin(); event != events.rend(); ++event) {  // oldest first
    const char* state = event->change == number ? state_after(*event) : nullptr;
    if (state == nullptr) continue;
    facts.state = state;
    if (facts.cause.empty()) facts.cause = event->cause;
    if (facts.planned_ms == 0) facts.planned_ms = event->time_ms;
    if (event->kind == history::EventKind::step) ++facts.steps_done;
    const bool ends =
        event->kind == history::EventKind::applied || event->kind == history::EventKind::rejected;
    if (ends) facts.ended_ms = event->time_ms;
    if (ends && facts.state == "failed") facts.error = event->detail;
    if (!event->detail.empty()) facts.explanation.push_back(event->detail);
    for (const auto& document : event->documents) {
      if (document.name == "plan" && is_json(document.text)) facts.plan = document.text;
      if (document.name == "change" && is_json(document.text)) facts.change = document.text;
    }
  }
  if (facts.state.empty())
    return failed({ErrorCode::not_found, "there is no change " + std::to_string(number), ""});
  return change_document(facts);
}

Result<std::string> parse_why(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return std::string();
  return read_body<std::string>(text, describe_why);
}

Result<control::Mode> parse_mode_wanted(std::string_view text) {
  return read_body<control::Mode>(text, describe_mode);
}

std::vector<Component> components() {
  std::vector<Component> all = {
      {"AgentState", control::snapshot_kind().schema()},
      {"ServingPlan", forms::plan_kind().schema()},
      {"NodeState", std::string(kNodeState)},
      {"Change", std::string(kChange)},
      {"AgentBatches", control::batches_kind().schema()},
      {"AgentBatch", control::batch_kind().schema()},
      {"AgentChange", std::string(kAgentChange)},
      {"ApiError", schema_form("ApiError", "Why a call was refused", describe_error)},
      {"Health", schema_form("Health", "Whether the agent answers", describe_health)},
      {"Version", schema_form("Version", "Which program this is", describe_version)},
      {"Receipt", schema_form("Receipt", "What a request leads to", describe_receipt)},
      {"Latest", schema_form("Latest", "The newest value of every metric", describe_latest)},
      {"Why", schema_form("Why", "A reason", describe_why)},
      {"ModeWanted", schema_form("ModeWanted", "How changes are to come about", describe_mode)}};
  for (const DocumentKind& kind : history::document_kinds())
    all.push_back({kind.name, kind.schema()});
  return all;
}

}  // namespace partita::api
