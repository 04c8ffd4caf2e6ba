// The table of the API's calls: method, path, role, what goes in and comes out. The router, the
// OpenAPI document, the client and the tests read the same table. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace partita::api {

// Each may do what those before it may. open: without any token.
enum class Role : std::uint8_t { open, viewer, operator_, admin };
const char* to_string(Role role);

enum class Verb : std::uint8_t { get, put, post, delete_ };
const char* to_string(Verb verb);  // "GET"

enum class CallId : std::uint8_t {
  health,
  version,
  openapi,
  metrics,
  state,
  node,
  plan,
  services,
  set_services,
  set_plan,
  current_change,
  change,
  approve,
  reject,
  rollback,
  replan,
  set_mode,
  take_out,
  give_back,
  preview,
  history,
  history_event,
  series,
  latest,
  submit_tasks,
  batches,
  batch,
  cancel_batch,
  leases,
  take_lease,
  return_lease,
  events,
};

struct Parameter {
  std::string_view name, about;
  enum class Kind : std::uint8_t { whole, text, words } kind = Kind::text;
  std::vector<std::string_view> words = {};  // of Kind::words
  bool required = false;
};

struct Call {
  CallId id;
  Verb verb;
  std::string_view path;  // "/v1/changes/{number}/approve"
  Role role;
  std::string_view name;   // operationId
  std::string_view about;  // a sentence
  std::string_view
      request;  // schema of the body: a name of OpenAPI's components, a media type: a file
                // as text; empty: none
  std::string_view answer;  // schema, or a media type with a slash
  int status = 200;         // of success
  std::vector<Parameter> query = {};
};

std::span<const Call> calls();

inline constexpr std::size_t kMaxPartBytes = 256;

// A call that a path means, with what stood for its {part}.
struct Matched {
  const Call* call = nullptr;
  std::string part = {};  // decoded
};
// The call; or null, with the methods that the path would take (none: no such path).
struct Lookup {
  std::optional<Matched> found = {};
  std::vector<Verb> others = {};
};
Lookup find_call(std::string_view verb, std::string_view path);

}  // namespace partita::api
