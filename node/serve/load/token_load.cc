#include "serve/load/token_load.h"

#include <algorithm>
#include <array>

#include "serve/oip/json_scan.h"

namespace partita::serve {
namespace {

constexpr std::array<const char*, 32> kWords = {
    "the",  "of", "and", "to",  "in",   "is",   "you",  "that", "it",   "he",   "was",
    "for",  "on", "are", "as",  "with", "his",  "they", "at",   "be",   "this", "have",
    "from", "or", "one", "had", "by",   "word", "but",  "not",  "what", "all"};

constexpr std::uint64_t kPrefixSeed = 1;  // the same beginning for all

void add_words(std::string& text, int count, Rng& rng) {
  for (int i = 0; i < count; ++i) {
    if (!text.empty()) text += ' ';
    text += kWords[rng.below(kWords.size())];
  }
}

}  // namespace

std::string completion_request(const RequestTarget& target, const plan::TokenTerms& terms,
                               plan::Length length, Rng rng, Rng words) {
  std::string prompt;
  int left = length.in;
  if (rng.uniform() < terms.prefix_share) {
    Rng same(kPrefixSeed);
    add_words(prompt, terms.prefix_tokens, same);
    left = std::max(left - terms.prefix_tokens, 1);
  }
  add_words(prompt, left, words);
  std::string body = R"({"model":)";
  append_json_string(body, target.model);
  body += R"(,"prompt":)";
  append_json_string(body, prompt);
  body += R"(,"max_tokens":)" + std::to_string(length.out);
  body += R"(,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}})";
  std::string head =
      request_head("POST", target.url, "/v1/completions") + "Content-Type: application/json\r\n";
  if (!target.token.empty()) head += "Authorization: Bearer " + target.token + "\r\n";
  return head + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

void TokenAnswer::take(std::string_view bytes, std::int64_t now) {
  int fresh = 0;
  const bool fine = events_.take(bytes, [&](const StreamEvent& event) {
    if (event.usage) usage_ = event.usage;
    fresh += event.kind == StreamEvent::Kind::token;
    done_ = done_ || event.kind == StreamEvent::Kind::done;
    error_ = error_ || event.kind == StreamEvent::Kind::error;
  });
  error_ = error_ || !fine;
  if (fresh == 0) return;
  if (first_ == 0) {
    first_ = last_ = now;
    --fresh;
    ++seen_;
  }
  for (int i = 0; i < fresh; ++i) gaps_.push_back((now - last_) / fresh);
  seen_ += fresh;
  last_ = now;
}

bool TokenTally::end(const TokenAnswer& answer, const plan::TokenTerms& terms, int asked_out,
                     std::int64_t due) {
  const std::int64_t first = answer.first() - due, each = answer.tpot();
  ttft.add(std::max<std::int64_t>(first, 0));
  if (answer.tokens() > 1) tpot.add(each);
  for (const std::int64_t gap : answer.gaps()) itl.add(gap);
  if (keeps_times) {
    TokenTimes& kept = times.emplace_back(TokenTimes{answer.prompt(), {answer.first()}});
    for (const std::int64_t gap : answer.gaps()) kept.at.push_back(kept.at.back() + gap);
  }
  in += answer.prompt();
  out += answer.tokens();
  asked += asked_out;
  const auto kept = [](Millis promised, std::int64_t took) {
    return promised.value <= 0 || static_cast<double>(took) <= promised.value * 1e6;
  };
  return kept(terms.ttft, first) && kept(terms.tpot, each);
}

}  // namespace partita::serve
