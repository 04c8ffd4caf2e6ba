#include "base/door/http_head.h"

#include "base/words.h"

#include <utility>
// asio of Boost 1.74 uses std::exchange without including it
#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <charconv>
#include <limits>
#include <system_error>

namespace partita::serve {

namespace {

namespace http = boost::beast::http;
using Code = boost::system::error_code;
using View = boost::beast::string_view;

std::string_view std_view(View text) { return {text.data(), text.size()}; }

bool is_length(std::string_view text, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

Method method_of(http::verb verb) {
  switch (verb) {
    case http::verb::get:
      return Method::get;
    case http::verb::post:
      return Method::post;
    case http::verb::head:
      return Method::head;
    case http::verb::put:
      return Method::put;
    default:
      return Method::other;
  }
}

// Takes the fields that matter.
struct Fields {
  HttpHead head = {};
  std::string_view fault = {};
  bool said_length = false;

  void take(http::field field, std::string_view name, std::string_view value) {
    switch (field) {
      case http::field::authorization:
        return once(head.authorization, value);
      case http::field::content_encoding:
        return once(head.content_encoding, value);
      case http::field::host:
        return once(head.host, value);
      case http::field::origin:
        return once(head.origin, value);
      case http::field::content_type:
        head.content_type = value;
        return;
      case http::field::if_none_match:
        head.if_none_match = value;
        return;
      case http::field::accept_encoding:
        head.accept_encoding = value;
        return;
      case http::field::content_length:
        said_length = true;
        return;
      case http::field::transfer_encoding:
        head.chunked = !head.transfer_encoding && same_word(value, "chunked");
        head.transfer_encoding = true;
        return;
      case http::field::expect:
        head.expect_continue = same_word(value, "100-continue");
        return;
      case http::field::unknown:
        break;
      default:
        return;
    }
    std::uint64_t number = 0;
    if (same_word(name, "inference-header-content-length")) {
      if (!is_length(value, number) || head.json_bytes)
        fault = "Inference-Header-Content-Length is not a length";
      head.json_bytes = number;
    } else if (same_word(name, "partita-timeout-ms")) {
      head.timeout_ms = value;
    } else if (same_word(name, "grpc-timeout")) {
      head.grpc_timeout = value;
    } else if (same_word(name, "partita-priority")) {
      head.priority = value;
    } else if (same_word(name, "partita-idempotent")) {
      head.idempotent = value;
    } else if (same_word(name, "partita-handed-over")) {
      once(head.handed_over, value);
    } else if (same_word(name, "partita-handed-for")) {
      once(head.handed_for, value);
    } else if (same_word(name, "traceparent")) {
      head.trace_parent = traced_ ? std::string_view() : value;
      traced_ = true;
    } else if (same_word(name, "tracestate")) {
      if (!head.trace_state.empty() && !value.empty()) head.trace_state += ',';
      head.trace_state += value;
    } else if (same_word(name, "sec-fetch-site")) {
      head.fetch_site = value;
    } else if (same_word(name, "last-event-id")) {
      head.last_event_id = value;
    }
  }

 private:
  void once(std::string_view& into, std::string_view value) {
    if (!into.empty()) fault = "a header that may come once came twice";
    into = value;
  }
  bool traced_ = false;
};

// Beast checks the grammar, lengths said twice, and the connection.
class Parser final : public http::basic_parser<true> {
 public:
  Parser() {
    header_limit(kMaxHeadBytes + 1);
    body_limit(std::numeric_limits<std::uint64_t>::max());  // the exchange decides
  }
  Fields fields = {};

 private:
  void on_request_impl(http::verb verb, View name, View target, int version, Code&) override {
    fields.head.method = method_of(verb);
    fields.head.method_name = std_view(name);
    fields.head.target = std_view(target);
    fields.head.http10 = version == 10;
  }
  void on_field_impl(http::field field, View name, View value, Code&) override {
    fields.take(field, std_view(name), std_view(value));
  }
  void on_header_impl(Code&) override {}
  void on_response_impl(int, View, int, Code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, Code&) override {}
  std::size_t on_body_impl(View, Code&) override { return 0; }
  void on_chunk_header_impl(std::uint64_t, View, Code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, View, Code&) override { return 0; }
  void on_finish_impl(Code&) override {}
};

}  // namespace

std::size_t end_of_head(std::string_view text, std::size_t from) {
  const std::size_t found = text.find("\r\n\r\n", from < 3 ? 0 : from - 3);
  return found == std::string_view::npos ? found : found + 4;
}

Result<HttpHead> parse_http_head(std::string_view text) {
  // RFC 9112, 5.2. Beast would put such a value together on its stack; views of it would dangle.
  if (text.find("\r\n ") != text.npos || text.find("\r\n\t") != text.npos)
    return bad_input("request head", "a header is folded over lines");
  Parser parser;
  Code error;
  parser.put(boost::asio::buffer(text.data(), text.size()), error);
  if (error && error != http::error::need_more) return bad_input("request head", error.message());
  if (!parser.is_header_done()) return bad_input("request head", "incomplete");
  if (!parser.fields.fault.empty())
    return bad_input("request head", std::string(parser.fields.fault));
  HttpHead head = std::move(parser.fields.head);
  const bool said_length = parser.fields.said_length;
  head.keep_alive = parser.keep_alive();
  if (const auto length = parser.content_length()) head.content_length = *length;
  // RFC 9112, 6.1: whoever is before us may have read another body than we would.
  if (head.transfer_encoding && (head.http10 || said_length))
    return bad_input("request head", "Transfer-Encoding beside Content-Length, or in HTTP/1.0");
  return head;
}

Result<HttpHead> http2_head(std::span<const HeadField> fields, bool body) {
  Fields found;
  std::string_view authority;
  for (const auto& [name, value] : fields) {
    if (name == ":method") {
      found.head.method = method_of(http::string_to_verb(View(value.data(), value.size())));
      found.head.method_name = value;
    } else if (name == ":path") {
      found.head.target = value;
    } else if (name == ":authority") {
      authority = value;
    } else if (!name.starts_with(':')) {
      const auto field = http::string_to_field(View(name.data(), name.size()));
      found.take(field, name, value);
      std::uint64_t length = 0;
      if (field != http::field::content_length) continue;
      if (!is_length(value, length))
        return bad_input("request head", "content-length is no length");
      found.head.content_length = length;
    }
  }
  if (!found.fault.empty()) return bad_input("request head", std::string(found.fault));
  if (!authority.empty()) found.head.host = authority;
  found.head.transfer_encoding = found.head.chunked = body && !found.said_length;
  return std::move(found.head);
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    unsigned code = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (error != std::errc() || digits.size() != 2 || end != digits.data() + 2) return std::nullopt;
    out.push_back(static_cast<char>(code));
    i += 2;
  }
  return out;
}

}  // namespace partita::serve
