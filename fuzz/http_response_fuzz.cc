// Responses of HTTP/1.x: whatever the pieces they come in, the same is read, within the limits; and
// what is read of URLs and model metadata. The first byte says how long the pieces are.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/url.h"
#include "base/http/http_response.h"
#include "serve/load/model_inputs.h"
#include "target.h"

namespace {

using partita::serve::HttpResponse;
constexpr std::uint64_t kMost = 256;

HttpResponse read_all(std::string_view text, std::size_t piece) {
  HttpResponse response(kMost);
  while (!text.empty() && response.state() < HttpResponse::State::done) {
    const std::size_t used = response.take({text.data(), std::min(piece, text.size())});
    CHECK(used <= text.size() && (used > 0 || response.state() >= HttpResponse::State::done));
    text.remove_prefix(used);
  }
  response.end();
  CHECK(response.state() >= HttpResponse::State::done);
  CHECK(response.body().size() <= kMost);
  CHECK(response.header("content-type").find('\n') == std::string_view::npos);
  return response;
}

}  // namespace

FUZZ_TARGET(http_response) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const HttpResponse whole = read_all(text, text.size() + 1);
  const HttpResponse pieces = read_all(text, std::size_t{data[0]} + 1);
  CHECK(whole.state() == pieces.state());
  if (whole.done()) {
    CHECK(whole.status() == pieces.status() && whole.body() == pieces.body());
    CHECK(whole.keeps_alive() == pieces.keeps_alive());
    CHECK(whole.header("server") == pieces.header("server"));
  }
  const auto inputs = partita::serve::parse_model_inputs("fuzz", text);
  CHECK(inputs || inputs.error().context.starts_with("fuzz"));
  const auto url = partita::parse_url("fuzz", text);
  CHECK(!url || partita::authority_of(*url).find('\n') == std::string::npos);
  return 0;
}
