#include "api/operations.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "api/documents.h"
#include "base/check.h"
#include "base/parse_number.h"
#include "base/door/http_head.h"
#include "history/store/store.h"

namespace partita::api {

namespace {

using Kind = Field::Kind;
using Ask = Result<control::Request>;

Field number_of(std::string_view name) {
  return {.name = name, .about = "counts from 1", .kind = Kind::whole, .required = true,
          .of_path = true, .least = 1};
}
Field uuid_of_gpu() {
  return {.name = "uuid", .about = "of a GPU", .required = true, .of_path = true};
}

// A request about something with a number, or a UUID, and a reason that may be missing.
template <typename Request>
Ask with_why(Given given) {
  auto why = TRY(parse_why(given.body));
  if constexpr (std::is_same_v<Request, control::TakeOut>) {
    return Request{std::move(given.part), std::move(why)};
  } else {
    return Request{parse_number<long>(given.part).value_or(0), std::move(why)};
  }
}
template <typename Request>
Ask with_body(Given given) {
  return Request{std::move(given.body)};
}
template <typename Request>
Ask alone(Given) {
  return Request{};
}
Ask mode_wanted(Given given) {
  const auto mode = TRY(parse_mode_wanted(given.body));
  return control::SetMode{mode};
}

const std::vector<Field>& history_query() {
  static const std::vector<Field> query = {
      {.name = "most", .about = "events at most, 1 to 1000", .kind = Kind::whole, .least = 1,
       .most = history::kMaxRows},
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

const std::vector<Field>& series_query() {
  static const std::vector<Field> query = {
      {.name = "metric",
       .about = "what is measured of services, keys, GPUs and the node (docs/history.md)",
       .kind = Kind::words,
       .words = {"rate_rps", "planned_rps", "p99_ms", "attainment", "tokens_per_s", "ttft_p99_ms",
                 "tpot_p99_ms", "key_tokens_per_s", "key_rps", "key_refused_rps", "key_bytes_per_s",
                 "watts", "host_watts", "energy_cost", "co2_g", "cpu_watts", "dram_watts",
                 "node_watts", "gpus", "instances"},
       .required = true},
      {.name = "subject", .about = "a service or GPU; missing: the node"},
      {.name = "from_ms", .about = "since 1970; missing: a day before to_ms", .kind = Kind::whole},
      {.name = "to_ms", .about = "since 1970; missing: now", .kind = Kind::whole},
      {.name = "most", .about = "points at most, 1 to 1000", .kind = Kind::whole, .least = 1,
       .most = history::kMaxRows}};
  return query;
}

std::vector<Field> yes_or_no(std::string_view name, std::string_view about) {
  return {{.name = name, .about = about, .kind = Kind::words, .words = {"true", "false"}}};
}

constexpr Role kOpen = Role::open, kViewer = Role::viewer, kOperator = Role::operator_;

// What is known, and what is wanted.
std::vector<Operation> of_the_node() {
  using enum Verb;
  return {
      {"health", get, "/v1/health", kOpen,
       "Whether the agent answers, and whether the node is as planned", "", "Health"},
      {"version", get, "/v1/version", kOpen, "Which program this is", "", "Version"},
      {"openapi", get, "/v1/openapi.json", kOpen, "The OpenAPI 3.1 document of this API", "",
       "application/json"},
      {"metrics", get, "/metrics", kViewer, "Numbers for Prometheus, as text", "",
       "text/plain; version=0.0.4"},
      {"state", get, "/v1/state", kViewer,
       "What the agent knows and is doing; of a large node without the parts in `left_out`", "",
       "AgentState", 200,
       yes_or_no("whole", "true: of a large node, too, all parts in this document")},
      {"node", get, "/v1/node", kViewer, "The GPUs and instances as read last", "", "NodeState"},
      {"plan", get, "/v1/plan", kViewer, "The plan in force; 404: none", "", "ServingPlan"},
      {"services", get, "/v1/services", kViewer, "The services file that is wanted, as text", "",
       "application/yaml"},
      {"set_services", put, "/v1/services", kOperator, "Replaces the services that are wanted",
       "application/yaml", "Receipt", 202, {}, with_body<control::SetServices>},
      {"set_plan", put, "/v1/plan", kOperator,
       "Makes this plan, once the judge lets it pass for the services that are wanted (else 409)",
       "ServingPlan", "Receipt", 202, {}, with_body<control::SetPlan>},
      {"preview", post, "/v1/preview", kOperator,
       "The change that these services, or this plan, would lead to; nothing is changed",
       "application/yaml", "AgentChange"}};
}

// Changes, and who lets them happen.
std::vector<Operation> of_changes() {
  using enum Verb;
  return {
      {"current_change", get, "/v1/changes/current", kViewer,
       "The change that is proposed or under way; 404: none", "", "AgentChange"},
      {"change", get, "/v1/changes/{number}", kViewer, "A change, however old", "", "AgentChange",
       200, {number_of("number")}},
      {"approve", post, "/v1/changes/{number}/approve", kOperator,
       "Approve a proposed change", "Why", "Receipt", 202, {number_of("number")},
       with_why<control::Approve>, {"approve", "CHANGE", "approve 7 --why 'looked at it'"}},
      {"reject", post, "/v1/changes/{number}/reject", kOperator,
       "Reject a proposed change", "Why", "Receipt", 202, {number_of("number")},
       with_why<control::Reject>, {"reject", "CHANGE", "approve --reject 7 --why 'not tonight'"}},
      {"rollback", post, "/v1/rollback", kOperator,
       "Back to what was before the last change; from then on changes wait for approval", "",
       "Receipt", 202, {}, alone<control::Rollback>},
      {"replan", post, "/v1/replan", kOperator, "Looks and plans now", "", "Receipt", 202, {},
       alone<control::Replan>},
      {"set_mode", put, "/v1/mode", Role::admin,
       "How changes come about: automatic, approve or observe", "ModeWanted", "Receipt", 202, {},
       mode_wanted},
      {"take_out", post, "/v1/gpus/{uuid}/take-out", kOperator,
       "Moves the services of a GPU elsewhere and leaves it empty", "Why", "Receipt", 202,
       {uuid_of_gpu()}, with_why<control::TakeOut>},
      {"give_back", post, "/v1/gpus/{uuid}/give-back", kOperator,
       "Uses a GPU again that was taken out", "", "Receipt", 202, {uuid_of_gpu()},
       [](Given given) -> Ask { return control::GiveBack{std::move(given.part)}; }}};
}

// Batches of tasks.
std::vector<Operation> of_batches() {
  using enum Verb;
  return {
      {"submit_tasks", post, "/v1/batch/tasks", kOperator,
       "A batch of tasks for the GPUs that are the batch's", "text/csv", "Receipt", 202, {},
       with_body<control::SubmitTasks>},
      {"batches", get, "/v1/batch", kViewer,
       "List unfinished batches and the newest others, with at most 500 tasks", "",
       "AgentBatches", 200, {}, nullptr, {"batch list", "", "queue list batches"}},
      {"batch", get, "/v1/batch/{number}", kViewer,
       "Show a batch with its tasks, if it is still kept", "", "AgentBatch", 200,
       {number_of("number")}, nullptr, {"batch show", "BATCH", "queue show batch:3"}},
      {"cancel_batch", post, "/v1/batch/{number}/cancel", kOperator,
       "Cancel a batch: end what runs, start nothing else", "Why", "Receipt", 202,
       {number_of("number")}, with_why<control::CancelBatch>,
       {"batch cancel", "BATCH", "queue cancel batch:3 --why 'wrong data'"}},
      {"pause_batch", post, "/v1/batch/{number}/pause", kOperator,
       "Pause a batch: start no further tasks; those that run go on", "Why", "Receipt", 202,
       {number_of("number")}, with_why<control::PauseBatch>,
       {"batch pause", "BATCH", "queue hold batch:3 --why 'the data is late'"}},
      {"resume_batch", post, "/v1/batch/{number}/resume", kOperator,
       "Resume a paused batch", "Why", "Receipt", 202, {number_of("number")},
       with_why<control::ResumeBatch>, {"batch resume", "BATCH", "queue release batch:3"}}};
}

// Instances that are lent.
std::vector<Operation> of_leases() {
  using enum Verb;
  return {
      {"leases", get, "/v1/leases", kViewer, "The instances that are lent, and to whom", "",
       "Leases"},
      {"take_lease", post, "/v1/leases", kOperator,
       "Lends an instance; who asks again gets the same", "LeaseWanted", "Lease"},
      {"return_lease", delete_, "/v1/leases", kOperator,
       "Takes back what is lent to an owner; nothing is no error", "", "Leases", 200,
       {{.name = "owner", .about = "whose leases", .required = true}}}};
}

std::vector<Field> queue_query() {
  std::vector<Field> query = yes_or_no("all", "true: also those that have");
  query.push_back({.name = "after", .about = "tasks of a larger number", .kind = Kind::whole});
  query.push_back({.name = "most", .about = "so many of them at most", .kind = Kind::whole});
  return query;
}

// Tasks that wait, where the agent hosts a queue.
std::vector<Operation> of_the_queue() {
  using enum Verb;
  return {
      {"queue_submit", post, "/v1/queue/tasks", kOperator,
       "Puts tasks into the queue; answered once they are on disk", "QueueSubmission",
       "QueueTasks", 201},
      {"queue_tasks", get, "/v1/queue/tasks", kViewer, "The tasks that have not ended", "",
       "QueueTasks", 200, queue_query()},
      {"queue_task", get, "/v1/queue/tasks/{number}", kViewer, "A task with its attempts", "",
       "QueueTask", 200, {number_of("number")}},
      {"queue_log", get, "/v1/queue/tasks/{number}/log", kOperator,
       "What a task printed, its last megabyte", "", "text/plain", 200, {number_of("number")}},
      {"queue_cancel", post, "/v1/queue/tasks/{number}/cancel", kOperator,
       "Ends a task, or does not begin it", "", "QueueTask", 200, {number_of("number")}},
      {"queue_hold", post, "/v1/queue/tasks/{number}/hold", kOperator, "Does not begin a task", "",
       "QueueTask", 200, {number_of("number")}},
      {"queue_release", post, "/v1/queue/tasks/{number}/release", kOperator,
       "Lets a task begin that was held", "", "QueueTask", 200, {number_of("number")}}};
}

// The fleet, where the node is one of its nodes.
std::vector<Operation> of_the_fleet() {
  using enum Verb;
  std::vector<Field> drain = yes_or_no("back", "true: it may carry services again, or is live");
  drain.push_back({.name = "node", .about = "its name", .required = true, .of_path = true});
  return {
      {"fleet", get, "/v1/fleet", kViewer,
       "The nodes of the fleet and what they carry, as this node knows it; 404: it is one of none",
       "", "FleetStatus"},
      {"fleet_plan", get, "/v1/fleet/plan", kViewer,
       "What the leader decided last; of the node that leads alone (else 404)", "",
       "FleetDecision"},
      {"fleet_history", get, "/v1/fleet/history", kViewer,
       "What leaders and people did, oldest first", "", "FleetHistory"},
      {"fleet_explain", get, "/v1/fleet/explain", kViewer,
       "Why nodes carry what they carry, and for whom they wait", "", "text/plain", 200,
       {{.name = "of", .about = "a node or a service; missing: all"}}},
      {"fleet_apply", put, "/v1/fleet/services", kOperator,
       "Says which services the fleet shall carry, or who may draw how much", "application/yaml",
       "Receipt", 202,
       {{.name = "survive",
         .about = "what may be lost, any one of it; missing: as it was",
         .kind = Kind::words,
         .words = {"none", "node", "rack", "zone", "feed"}},
        {.name = "mode",
         .about = "whether decisions wait for a person; missing: as it was",
         .kind = Kind::words,
         .words = {"automatic", "approve"}}}},
      {"fleet_approve", post, "/v1/fleet/approve", kOperator, "Says yes to the decision that waits",
       "", "Receipt", 202, {{.name = "digest", .about = "of that one alone; missing: whichever"}}},
      {"fleet_drain", post, "/v1/fleet/nodes/{node}/drain", kOperator,
       "Moves a node's services to others; or says that a feed, PDU or rack of that name is dead",
       "", "Receipt", 202, std::move(drain)}};
}

// What happened, and what does now.
std::vector<Operation> of_the_past() {
  using enum Verb;
  return {
      {"history", get, "/v1/history", kViewer,
       "What happened, newest first; with `change` the story of one", "", "History", 200,
       history_query()},
      {"history_event", get, "/v1/history/{id}", kViewer, "One event", "", "History", 200,
       {number_of("id")}},
      {"series", get, "/v1/series", kViewer, "One metric over time", "", "Series", 200,
       series_query()},
      {"latest", get, "/v1/latest", kViewer, "The newest value of every metric", "", "Latest"},
      {"events", get, "/v1/events", kViewer,
       "The state whenever it has changed, as server-sent events", "", "text/event-stream", 200,
       yes_or_no("changes", "true: behind the first state, what has changed in it")}};
}

const std::vector<Operation>& table() {
  static const std::vector<Operation> all = [] {
    std::vector<Operation> operations = of_the_node();
    for (const auto part :
         {of_changes, of_batches, of_leases, of_the_queue, of_the_fleet, of_the_past})
      std::ranges::move(part(), std::back_inserter(operations));
    return operations;
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

const Field* Operation::path_field() const {
  const auto found = std::ranges::find_if(inputs, &Field::of_path);
  return found == inputs.end() ? nullptr : &*found;
}

const Field* Operation::query_field(std::string_view wanted) const {
  const auto found = std::ranges::find_if(
      inputs, [&](const Field& one) { return !one.of_path && one.name == wanted; });
  return found == inputs.end() ? nullptr : &*found;
}

std::span<const Operation> operations() { return table(); }

const Operation& operation(std::string_view name) {
  const auto found = std::ranges::find(table(), name, &Operation::name);
  CHECK(found != table().end());
  return *found;
}

Lookup find_operation(std::string_view verb, std::string_view path) {
  if (verb == "HEAD") verb = "GET";
  Lookup result;
  bool literal = false;  // a path of the table itself goes before one with a part
  for (const Operation& one : table()) {
    const bool exact = one.path.find('{') == std::string_view::npos;
    if (literal && !exact) continue;
    auto part = fits(one.path, path);
    if (!part) continue;
    literal = literal || exact;
    result.others.push_back(one.verb);
    if (to_string(one.verb) == verb) result.found = Matched{&one, std::move(*part)};
  }
  return result;
}

}  // namespace partita::api
