#include "api/calls.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/door/http_head.h"

namespace partita::api {

namespace {

using Kind = Parameter::Kind;

const std::vector<Parameter>& history_query() {
  static const std::vector<Parameter> query = {
      {.name = "most", .about = "events at most, 1 to 1000", .kind = Kind::whole},
      {.name = "before", .about = "events older than this number", .kind = Kind::whole},
      {.name = "after", .about = "events newer than this number", .kind = Kind::whole},
      {.name = "change", .about = "events of this change", .kind = Kind::whole},
      {.name = "subject", .about = "events about this service or GPU"},
      {.name = "user", .about = "what this user did"},
      {.name = "kind",
       .about = "events of this kind",
       .kind = Kind::words,
       .words = {"started", "stopped", "desired", "proposed", "approved", "rejected", "applying",
                 "step", "applied", "repair", "health", "notice", "hook", "access"}},
      {.name = "from_ms", .about = "not before this time, since 1970", .kind = Kind::whole},
      {.name = "to_ms", .about = "not after this time, since 1970", .kind = Kind::whole},
      {.name = "documents",
       .about = "false: events without their documents",
       .kind = Kind::words,
       .words = {"true", "false"}}};
  return query;
}

const std::vector<Parameter>& series_query() {
  static const std::vector<Parameter> query = {
      {.name = "metric", .about = "rate_rps, planned_rps, p99_ms, watts ...", .required = true},
      {.name = "subject", .about = "a service or GPU; missing: the node"},
      {.name = "from_ms", .about = "since 1970; missing: a day before to_ms", .kind = Kind::whole},
      {.name = "to_ms", .about = "since 1970; missing: now", .kind = Kind::whole},
      {.name = "most", .about = "points at most, 1 to 1000", .kind = Kind::whole}};
  return query;
}

std::vector<Parameter> yes_or_no(std::string_view name, std::string_view about) {
  return {{.name = name, .about = about, .kind = Kind::words, .words = {"true", "false"}}};
}

// What happened, and what does now.
std::vector<Call> told() {
  using enum CallId;
  using enum Verb;
  constexpr Role kViewer = Role::viewer;
  return {{history, get, "/v1/history", kViewer, "history", "What happened, newest first", "",
       "History", 200, history_query()},
      {history_event, get, "/v1/history/{id}", kViewer, "history_event", "One event", "",
       "History"},
      {series, get, "/v1/series", kViewer, "series", "One metric over time", "", "Series", 200,
       series_query()},
      {latest, get, "/v1/latest", kViewer, "latest", "The newest value of every metric", "",
       "Latest"},
      {events, get, "/v1/events", kViewer, "events",
       "The state whenever it has changed, as server-sent events", "", "text/event-stream", 200,
       yes_or_no("changes", "true: behind the first state, what has changed in it")}};
}

std::vector<Call> known_and_asked() {
  using enum CallId;
  using enum Verb;
  constexpr Role kOpen = Role::open, kViewer = Role::viewer, kOperator = Role::operator_;
  return {
      {health, get, "/v1/health", kOpen, "health", "Whether the agent answers", "", "Health"},
      {version, get, "/v1/version", kOpen, "version", "Which program this is", "", "Version"},
      {openapi, get, "/v1/openapi.json", kOpen, "openapi", "This document", "", "application/json"},
      {metrics, get, "/metrics", kViewer, "metrics", "Numbers for Prometheus", "",
       "text/plain; version=0.0.4"},
      {state, get, "/v1/state", kViewer, "state", "What the agent knows and is doing", "",
       "AgentState", 200,
       yes_or_no("whole", "true: of a large node, too, all parts in this document")},
      {node, get, "/v1/node", kViewer, "node", "The GPUs and instances as read last", "",
       "NodeState"},
      {plan, get, "/v1/plan", kViewer, "plan", "The plan in force", "", "ServingPlan"},
      {services, get, "/v1/services", kViewer, "services", "The services file that is wanted", "",
       "application/yaml"},
      {set_services, put, "/v1/services", kOperator, "set_services",
       "Replaces the services that are wanted", "application/yaml", "Receipt", 202},
      {set_plan, put, "/v1/plan", kOperator, "set_plan",
       "Makes this plan, once the judge lets it pass for the services that are wanted",
       "ServingPlan", "Receipt", 202},
      {preview, post, "/v1/preview", kOperator, "preview",
       "The change that these services, or this plan, would lead to; nothing is changed",
       "application/yaml", "AgentChange"},
      {current_change, get, "/v1/changes/current", kViewer, "current_change",
       "The change that is proposed or under way", "", "AgentChange"},
      {change, get, "/v1/changes/{number}", kViewer, "change", "A change, however old", "",
       "AgentChange"},
      {approve, post, "/v1/changes/{number}/approve", kOperator, "approve",
       "Lets a proposed change happen", "Why", "Receipt", 202},
      {reject, post, "/v1/changes/{number}/reject", kOperator, "reject",
       "Keeps a proposed change from happening", "Why", "Receipt", 202},
      {rollback, post, "/v1/rollback", kOperator, "rollback",
       "Back to what was before the last change; from then on changes wait for approval", "",
       "Receipt", 202},
      {replan, post, "/v1/replan", kOperator, "replan", "Looks and plans now", "", "Receipt", 202},
      {set_mode, put, "/v1/mode", Role::admin, "set_mode", "How changes come about", "ModeWanted",
       "Receipt", 202},
      {take_out, post, "/v1/gpus/{uuid}/take-out", kOperator, "take_out",
       "Moves the services of a GPU elsewhere and leaves it empty", "Why", "Receipt", 202},
      {give_back, post, "/v1/gpus/{uuid}/give-back", kOperator, "give_back",
       "Uses a GPU again that was taken out", "", "Receipt", 202},
      {submit_tasks, post, "/v1/batch/tasks", kOperator, "submit_tasks",
       "A batch of tasks for the GPUs that are the batch's", "text/csv", "Receipt", 202},
      {batches, get, "/v1/batch", kViewer, "batches",
       "The batches that are not over, and the newest others, with at most 500 tasks", "",
       "AgentBatches"},
      {batch, get, "/v1/batch/{number}", kViewer, "batch", "A batch with its tasks", "",
       "AgentBatch"},
      {cancel_batch, post, "/v1/batch/{number}/cancel", kOperator, "cancel_batch",
       "Stops what runs of a batch; the rest of it never begins", "Why", "Receipt", 202},
      {leases, get, "/v1/leases", kViewer, "leases", "The instances that are lent, and to whom", "",
       "Leases"},
      {take_lease, post, "/v1/leases", kOperator, "take_lease",
       "Lends an instance; who asks again gets the same", "LeaseWanted", "Lease"},
      {return_lease, delete_, "/v1/leases", kOperator, "return_lease",
       "Takes back what is lent to an owner; nothing is no error", "", "Leases", 200,
       {{.name = "owner", .about = "whose leases", .required = true}}}};
}

const std::vector<Call>& table() {
  static const std::vector<Call> all = [] {
    std::vector<Call> calls = known_and_asked();
    std::ranges::move(told(), std::back_inserter(calls));
    return calls;
  }();
  return all;
}

// Whether a path fits one of the table, with what stood for its {part}.
std::optional<std::string> fits(std::string_view pattern, std::string_view path) {
  const std::size_t open = pattern.find('{');
  if (open == std::string_view::npos)
    return pattern == path ? std::optional<std::string>("") : std::nullopt;
  const std::string_view before = pattern.substr(0, open);
  const std::string_view behind = pattern.substr(pattern.find('}') + 1);
  if (path.size() <= before.size() + behind.size() || !path.starts_with(before) ||
      !path.ends_with(behind))
    return std::nullopt;
  std::string_view part = path.substr(before.size());
  part.remove_suffix(behind.size());
  if (part.find('/') != std::string_view::npos || part.size() > kMaxPartBytes) return std::nullopt;
  return serve::percent_decoded(part);
}

}  // namespace

const char* to_string(Role role) {
  constexpr std::array kWords = {"open", "viewer", "operator", "admin"};
  return kWords.at(static_cast<std::size_t>(role));
}

const char* to_string(Verb verb) {
  constexpr std::array kWords = {"GET", "PUT", "POST", "DELETE"};
  return kWords.at(static_cast<std::size_t>(verb));
}

std::span<const Call> calls() { return table(); }

Lookup find_call(std::string_view verb, std::string_view path) {
  if (verb == "HEAD") verb = "GET";
  Lookup result;
  bool literal = false;  // a path of the table itself goes before one with a part
  for (const Call& call : table()) {
    const bool exact = call.path.find('{') == std::string_view::npos;
    if (literal && !exact) continue;
    auto part = fits(call.path, path);
    if (!part) continue;
    literal = literal || exact;
    result.others.push_back(call.verb);
    if (to_string(call.verb) == verb) result.found = Matched{&call, std::move(*part)};
  }
  return result;
}

}  // namespace partita::api
