#include "api/documents.h"

#include <algorithm>
#include <utility>

#include "act/change_forms.h"
#include "act/lease/lease_forms.h"
#include "base/error_code.h"
#include "base/form.h"
#include "control/batch_list.h"
#include "control/verdict.h"
#include "fleet/brain/documents.h"
#include "fleet/brain/leader.h"
#include "fleet/brain/status.h"
#include "forms/serving_forms.h"
#include "queue/task_forms.h"

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
  f.boolean("converged", health.converged,
            "the node is as the plan in force wants it, and hears its fleet");
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

struct ChangeFacts {
  long number = 0;
  control::ChangeState state = control::ChangeState::proposed;
  std::string cause = {}, error = {};
  long planned_ms = 0, ended_ms = 0, steps_done = 0;
  std::vector<std::string> explanation = {};
  std::string plan = {}, change = {};  // documents; empty: not known
};

void describe_change(Form& f, ChangeFacts& facts) {
  f.lines("  ");
  f.document("AgentChange");
  f.whole("number", facts.number, kNumbers, "0: a preview");
  f.word("state", facts.state,
         {"proposed", "approved", "applying", "succeeded", "failed", "rejected"}, "how far it is");
  f.note("cause", facts.cause, "why");
  f.whole("planned_ms", facts.planned_ms, kTimes, "since 1970");
  f.whole("ended_ms", facts.ended_ms, kTimes, "since 1970; 0: not yet");
  f.whole("steps_done", facts.steps_done, kNumbers, "so far");
  f.note("error", facts.error, "why it failed");
  f.notes("explanation", facts.explanation, kLines, "sentences");
  form::embedded(f.optional(!facts.plan.empty()), "plan", facts.plan,
                 "#/components/schemas/ServingPlan");
  form::embedded(f.optional(!facts.change.empty()), "change", facts.change,
                 "#/components/schemas/Change");
}

std::string node_schema() {
  return device::state_schema([](Form& f) {
    std::vector<control::ServiceVerdict> verdicts;
    control::tell_age(f, 0, "why it cannot be read now");
    control::describe_verdicts(f, verdicts);
  });
}

std::optional<control::ChangeState> state_after(const history::Event& event) {
  using Happened = history::EventKind;
  using State = control::ChangeState;
  switch (event.kind) {
    case Happened::proposed:
      return State::proposed;
    case Happened::approved:
      return State::approved;
    case Happened::rejected:
      return State::rejected;
    case Happened::applying:
    case Happened::step:
      return State::applying;
    case Happened::applied:
      return event.outcome == history::Outcome::succeeded ? State::succeeded : State::failed;
    default:
      return std::nullopt;
  }
}

// Documents of others that are embedded must be JSON themselves.
bool is_json(const std::string& text) { return parse_document("document.json", text).has_value(); }

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
  return write_form(ChangeFacts{.number = change.number,
                                .state = change.state,
                                .cause = change.cause,
                                .error = change.error,
                                .planned_ms = change.planned_ms,
                                .ended_ms = change.ended_ms,
                                .steps_done = static_cast<long>(change.steps_done),
                                .explanation = change.explanation,
                                .plan = forms::plan_json(change.plan),
                                .change = actuate::change_json(change.change)},
                    describe_change);
}

Result<std::string> agent_change_json(long number, const std::vector<history::Event>& events) {
  ChangeFacts facts{.number = number};
  bool known = false;
  for (auto event = events.rbegin(); event != events.rend(); ++event) {  // oldest first
    const auto state = event->change == number ? state_after(*event) : std::nullopt;
    if (!state) continue;
    known = true;
    facts.state = *state;
    if (facts.cause.empty()) facts.cause = event->cause;
    if (facts.planned_ms == 0) facts.planned_ms = event->time_ms;
    if (event->kind == history::EventKind::step) ++facts.steps_done;
    const bool ends =
        event->kind == history::EventKind::applied || event->kind == history::EventKind::rejected;
    if (ends) facts.ended_ms = event->time_ms;
    if (ends && *state == control::ChangeState::failed) facts.error = event->detail;
    if (!event->detail.empty()) facts.explanation.push_back(event->detail);
    for (const auto& document : event->documents) {
      if (document.name == "plan" && is_json(document.text)) facts.plan = document.text;
      if (document.name == "change" && is_json(document.text)) facts.change = document.text;
    }
  }
  if (!known)
    return failed({ErrorCode::not_found, "there is no change " + std::to_string(number), ""});
  return write_form(facts, describe_change);
}

Result<std::string> parse_why(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return std::string();
  return read_form<std::string>("body.json", text, describe_why);
}

Result<control::Mode> parse_mode_wanted(std::string_view text) {
  return read_form<control::Mode>("body.json", text, describe_mode);
}

std::vector<Component> components() {
  std::vector<Component> all = {
      {"AgentState", control::snapshot_kind().schema()},
      {"ServingPlan", forms::plan_kind().schema()},
      {"NodeState", node_schema()},
      {"Change", actuate::change_kind().schema()},
      {"AgentBatches", control::batches_kind().schema()},
      {"AgentBatch", control::batch_kind().schema()},
      {"AgentChange", schema_form("AgentChange", "A change, or a preview", describe_change)},
      {"ApiError", schema_form("ApiError", "Why a call was refused", describe_error)},
      {"Health", schema_form("Health", "Whether the agent answers", describe_health)},
      {"Version", schema_form("Version", "Which program this is", describe_version)},
      {"Receipt", schema_form("Receipt", "What a request leads to", describe_receipt)},
      {"Latest", schema_form("Latest", "The newest value of every metric", describe_latest)},
      {"Why", schema_form("Why", "A reason", describe_why)},
      {"Lease", lease::lease_kind().schema()},
      {"Leases", lease::leases_kind().schema()},
      {"LeaseWanted", lease::lease_wanted_kind().schema()},
      {"QueueSubmission", queue::submission_kind().schema()},
      {"QueueTask", queue::task_kind().schema()},
      {"QueueTasks", queue::tasks_kind().schema()},
      {"ModeWanted", schema_form("ModeWanted", "How changes are to come about", describe_mode)}};
  for (const DocumentKind& kind : history::document_kinds())
    all.push_back({kind.name, kind.schema()});
  for (const DocumentKind& kind : {fleet::status_kind(), fleet::decision_kind()})
    all.push_back({kind.name, kind.schema()});
  for (const DocumentKind& kind : fleet::document_kinds())
    if (kind.name == "FleetHistory") all.push_back({kind.name, kind.schema()});
  return all;
}

}  // namespace partita::api
