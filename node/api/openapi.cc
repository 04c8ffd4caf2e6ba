#include "api/openapi.h"

#include <map>
#include <vector>

#include "api/operations.h"
#include "api/documents.h"
#include "base/json_writer.h"

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

void content(JsonWriter& out, std::string_view name) {
  out.raw("\"content\": {");
  if (is_media_type(name)) {
    out.string(name).raw(": {\"schema\": {\"type\": ");
    out.raw(name == "application/json" ? "\"object\"" : "\"string\"").raw("}}}");
    return;
  }
  out.raw("\"application/json\": {\"schema\": {\"$ref\": ")
      .string("#/components/schemas/" + std::string(name))
      .raw("}}}");
}

void parameter(JsonWriter& out, std::string_view name, std::string_view in, std::string_view about,
               bool required) {
  out.raw("{\"name\": ").string(name).raw(", \"in\": ").string(in).raw(", \"required\": ");
  out.boolean(required).raw(", \"description\": ").string(about).raw(", \"schema\": ");
}

void parameters(JsonWriter& out, const Operation& call) {
  out.raw("\"parameters\": [");
  bool first = true;
  const auto next = [&] {
    if (!first) out.raw(", ");
    first = false;
  };
  for (const Field& one : call.inputs) {
    next();
    parameter(out, one.name, one.of_path ? "path" : "query", one.about, one.required);
    if (one.kind == Field::Kind::whole)
      out.raw("{\"type\": \"integer\", \"minimum\": ").number(one.least).raw("}}");
    if (one.kind == Field::Kind::text) out.raw("{\"type\": \"string\", \"minLength\": 1}}");
    if (one.kind != Field::Kind::words) continue;
    out.raw("{\"enum\": [");
    for (std::size_t i = 0; i < one.words.size(); ++i)
      out.raw(i == 0 ? "" : ", ").string(one.words[i]);
    out.raw("]}}");
  }
  out.raw("]");
}

void describe(JsonWriter& out, const Operation& call) {
  std::string verb = to_string(call.verb);
  for (char& c : verb) c = static_cast<char>(c | 0x20);
  out.string(verb).raw(": {\"operationId\": ").string(call.name);
  out.raw(", \"summary\": ").string(call.about);
  out.raw(", \"x-role\": ").string(to_string(call.role)).raw(",\n      ");
  parameters(out, call);
  out.raw(",\n      \"security\": ")
      .raw(call.role == Role::open ? "[]" : "[{\"token\": []}, {\"certificate\": []}, {}]");
  if (!call.request.empty()) {
    out.raw(",\n      \"requestBody\": {\"required\": ").boolean(call.request != "Why").raw(", ");
    content(out, call.request);
    out.raw("}");
  }
  out.raw(",\n      \"responses\": {\"").number(static_cast<long>(call.status));
  out.raw("\": {\"description\": ").string(call.about).raw(", ");
  content(out, call.answer);
  out.raw("}");
  if (call.name == "state") out.raw(", \"304\": {\"description\": \"as you know it\"}");
  for (const int status : refusals_of(call)) {
    out.raw(",\n        \"").number(static_cast<long>(status));
    out.raw("\": {\"$ref\": \"#/components/responses/Refused\"}");
  }
  out.raw("}}");
}

}  // namespace

std::string openapi_json(const std::string& version) {
  std::map<std::string_view, std::vector<const Operation*>> paths;
  for (const Operation& call : operations()) paths[call.path].push_back(&call);
  JsonWriter out;
  out.raw("{\"openapi\": \"3.1.0\",\n\"info\": {\"title\": \"Partita agent\", \"version\": ")
      .string(version.empty() ? "partita" : version);
  out.raw(", \"description\": \"The agent of a node with split GPUs\"},\n\"paths\": {");
  bool first_path = true;
  for (const auto& [path, all] : paths) {
    out.raw(first_path ? "\n  " : ",\n  ").string(path).raw(": {");
    first_path = false;
    for (const Operation* call : all) {
      if (call != all.front()) out.raw(",");
      out.raw("\n    ");
      describe(out, *call);
    }
    out.raw("}");
  }
  out.raw("},\n\"components\": {\"securitySchemes\": {\"token\": {\"type\": \"http\", ");
  out.raw(
      "\"scheme\": \"bearer\"}, \"certificate\": {\"type\": \"mutualTLS\"}},\n\"responses\": "
      "{\"Refused\": {\"description\": ");
  out.raw("\"why not\", ");
  content(out, "ApiError");
  out.raw("}},\n\"schemas\": {");
  bool first = true;
  for (const Component& component : components()) {
    out.raw(first ? "\n" : ",\n").string(component.name).raw(": ").raw(component.schema);
    first = false;
  }
  return out.raw("}}}\n").take();
}

}  // namespace partita::api
