// What clients of the HTTP door send before a body: a head, its path, a token, a region to
// register.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/door/gzip.h"
#include "base/door/http_head.h"
#include "serve/front/gateway_exchange.h"
#include "target.h"

FUZZ_TARGET(http_head) {
  namespace serve = partita::serve;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t end = serve::end_of_head(text, 0);
  for (const std::size_t from : {std::size_t{1}, size / 2})
    if (end != std::string_view::npos && from < end) CHECK(serve::end_of_head(text, from) == end);
  if (end != std::string_view::npos && end <= serve::kMaxHeadBytes) {
    const std::string_view head_text = text.substr(0, end);
    if (const auto head = serve::parse_http_head(head_text)) {
      const auto inside = [&](std::string_view part) {
        return part.empty() || (part.data() >= text.data() &&
                                part.data() + part.size() <= text.data() + head_text.size());
      };
      CHECK(inside(head->target) && inside(head->authorization) && inside(head->trace_parent));
      if (const auto facts = serve::facts_of(*head)) {
        CHECK(facts->packed || facts->json_bytes.value_or(0) <= facts->content_length);
        CHECK(!facts->timeout_ns || *facts->timeout_ns > 0);
        const serve::TraceContext& trace = facts->trace;  // it goes into the head of a request
        CHECK(trace.state.size() <= serve::kMaxTraceState);
        CHECK(trace.parent.empty() ? trace.state.empty()
                                   : serve::trace_id(trace.parent).size() == 32);
        CHECK((trace.parent + trace.state).find_first_of("\r\n") == std::string::npos);
      }
      serve::percent_decoded(head->target);
    }
  }
  constexpr std::size_t kMost = 1u << 16;
  const auto room = [](std::size_t bytes) { return bytes <= kMost + 1; };
  if (const auto body = serve::unpacked(text, kMost, room)) {
    CHECK(body->size() <= kMost);
    CHECK(*serve::unpacked(serve::gzipped(*body), kMost, room) == *body);
  }
  if (const auto region = serve::parse_register(text)) CHECK(!region->key.empty());
  if (const auto tokens = serve::parse_tokens("f", text)) {
    for (const serve::Token& token : *tokens)
      CHECK(tokens->find("Bearer " + token.secret) == &token);
  }
  return 0;
}
