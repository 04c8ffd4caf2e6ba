// What the gateway must know of a request in OpenAI's form, read without a document, and the body
// that the engine behind gets: the client's own, but for the model's name and, in a stream, for
// being told how many tokens there were. Views point into the body. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace partita::serve {

struct OpenaiRequest {
  std::string model = {};
  std::string_view model_text = {};  // as it stands in the body, with its quotes
  bool stream = false;
  bool usage_asked = false;      // of the stream, by its client
  bool stream_options = false;   // says some
  std::string_view prompt = {};  // the JSON of messages, prompt or input
  std::string_view tools = {};   // the JSON of tools
  double most_tokens = 0;        // of its answers, all together; 0: it does not say
  std::string_view object = {};  // the body from its '{'
};

// bad_input: no JSON object, "model" missing or twice, or a known key with a value of another type.
Result<OpenaiRequest> parse_openai_request(std::string_view body);

// Whether the engine is told to say usage although the client did not ask: the event that says it
// is then kept back.
bool adds_usage(const OpenaiRequest& request);

// The body for an engine that calls the model so.
std::string engine_body(const OpenaiRequest& request, std::string_view model);

}  // namespace partita::serve
