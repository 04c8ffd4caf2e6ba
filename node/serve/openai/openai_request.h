// What the gateway must know of a request in OpenAI's form, read without a document, and the body
// that the engine behind gets: the client's own, but for the model's name and, in a stream, for
// being told how many tokens there were. Views point into the body. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace partita::serve {

inline constexpr double kFirstBytesPerToken = 4;
inline constexpr int kMediaTokens = 1000;  // of a picture, about
inline constexpr int kMostAnswers = 128;   // of a prompt
inline constexpr int kMostChoices = 4096;  // that are told apart, of all its prompts

struct OpenaiRequest {
  std::string model = {};
  std::string_view model_text = {};  // as it stands in the body, with its quotes
  bool stream = false;
  bool usage_asked = false;              // of the stream, by its client
  std::string_view stream_options = {};  // their JSON; empty: it says none
  std::string_view prompt = {};          // the JSON of messages, prompt or input
  std::string_view tools = {};           // the JSON of tools
  std::size_t text_bytes = 0;            // of prompt and tools, without pictures and sounds
  int media = 0;                         // pictures and sounds in it, whose tokens nobody knows
  double most_tokens = 0;                // of its answers, all together; 0: it does not say
  int answers = 1;                       // choices: "n" of each of its prompts
  double sequences = 1;                  // that are computed: of each prompt "n" or "best_of"
  std::string_view object = {};          // the body from its '{'
};

// bad_input: no JSON object, "model" missing or twice, or a known key with a value of another type.
Result<OpenaiRequest> parse_openai_request(std::string_view body);

// Tokens of its prompt, guessed: of text by its bytes, of the rest by how many there are.
double guessed_prompt_tokens(const OpenaiRequest& request, double bytes_per_token);

// Tokens that its answers may come to, all together, where one usually has so many.
double most_answered(const OpenaiRequest& request, double usual);

// Whether the engine is told to say usage although the client did not ask, or asked not to: the
// event that says it is then kept back.
bool adds_usage(const OpenaiRequest& request);

// The body for an engine that calls the model so.
std::string engine_body(const OpenaiRequest& request, std::string_view model);

}  // namespace partita::serve
