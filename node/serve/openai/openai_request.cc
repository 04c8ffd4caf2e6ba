#include "serve/openai/openai_request.h"

#include <algorithm>
#include <optional>

#include "serve/oip/json_scan.h"

namespace partita::serve {
namespace {

constexpr double kMostCounted = 1e9;

struct Bounds {
  std::optional<double> completion = {}, tokens = {}, answers = {};
};

bool true_or_null(JsonScan& scan) {
  if (scan.peek() != 'n') return scan.boolean();
  scan.skip();
  return false;
}

void read_stream_options(JsonScan& scan, OpenaiRequest& request) {
  request.stream_options = true;
  if (scan.peek() == 'n') {
    scan.skip();
    return;
  }
  scan.object([&](const std::string& key) {
    if (key == "include_usage")
      request.usage_asked = true_or_null(scan);
    else
      scan.skip();
  });
}

// A count; what is none is for the engine to refuse.
std::optional<double> count_or_skip(JsonScan& scan) {
  const char first = scan.peek();
  if (first >= '0' && first <= '9') return std::min(scan.number(), kMostCounted);
  scan.skip();
  return std::nullopt;
}

// Reads one value of those that bound an answer; false: the key is another.
bool read_bound(JsonScan& scan, const std::string& key, Bounds& bounds) {
  std::optional<double> Bounds::*const bound = key == "max_completion_tokens" ? &Bounds::completion
                                               : key == "max_tokens"          ? &Bounds::tokens
                                               : key == "n"                   ? &Bounds::answers
                                                                              : nullptr;
  if (bound == nullptr) return false;
  bounds.*bound = count_or_skip(scan);
  return true;
}

}  // namespace

Result<OpenaiRequest> parse_openai_request(std::string_view body) {
  OpenaiRequest request;
  Bounds bounds;
  JsonScan scan(body);
  scan.object([&](const std::string& key) {
    if (key == "model") {
      if (!request.model_text.empty()) scan.fail("\"model\" is said twice");
      if (scan.peek() != '"') scan.fail("\"model\" is to name the service");
      request.model_text = scan.skip();
      request.model = JsonScan(request.model_text).string();
    } else if (key == "stream") {
      request.stream = true_or_null(scan);
    } else if (key == "stream_options") {
      read_stream_options(scan, request);
    } else if (key == "messages" || key == "prompt" || key == "input") {
      request.prompt = scan.skip();
    } else if (key == "tools") {
      request.tools = scan.skip();
    } else if (!read_bound(scan, key, bounds)) {
      scan.skip();
    }
  });
  scan.end();
  const double each = bounds.completion.value_or(bounds.tokens.value_or(0));
  request.most_tokens = each * std::max(1.0, bounds.answers.value_or(1));
  if (!scan.ok()) return bad_input("", "request JSON: " + scan.error());
  if (request.model.empty()) return bad_input("", "request JSON: \"model\" is to name the service");
  request.object = body.substr(body.find('{'));
  return request;
}

bool adds_usage(const OpenaiRequest& request) { return request.stream && !request.stream_options; }

std::string engine_body(const OpenaiRequest& request, std::string_view model) {
  const std::string_view body = request.object;
  const auto name = static_cast<std::size_t>(request.model_text.data() - body.data());
  std::string out;
  out.reserve(body.size() + model.size() + 64);
  out += '{';
  if (adds_usage(request)) out += R"("stream_options":{"include_usage":true},)";
  out += body.substr(1, name - 1);
  append_json_string(out, model);
  out += body.substr(name + request.model_text.size());
  return out;
}

}  // namespace partita::serve
