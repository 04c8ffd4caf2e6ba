// The OpenAPI document against the implementation: every call that it lists is made with a request
// made from the document, and the answer is held against the schema that the document promises.
#include "api/openapi.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "api/operations.h"
#include "api/testing/server_fixture.h"

namespace partita::api {
namespace {

using nlohmann::json;
using test::RawCaller;

bool is_type(const json& value, const std::string& word) {
  if (word == "integer")
    return value.is_number_integer() ||
           (value.is_number() && value.get<double>() == std::floor(value.get<double>()));
  return (word == "number" && value.is_number()) || (word == "string" && value.is_string()) ||
         (word == "object" && value.is_object()) || (word == "array" && value.is_array()) ||
         (word == "boolean" && value.is_boolean()) || (word == "null" && value.is_null());
}

// Where a value does not fit a schema: JSON Schema 2020-12, as far as ours use it.
class SchemaCheck {
 public:
  explicit SchemaCheck(const json& document) : document_(document) {}
  std::string fault(const json& value, const json& schema, const std::string& path = "") const {
    static const std::set<std::string> kKnown = {"$schema",
                                                 "$ref",
                                                 "title",
                                                 "description",
                                                 "type",
                                                 "const",
                                                 "enum",
                                                 "minimum",
                                                 "maximum",
                                                 "exclusiveMinimum",
                                                 "exclusiveMaximum",
                                                 "minLength",
                                                 "minItems",
                                                 "maxItems",
                                                 "items",
                                                 "properties",
                                                 "required",
                                                 "additionalProperties"};
    for (const auto& [word, said] : schema.items())
      if (!kKnown.contains(word)) return path + ": the check does not know " + word;
    if (schema.contains("$ref"))
      return fault(value,
                   document_.at(json::json_pointer(schema["$ref"].get<std::string>().substr(1))),
                   path);
    json types = schema.value("type", json::array());
    if (types.is_string()) types = json::array({types});
    bool typed = types.empty();
    for (const json& word : types) typed = typed || is_type(value, word);
    if (!typed) return path + ": no " + types.dump() + ": " + value.dump().substr(0, 60);
    if (schema.contains("const") && schema["const"] != value) return path + ": another constant";
    if (schema.contains("enum") && std::ranges::find(schema["enum"], value) == schema["enum"].end())
      return path + ": another word";
    if (value.is_number()) return number_fault(value.get<double>(), schema, path);
    if (value.is_string() && value.get<std::string>().size() < schema.value("minLength", 0u))
      return path + ": too short";
    if (value.is_array()) return list_fault(value, schema, path);
    return value.is_object() ? object_fault(value, schema, path) : "";
  }

