// The head of an HTTP request: what a door looks at, as views into the buffer that holds it. Those
// of HTTP/1.1 are parsed by Boost.Beast, which only this source includes. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace partita::serve {

inline constexpr std::size_t kMaxHeadBytes = 16'384;

enum class Method : std::uint8_t { get, head, post, put, other };

struct HttpHead {
  Method method = Method::other;
  std::string_view method_name, target;
  bool http10 = false;
  bool keep_alive = true;
  bool expect_continue = false;
  bool transfer_encoding = false;  // some is named;
  // and it is chunked alone. Over HTTP/2: a body comes, and nobody has said how long it is.
  bool chunked = false;
  std::optional<std::uint64_t> content_length = {};
  std::optional<std::uint64_t> json_bytes = {};  // Inference-Header-Content-Length
  std::optional<std::string_view> timeout_ms = {}, priority = {}, idempotent = {};
  std::optional<std::string_view> grpc_timeout = {};
  std::string_view authorization = {}, content_encoding = {};
  std::string_view trace_parent = {};  // said once; twice counts as not at all
  std::string trace_state = {};        // all of its headers, as one list
  // Of gateways of one fleet: who hands it over, and for whom.
  std::string_view handed_over = {}, handed_for = {};
  // Of browsers and of clients with a memory.
  std::string_view host = {}, origin = {}, fetch_site = {}, content_type = {};
  std::string_view if_none_match = {}, accept_encoding = {}, last_event_id = {};
};

// Where the head that begins the text ends, behind its empty line; npos: not yet. `from` is how
// much was looked at before.
std::size_t end_of_head(std::string_view text, std::size_t from);

// `text` is a head with its empty line. bad_input says what is wrong with it.
Result<HttpHead> parse_http_head(std::string_view text);

struct HeadField {
  std::string_view name, value;
};
// Of a request over HTTP/2, pseudo headers first, as its session has checked them; `body`: one
// follows. bad_input as parse_http_head().
Result<HttpHead> http2_head(std::span<const HeadField> fields, bool body);

// A path's part with its %XX resolved; nothing when one is broken.
std::optional<std::string> percent_decoded(std::string_view text);

}  // namespace partita::serve
