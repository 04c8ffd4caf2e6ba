// Answers of HTTP/1.x: whatever the pieces they come in, the same is read, within the limits. The
// first byte says how long the pieces are.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "serve/load/http_answer.h"
#include "serve/load/model_inputs.h"
#include "serve/load/target_url.h"

namespace {

using partita::serve::HttpAnswer;

HttpAnswer read_all(std::string_view text, std::size_t piece) {
  HttpAnswer answer;
  answer.restart(true);
  while (!text.empty() && answer.state() < HttpAnswer::State::done) {
    const std::size_t used = answer.take({text.data(), std::min(piece, text.size())});
    CHECK(used <= text.size() && (used > 0 || answer.state() >= HttpAnswer::State::done));
    text.remove_prefix(used);
  }
  answer.end();
  CHECK(answer.state() >= HttpAnswer::State::done);
  CHECK(answer.body().size() <= partita::serve::kMaxKeptBody);
  return answer;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const HttpAnswer whole = read_all(text, text.size() + 1);
  const HttpAnswer pieces = read_all(text, std::size_t{data[0]} + 1);
  CHECK(whole.state() == pieces.state());
  if (whole.state() == HttpAnswer::State::done) {
    CHECK(whole.status() == pieces.status() && whole.body() == pieces.body());
    CHECK(whole.keeps_alive() == pieces.keeps_alive());
  }
  const auto inputs = partita::serve::parse_model_inputs("fuzz", text);
  CHECK(inputs || inputs.error().context.starts_with("fuzz"));
  const auto url = partita::serve::parse_target_url("fuzz", std::string(text));
  CHECK(!url || partita::serve::authority_of(*url).find('\n') == std::string::npos);
  return 0;
}
