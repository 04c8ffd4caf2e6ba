#include "api/openapi.h"

#include <map>
#include <vector>

#include "api/documents.h"
#include "api/operations.h"
#include "base/form.h"

namespace partita::api {

namespace {

// What a call may be refused with, besides what all may.
std::vector<int> refusals_of(const Operation& call) {
  std::vector<int> all = {400, 403, 429};
  if (call.role != Role::open) all.insert(all.begin() + 1, 401);
  if (call.path_field() != nullptr || call.name == "plan" || call.name == "current_change")
    all.push_back(404);
  if (!call.request.empty()) all.push_back(413);
  if (call.verb != Verb::get) all.insert(all.end(), {409, 500, 504});
  if (call.verb == Verb::get && call.role != Role::open) all.push_back(500);
  all.push_back(503);
  return all;
}

bool is_media_type(std::string_view name) { return name.find('/') != std::string_view::npos; }

void content(Form& f, std::string_view name) {
  f.told_object("content", [&](Form& types) {
    const bool file = is_media_type(name);
    types.told_object(file ? name : "application/json", [&](Form& type) {
      type.told_object("schema", [&](Form& schema) {
        if (file) schema.told("type", name == "application/json" ? "object" : "string");
        if (!file) schema.told("$ref", "#/components/schemas/" + std::string(name));
      });
    });
  });
}

struct Input {
  std::string_view name, in, about;
  bool required = true;
  std::optional<long> least = {}, most = {};  // of a whole number
  std::vector<std::string_view> words = {};
};

std::vector<Input> inputs_of(const Operation& call) {
  std::vector<Input> all;
  for (const Field& one : call.inputs)
    all.push_back({one.name, one.of_path ? "path" : "query", one.about, one.required,
                   one.kind == Field::Kind::whole ? std::optional(one.least) : std::nullopt,
                   one.most < Field{}.most ? std::optional(one.most) : std::nullopt, one.words});
  return all;
}

void parameter(Form& f, const Input& one) {
  f.told("name", one.name);
  f.told("in", one.in);
  f.told("required", one.required);
  f.told("description", one.about);
  f.told_object("schema", [&](Form& schema) {
    if (!one.words.empty()) return schema.told("enum", one.words);
    schema.told("type", one.least ? "integer" : "string");
    schema.told(one.least ? "minimum" : "minLength", one.least.value_or(1));
    if (one.most) schema.told("maximum", *one.most);
  });
}

void responses(Form& f, const Operation& call) {
  f.told_object(std::to_string(call.status), [&](Form& answer) {
    answer.told("description", call.about);
    content(answer, call.answer);
  });
  if (call.name == "state")
    f.told_object("304", [](Form& same) { same.told("description", "as you know it"); });
  for (const int status : refusals_of(call))
    f.line("        ").told_object(std::to_string(status), [](Form& refused) {
      refused.told("$ref", "#/components/responses/Refused");
    });
}

void describe(Form& f, const Operation& call) {
  const std::vector<Input> inputs = inputs_of(call);
  f.told("operationId", call.name);
  f.told("summary", call.about);
  f.told("x-role", to_string(call.role));
  f.line("      ").rows("parameters", inputs.size(),
                        [&](Form& row, std::size_t i) { parameter(row, inputs[i]); }, {});
  const std::string_view ways[] = {"token", "certificate", ""};
  f.line("      ").rows("security", call.role == Role::open ? 0 : std::size(ways),
                        [&](Form& way, std::size_t i) {
                          if (!ways[i].empty()) way.told(ways[i], std::vector<std::string>());
                        },
                        {});
  if (!call.request.empty())
    f.line("      ").told_object("requestBody", [&](Form& body) {
      body.told("required", call.request != "Why");
      content(body, call.request);
    });
  f.line("      ").told_object("responses", [&](Form& all) { responses(all, call); });
}

void shared_parts(Form& f) {
  f.told_object("securitySchemes", [](Form& schemes) {
    schemes.told_object("token", [](Form& token) {
      token.told("type", "http");
      token.told("scheme", "bearer");
    });
    schemes.told_object("certificate", [](Form& tls) { tls.told("type", "mutualTLS"); });
  });
  f.line("").told_object("responses", [](Form& all) {
    all.told_object("Refused", [](Form& refused) {
      refused.told("description", "why not");
      content(refused, "ApiError");
    });
  });
  f.line("").told_object("schemas", [](Form& schemas) {
    for (const Component& component : components())
      form::embedded(schemas.line(""), component.name, component.schema);
  });
}

}  // namespace

std::string openapi_json(const std::string& version) {
  std::map<std::string_view, std::vector<const Operation*>> paths;
  for (const Operation& call : operations()) paths[call.path].push_back(&call);
  const auto path = [](Form& f, const std::vector<const Operation*>& all) {
    for (const Operation* call : all) {
      std::string verb = to_string(call->verb);
      for (char& c : verb) c = static_cast<char>(c | 0x20);
      f.line("    ").told_object(verb, [&](Form& one) { describe(one, *call); });
    }
  };
  return write_form([&](Form& f) {
    f.told("openapi", "3.1.0");
    f.line("").told_object("info", [&](Form& info) {
      info.told("title", "Partita agent");
      info.told("version", version.empty() ? "partita" : version);
      info.told("description", "The agent of a node with split GPUs");
    });
    f.line("").told_object("paths", [&](Form& all) {
      for (const auto& [name, verbs] : paths)
        all.line("  ").told_object(name, [&](Form& one) { path(one, verbs); });
    });
    f.line("").told_object("components", shared_parts);
  });
}

}  // namespace partita::api
