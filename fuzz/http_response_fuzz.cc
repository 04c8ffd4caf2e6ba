// Answers of HTTP servers: the same in one piece and in two, never more body than allowed.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "serve/worker/http_response.h"

namespace {

using partita::serve::HttpResponseReader;
constexpr std::uint64_t kMost = 256;

std::string told(std::string_view first, std::string_view second) {
  HttpResponseReader reader(kMost);
  for (const std::string_view part : {first, second}) {
    if (const auto fed = reader.feed(part); !fed) return "refused";
    CHECK(reader.body().size() <= kMost);
  }
  if (!reader.done() && !reader.end_of_stream()) return "refused";
  CHECK(reader.status() >= 200 && reader.status() < 600);
  CHECK(reader.header("content-type").find('\n') == std::string_view::npos);
  return std::to_string(reader.status()) + reader.body();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string whole = told(text, "");
  for (std::size_t cut = 1; cut < size; cut += 1 + (size / 16)) {
    CHECK(told(text.substr(0, cut), text.substr(cut)) == whole);
  }
  return 0;
}
