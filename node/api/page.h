// The web page, linked into the program: the files of web/, compressed when it was built. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace partita::api {

struct PageFile {
  std::string_view path;  // "/", "/page.css", "/js/main.js"
  std::string_view content_type;
  std::string_view etag;  // with its quotes
  std::string_view gzip;  // the body, packed
};
inline constexpr std::size_t kMostOfPageFile = 1u << 20;  // unpacked

// Header fields that go with every file of the page: no script but its own files, nothing from
// elsewhere, no frames around it; asked again by ETag.
struct HeaderField {
  std::string_view name, value;
};
std::span<const HeaderField> page_headers();

// The file at that path ("/" is the page itself), without a query; none of ours: empty.
std::optional<PageFile> page_file(std::string_view path);
std::span<const PageFile> page_files();  // by path

}  // namespace partita::api
