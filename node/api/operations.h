// The table of operations of a running agent: who may do it, what goes in and comes out, what it
// asks of the loop, and which command does it. The router, the OpenAPI document, the clients in C++
// and Python, `partita --server`, its help and completion, and docs/api.md are views of it. Pure.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/request.h"

namespace partita::api {

// Each may do what those before it may. open: without any token.
enum class Role : std::uint8_t { open, viewer, operator_, admin };
const char* to_string(Role role);

enum class Verb : std::uint8_t { get, put, post, delete_ };
const char* to_string(Verb verb);  // "GET"

// An input. Of the path: what stands for its {name}; else a parameter of the query.
struct Field {
  std::string_view name, about;
  enum class Kind : std::uint8_t { whole, text, words } kind = Kind::text;
  std::vector<std::string_view> words = {};  // of Kind::words
  bool required = false;
  bool of_path = false;
  long least = 0;  // of Kind::whole
  long most = std::numeric_limits<long>::max();
};

// What came in for a request: the part of the path, and the body.
struct Given {
  std::string part = {}, body = {};
};

// A command that is this operation and nothing else: `partita --server URL batch pause 3`.
struct CommandView {
  std::string_view words = {};       // "batch pause"; empty: no command is it alone
  std::string_view positional = {};  // of the path's field: "BATCH"
  std::string_view example = {};     // behind `partita --server URL`
};

struct Operation {
  std::string_view name;  // operationId, and the method in Python
  Verb verb;
  std::string_view path;  // "/v1/changes/{number}/approve"
  Role role;
  std::string_view about;    // a sentence
  std::string_view request;  // schema of the body: a name of OpenAPI's components, a media type: a
                             // file as text; empty: none
  std::string_view answer;   // schema, or a media type with a slash
  int status = 200;          // of success
  std::vector<Field> inputs = {};
  // What it asks of the loop; null: it is answered at once, or by a preview.
  Result<control::Request> (*ask)(Given given) = nullptr;
  CommandView command = {};

  const Field* path_field() const;  // null: the path has no {part}
  const Field* query_field(std::string_view name) const;
};

std::span<const Operation> operations();
// The operation of that name; there is one.
const Operation& operation(std::string_view name);

inline constexpr std::size_t kMaxPartBytes = 256;

// An operation that a path means, with what stood for its {part}.
struct Matched {
  const Operation* operation = nullptr;
  std::string part = {};  // decoded
};
// The operation; or null, with the methods that the path would take (none: no such path).
struct Lookup {
  std::optional<Matched> found = {};
  std::vector<Verb> others = {};
};
Lookup find_operation(std::string_view verb, std::string_view path);

}  // namespace partita::api
