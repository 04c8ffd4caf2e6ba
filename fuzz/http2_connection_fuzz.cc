// A client that sends any frames behind the preface of HTTP/2, cut anywhere: what the server says
// is frames, the first of them its settings.
#include "http_talk.h"
#include "target.h"

namespace {

std::string frame(std::uint8_t kind, std::uint8_t flags, std::uint8_t stream,
                  std::string_view content) {
  std::string bytes;
  for (const int shift : {16, 8, 0}) bytes += static_cast<char>(content.size() >> shift);
  bytes += static_cast<char>(kind);
  bytes += static_cast<char>(flags);
  bytes.append(3, '\0');
  bytes += static_cast<char>(stream);
  return bytes.append(content);
}

// Of anything: the kind of a frame, its flags, its stream, its length, its content; and so on. A
// kind from 128 on: the rest as it is.
std::string said(std::string_view input) {
  std::string bytes(partita::serve::kHttp2Preface);
  bytes += frame(4, 0, 0, "");
  while (input.size() >= 4) {
    const auto at = [&](std::size_t i) { return static_cast<std::uint8_t>(input[i]); };
    if (at(0) >= 128) return bytes.append(input.substr(1));
    const std::string_view content = input.substr(4, at(3));
    bytes += frame(at(0) % 11, at(1), at(2), content);
    input.remove_prefix(4 + content.size());
  }
  return bytes;
}

void check_frames(std::string_view answer) {
  CHECK(answer.size() >= 9 && answer[3] == 4);
  while (answer.size() >= 9) {
    const auto at = [&](std::size_t i) { return static_cast<unsigned char>(answer[i]); };
    const std::size_t length = at(0) << 16 | at(1) << 8 | at(2);
    CHECK(length <= 16'384 && at(3) <= 9);
    answer.remove_prefix(std::min(answer.size(), 9 + length));
  }
}

}  // namespace

FUZZ_TARGET(http2_connection) {
  namespace serve = partita::serve;
  namespace fuzz = partita::fuzz;
  static const auto loop = serve::Loop::make().value();
  static const bool answers = [] {  // a fuzzer of a server that does not answer finds nothing
    fuzz::FakeBackend none;
    const std::string get("\x01\x05\x01\x16\x82\x86\x41\x01h\x44\x0f/v2/health/live");
    const std::string heard = fuzz::talk(*loop, none, said(get), 0, 1);
    return heard.find('\x88') != std::string::npos;  // :status 200
  }();
  CHECK(answers);
  fuzz::FakeBackend backend;
  fuzz::add_models(backend);
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::uint8_t pattern = size > 0 ? data[0] : 0;
  check_frames(
      fuzz::talk(*loop, backend, said(input.substr(std::min<std::size_t>(1, size))), pattern, 128));
  CHECK(backend.requests.empty());
  return 0;
}
