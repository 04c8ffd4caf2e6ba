#include "api/page.h"

#include <algorithm>
#include <array>

namespace partita::api {
namespace {

constexpr std::array<HeaderField, 5> kHeaders{{
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cache-Control", "no-cache"},
}};

}  // namespace

std::span<const HeaderField> page_headers() { return kHeaders; }

std::optional<PageFile> page_file(std::string_view path) {
  if (path == "/index.html") path = "/";
  const auto files = page_files();
  const auto found = std::ranges::lower_bound(files, path, {}, &PageFile::path);
  if (found == files.end() || found->path != path) return {};
  return *found;
}

}  // namespace partita::api