 private:
  static std::string number_fault(double value, const json& schema, const std::string& path) {
    const bool inside =
        value >= schema.value("minimum", value) && value <= schema.value("maximum", value) &&
        !(schema.contains("exclusiveMinimum") && value <= schema["exclusiveMinimum"]) &&
        !(schema.contains("exclusiveMaximum") && value >= schema["exclusiveMaximum"]);
    return inside ? "" : path + ": out of range";
  }
  std::string list_fault(const json& value, const json& schema, const std::string& path) const {
    if (value.size() < schema.value("minItems", 0u) ||
        value.size() > schema.value("maxItems", value.size()))
      return path + ": too many or few";
    if (!schema.contains("items")) return "";
    for (std::size_t i = 0; i < value.size(); ++i)
      if (auto found = fault(value[i], schema["items"], path + "/" + std::to_string(i));
          !found.empty())
        return found;
    return "";
  }
  std::string object_fault(const json& value, const json& schema, const std::string& path) const {
    const json properties = schema.value("properties", json::object());
    for (const json& key : schema.value("required", json::array()))
      if (!value.contains(key)) return path + ": no " + key.get<std::string>();
    for (const auto& [key, member] : value.items()) {
      if (!properties.contains(key)) {
        if (!schema.value("additionalProperties", true)) return path + ": unknown " + key;
        continue;
      }
      if (auto found = fault(member, properties[key], path + "/" + key); !found.empty())
        return found;
    }
    return "";
  }
  const json& document_;
};

// A value that fits a parameter's schema, and one that does not.
std::string fitting(const json& parameter) {
  const json& schema = parameter["schema"];
  if (schema.contains("enum")) return schema["enum"][0];
  if (schema["type"] == "integer") return parameter["in"] == "path" ? "3" : "1000";
  return parameter["in"] == "path" ? "GPU-1" : "watts";
}
std::string unfitting(const json& parameter) {
  return parameter["schema"].value("type", "") == "string" ? "" : "not%20it";
}

struct Operation {
  std::string verb, path;
  json says;
};

class OpenApiTest : public test::ServerFixture {
 protected:
  OpenApiTest() {
    start(with_tokens());
    document = json::parse(call("GET", "/v1/openapi.json").body);
    for (const auto& [path, verbs] : document["paths"].items())
      for (const auto& [verb, says] : verbs.items()) {
        std::string upper = verb;
        for (char& c : upper) c = static_cast<char>(c & ~0x20);
        all.push_back({upper, path, says});
      }
  }
  static std::string body_of(const Operation& one) {
    if (!one.says.contains("requestBody")) return "";
    const std::string type = one.says["requestBody"]["content"].begin().key();
    if (type == "text/csv") return "task,time_s_1g\na,1\n";
    if (type != "application/json") return "services: []\n";
    if (one.path == "/v1/plan") return R"({"kind": "ServingPlan"})";
    if (one.path == "/v1/leases") return R"({"owner": "claim:1", "profile": "1g.10gb"})";
    if (one.path == "/v1/queue/tasks") return test::kSubmission;
    return one.path == "/v1/mode" ? R"({"mode": "approve"})" : R"({"why": "because"})";
  }
  // The parameters that it cannot do without.
  static std::string needed(const Operation& one) {
    if (one.path == "/v1/series") return "?metric=watts";
    return one.path == "/v1/leases" && one.verb == "DELETE" ? "?owner=claim:1" : "";
  }
  // The request's target with parameters as `value` says; those of the path, too.
  template <class Value>
  static std::string target(const Operation& one, Value value) {
    std::string path = one.path, query;
    for (const json& parameter : one.says["parameters"]) {
      const std::string name = parameter["name"], said = value(parameter);
      if (parameter["in"] == "path")
        path.replace(path.find('{'), name.size() + 2, said);
      else
        query += (query.empty() ? "?" : "&") + name + "=" + said;
    }
    return path + query;
  }
  RawCaller::Answer make(const Operation& one, const std::string& where, const std::string& role,
                         const std::string& body) const {
    return call(one.verb, where, role.empty() ? "" : bearer(role), body);
  }
  // Whether the answer is one of those that the document promises for its status.
  std::string broken(const Operation& one, const RawCaller::Answer& answer) const {
    const json& responses = one.says["responses"];
    if (!responses.contains(std::to_string(answer.status)))
      return "status " + std::to_string(answer.status) + " is not documented: " + answer.body;
    json response = responses[std::to_string(answer.status)];
    if (response.contains("$ref"))
      response = document.at(json::json_pointer(response["$ref"].get<std::string>().substr(1)));
    const std::string type = response["content"].begin().key();
    if (!answer.header("Content-Type").starts_with(type))
      return "it is " + answer.header("Content-Type") + ", not " + type;
    if (type != "application/json") return "";
    const json body = json::parse(answer.body, nullptr, false);
    if (body.is_discarded()) return "no JSON: " + answer.body;
    return SchemaCheck(document).fault(body, response["content"][type]["schema"]);
  }
  json document;
  std::vector<Operation> all;
};

TEST_F(OpenApiTest, ItIsOfTheVersionAndListsEveryCallOnce) {
  EXPECT_EQ(document["openapi"], "3.1.0");
  EXPECT_EQ(document["info"]["version"], "partita 1.2.3");
  EXPECT_EQ(all.size(), operations().size());
  std::set<std::string> names;
  for (const Operation& one : all) EXPECT_TRUE(names.insert(one.says["operationId"]).second);
}

TEST_F(OpenApiTest, EveryReferenceLeadsSomewhere) {
  const std::string text = document.dump();
  const std::string mark = "\"$ref\":\"#";
  int found = 0;
  for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos; ++found) {
    at += mark.size();
    EXPECT_TRUE(document.contains(json::json_pointer(text.substr(at, text.find('"', at) - at))));
  }
  EXPECT_GT(found, 20);
}

TEST_F(OpenApiTest, ValidRequestsGetWhatTheDocumentPromises) {
  control::Snapshot full = test::fake_snapshot();
  full.last = test::fake_change(2);
  full.last->state = control::ChangeState::succeeded;
  agent.set(full);
  for (const Operation& one : all) {
    if (one.path == "/v1/events") continue;  // a stream: stream_test.cc
    for (const bool everything : {true, false}) {
      const std::string where =
          everything ? target(one, fitting)
                     : target(one, fitting).substr(0, target(one, fitting).find('?')) + needed(one);
      if (one.path == "/v1/history/{id}" && where.find("/3") != std::string::npos)
        agent.keep({.kind = history::EventKind::started, .user = "agent"});
      const auto answer = make(one, where, "admin", body_of(one));
      EXPECT_LT(answer.status, 300) << one.verb << " " << where << " " << answer.body;
      EXPECT_EQ(broken(one, answer), "") << one.verb << " " << where;
    }
  }
}

TEST_F(OpenApiTest, InvalidRequestsGetDocumentedErrors) {
  for (const Operation& one : all) {
    const std::string good = target(one, fitting);
    const auto refused = [&](const std::string& where, const std::string& role,
                             const std::string& body, int status) {
      const auto answer = make(one, where, role, body);
      EXPECT_EQ(answer.status, status) << one.verb << " " << where << " " << answer.body;
      EXPECT_EQ(broken(one, answer), "") << one.verb << " " << where;
    };
    if (one.says["x-role"] != "open") refused(good, "", body_of(one), 401);
    refused(one.path.find('{') == std::string::npos ? one.path + "?unknown=1" : good + "?unknown=1",
            "admin", body_of(one), 400);
    for (const json& parameter : one.says["parameters"]) {
      if (parameter["name"] == "uuid" || parameter["name"] == "node") continue;  // any text is one
      const std::string wrong = target(one, [&](const json& each) {
        return each["name"] == parameter["name"] ? unfitting(each) : fitting(each);
      });
      refused(wrong, "admin", body_of(one), 400);
    }
    if (!one.says.contains("requestBody")) continue;
    const bool needed = one.says["requestBody"]["required"];
    if (needed && one.path != "/v1/preview") refused(good, "admin", "", 400);
    if (one.says["requestBody"]["content"].contains("application/json"))
      refused(good, "admin", "{\"unknown\": 1}", 400);
  }
}

TEST_F(OpenApiTest, TheCheckItselfSeesWhatDoesNotFit) {
  const json health = json::parse(call("GET", "/v1/health").body);
  const json& schema = document["components"]["schemas"]["Health"];
  const SchemaCheck check(document);
  EXPECT_EQ(check.fault(health, schema), "");
  for (const auto& [key, value] : health.items()) {
    json other = health;
    other[key] = json::array({1});
    EXPECT_NE(check.fault(other, schema), "") << key;
    other.erase(key);
    EXPECT_NE(check.fault(other, schema), "") << key;
  }
}

}  // namespace
}  // namespace partita::api
