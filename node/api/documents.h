// The documents of the API that no other room has, and the schemas of all that its calls take and
// give. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "control/request.h"
#include "control/snapshot.h"
#include "history/event.h"

namespace partita::api {

// Every error of the API. `code` is one of a few words (docs/api.md), `where` FILE:LINE, a
// parameter or empty.
struct ApiError {
  std::string code, message, where = {};
  bool operator==(const ApiError&) const = default;
};
std::string error_json(const ApiError& error);
Result<ApiError> parse_api_error(const std::string& file, std::string_view text);
// The error that a refusal of the agent is, and its HTTP status.
ApiError api_error(const Error& error);
int status_of(const Error& error);

std::string health_json(const control::Snapshot& snapshot);
std::string version_json(const std::string& version);
std::string receipt_json(const control::Receipt& receipt);
Result<control::Receipt> parse_receipt(const std::string& file, std::string_view text);
std::string latest_json(const std::vector<history::Measured>& values);

// `kind: AgentChange`: a change with its documents ServingPlan and Change.
std::string agent_change_json(const control::ChangeNow& change);
// The same as the history has it, newest event first; not_found: none of these events is its.
Result<std::string> agent_change_json(long number, const std::vector<history::Event>& events);

// {"why": "..."}, or nothing at all.
Result<std::string> parse_why(std::string_view text);
Result<control::Mode> parse_mode_wanted(std::string_view text);

// A JSON Schema of OpenAPI's components, by the name that the table of calls uses.
struct Component {
  std::string_view name;
  std::string schema;
};
std::vector<Component> components();

}  // namespace partita::api
