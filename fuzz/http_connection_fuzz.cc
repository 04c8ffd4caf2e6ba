// A client that sends anything, cut anywhere, to a connection of the HTTP door: the server says
// what it says in HTTP.
#include "http_talk.h"
#include "target.h"

FUZZ_TARGET(http_connection) {
  namespace serve = partita::serve;
  namespace fuzz = partita::fuzz;
  static const auto loop = [] {
    auto made = serve::Loop::make().value();
    fuzz::FakeBackend none;  // a fuzzer of a server that does not answer finds nothing
    const std::string live = "GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";
    CHECK(fuzz::talk(*made, none, live, ' ', 1).starts_with("HTTP/1.1 200 "));
    return made;
  }();
  fuzz::FakeBackend backend;
  fuzz::add_models(backend);
  // The first byte says how the rest is cut.
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::uint8_t pattern = size > 0 ? data[0] : 0;
  text.remove_prefix(std::min<std::size_t>(1, size));
  const bool http2 = text.find("PRI * HTTP/2.0") != std::string_view::npos;
  const std::string answer = fuzz::talk(*loop, backend, text, pattern, http2 ? 128 : 1);
  CHECK(http2 || answer.empty() || answer.starts_with("HTTP/1.1 "));
  CHECK(backend.requests.empty());
  return 0;
}
