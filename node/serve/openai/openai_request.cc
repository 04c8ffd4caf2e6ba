#include "serve/openai/openai_request.h"

#include <algorithm>
#include <optional>

#include "serve/oip/json_scan.h"

namespace partita::serve {
namespace {

constexpr double kMostCounted = 1e9;

struct Bounds {
  std::optional<double> completion = {}, tokens = {}, answers = {}, best_of = {};
};

bool true_or_null(JsonScan& scan) {
  if (scan.peek() != 'n') return scan.boolean();
  scan.skip();
  return false;
}

void read_stream_options(JsonScan& scan, OpenaiRequest& request) {
  if (!request.stream_options.empty()) scan.fail("\"stream_options\" is said twice");
  if (scan.peek() != 'n' && scan.peek() != '{')
    scan.fail("\"stream_options\" is to be an object");
  request.stream_options = scan.skip();
  JsonScan options(request.stream_options);
  if (options.peek() == 'n') return;
  options.object([&](const std::string& key) {
    if (key == "include_usage")
      request.usage_asked = true_or_null(options);
    else
      options.skip();
  });
  if (!options.ok()) scan.fail(options.error());
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
                                               : key == "best_of"             ? &Bounds::best_of
                                                                              : nullptr;
  if (bound == nullptr) return false;
  bounds.*bound = count_or_skip(scan);
  return true;
}

// What a part of a message holds that is no text, as engines call it.
constexpr std::string_view kMedia[] = {"image_url", "input_audio", "audio_url", "video_url",
                                       "image",     "input_image", "file",      "image_embeds"};

struct Media {
  int count = 0;
  std::size_t bytes = 0;
};

void read_part(JsonScan& scan, Media& media) {
  if (scan.peek() != '{') {
    scan.skip();
    return;
  }
  scan.object([&](std::string_view key) {
    const bool text = std::ranges::find(kMedia, key) == std::end(kMedia);
    const std::size_t bytes = scan.skip().size();
    if (text) return;
    ++media.count;
    media.bytes += bytes;
  });
}

// In the parts of messages. What has another form is for the engine to refuse.
Media media_in(std::string_view prompt) {
  Media media;
  JsonScan scan(prompt);
  if (scan.peek() != '[') return media;
  scan.array([&] {
    if (scan.peek() != '{') {
      scan.skip();
      return;
    }
    scan.object([&](std::string_view key) {
      if (key == "content" && scan.peek() == '[')
        scan.array([&] { read_part(scan, media); });
      else
        scan.skip();
    });
  });
  return media;
}

// Of a list of texts, or of lists of tokens, each is one.
double prompts_in(std::string_view prompt) {
  double count = 0;
  JsonScan scan(prompt);
  if (scan.peek() != '[') return 1;
  scan.array([&] {
    count += scan.peek() == '"' || scan.peek() == '[';
    scan.skip();
  });
  return std::max(count, 1.0);
}

// The client's own, but that usage is said; with each token only to who asked for it.
std::string options_with_usage(std::string_view said) {
  std::string out = R"({"include_usage":true)";
  JsonScan scan(said);
  if (scan.peek() == '{')
    scan.object([&](const std::string& key) {
      const std::string_view value = scan.skip();
      if (key == "include_usage" || key == "continuous_usage_stats") return;
      out += ',';
      append_json_string(out, key);
      out += ':';
      out += value;
    });
  return out + '}';
}

}  // namespace

Result<OpenaiRequest> parse_openai_request(std::string_view body) {
  OpenaiRequest request;
  Bounds bounds;
  double prompts = 1;
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
      prompts = key == "prompt" ? prompts_in(request.prompt) : 1;
    } else if (key == "tools") {
      request.tools = scan.skip();
    } else if (!read_bound(scan, key, bounds)) {
      scan.skip();
    }
  });
  scan.end();
  const Media media = media_in(request.prompt);
  request.media = media.count;
  request.text_bytes = request.prompt.size() + request.tools.size() - media.bytes;
  const double answers = std::max(bounds.answers.value_or(1), 1.0);
  request.answers = static_cast<int>(
      std::min(std::min(answers, double{kMostAnswers}) * prompts, double{kMostChoices}));
  request.sequences =
      std::min(std::max(answers, bounds.best_of.value_or(1)) * prompts, kMostCounted);
  const double each = bounds.completion.value_or(bounds.tokens.value_or(0));
  request.most_tokens = std::min(each * request.sequences, kMostCounted);
  if (!scan.ok()) return bad_input("", "request JSON: " + scan.error());
  if (request.model.empty()) return bad_input("", "request JSON: \"model\" is to name the service");
  request.object = body.substr(body.find('{'));
  return request;
}

double guessed_prompt_tokens(const OpenaiRequest& request, double bytes_per_token) {
  return static_cast<double>(request.text_bytes) / bytes_per_token +
         double{kMediaTokens} * request.media;
}

double most_answered(const OpenaiRequest& request, double usual) {
  return request.most_tokens > 0 ? request.most_tokens
                                 : std::min(usual * request.sequences, kMostCounted);
}

bool adds_usage(const OpenaiRequest& request) { return request.stream && !request.usage_asked; }

std::string engine_body(const OpenaiRequest& request, std::string_view model) {
  const std::string_view body = request.object;
  std::string out;
  out.reserve(body.size() + model.size() + 64);
  out += '{';
  std::size_t done = 1;  // bytes of the body that are in it
  const auto in_place_of = [&](std::string_view text, const auto& write) {
    const auto at = static_cast<std::size_t>(text.data() - body.data());
    out += body.substr(done, at - done);
    write();
    done = at + text.size();
  };
  const auto name = [&] {
    in_place_of(request.model_text, [&] { append_json_string(out, model); });
  };
  const auto options = [&] {
    in_place_of(request.stream_options,
                [&] { out += options_with_usage(request.stream_options); });
  };
  const bool adds = adds_usage(request),
             first = request.stream_options.data() < request.model_text.data();
  if (adds && request.stream_options.empty()) out += R"("stream_options":{"include_usage":true},)";
  const bool rewrites = adds && !request.stream_options.empty();
  if (rewrites && first) options();
  name();
  if (rewrites && !first) options();
  out += body.substr(done);
  return out;
}

}  // namespace partita::serve
