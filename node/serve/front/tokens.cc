#include "serve/front/tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ctime>

#include "base/door/constant_time.h"
#include "profile/buckets.h"
#include "serve/brain/service_brain.h"
#include "serve/front/oidc_tokens.h"

namespace partita::serve {

namespace {

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  line = line.substr(0, line.find('#'));
  while (true) {
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) return words;
    line.remove_prefix(begin);
    const std::size_t length = std::min(line.find_first_of(" \t\r"), line.size());
    words.emplace_back(line.substr(0, length));
    line.remove_prefix(length);
  }
}

constexpr const char* kNoServices = "after the token come its services, or '*' for all";

struct LimitWord {
  std::string_view word;
  double KeyLimits::*limit;
  double least = 1, most = 1e12;
};
constexpr LimitWord kLimits[] = {{"rpm=", &KeyLimits::requests},
                                 {"tpm=", &KeyLimits::tokens},
                                 {"rps=", &KeyLimits::per_second},
                                 {"bytes=", &KeyLimits::bytes},
                                 {"at-once=", &KeyLimits::at_once},
                                 {"weight=", &KeyLimits::weight},
                                 {"priority=", &KeyLimits::priority, -kMaxPriority, kMaxPriority}};

// A service, '*', or a limit.
Result<void> take_word(const std::string& word, Token& token) {
  const auto* limit = std::ranges::find_if(
      kLimits, [&](const LimitWord& one) { return word.starts_with(one.word); });
  if (limit == std::end(kLimits)) {
    token.all |= word == "*";
    if (word != "*") token.services.push_back(word);
    return {};
  }
  double& value = token.limits.*limit->limit;
  const char* begin = word.data() + limit->word.size();
  const auto [end, error] = std::from_chars(begin, word.data() + word.size(), value);
  const bool whole = error == std::errc() && end == word.data() + word.size();
  if (!whole || !(value >= limit->least && value <= limit->most))
    return bad_input(
        "", fmt::format("after {} comes a number from {}{}", limit->word, limit->least,
                        limit->most > kMaxPriority ? " on" : fmt::format(" to {}", limit->most)));
  return {};
}

// From a place in the words on.
Result<Token> grant_of(const std::string& context, const std::vector<std::string>& words,
                       std::size_t from) {
  Token token;
  for (std::size_t i = from; i < words.size(); ++i)
    if (auto took = take_word(words[i], token); !took)
      return bad_input(context, took.error().message);
  if (!token.all && token.services.empty()) return bad_input(context, kNoServices);
  std::sort(token.services.begin(), token.services.end());
  return token;
}

}  // namespace

std::string token_fault(std::string_view secret) {
  if (secret.size() < kMinTokenBytes || secret.size() > kMaxTokenBytes)
    return "a token has 16 to 512 characters";
  if (!std::all_of(secret.begin(), secret.end(), [](char c) { return c > ' ' && c < 127; }))
    return "a token is made of visible ASCII characters";
  return {};
}

Result<Token> parse_grant(const std::string& context, std::string_view text) {
  return grant_of(context, words_of(text), 0);
}

Result<std::vector<Token>> parse_tokens(const std::string& file, std::string_view text) {
  std::vector<Token> tokens;
  int number = 0;
  while (!text.empty()) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    const std::vector<std::string> words = words_of(text.substr(0, length));
    text.remove_prefix(std::min(length + 1, text.size()));
    const std::string context = file + ":" + std::to_string(++number);
    if (words.empty()) continue;
    if (const std::string fault = token_fault(words[0]); !fault.empty())
      return bad_input(context, fault);
    if (tokens.size() == kMaxTokens) return bad_input(context, "more than 10000 tokens");
    Result<Token> token = grant_of(context, words, 1);
    if (!token) return failed(token.error());
    for (const Token& before : tokens)
      if (before.secret == words[0]) return bad_input(context, "this token was said before");
    token->secret = words[0];
    token->name = "token " + std::to_string(tokens.size() + 1);
    tokens.push_back(*std::move(token));
  }
  if (tokens.empty()) return bad_input(file, "there is no token in it");
  return tokens;
}

const Token* find_token(const std::vector<Token>& tokens, std::string_view authorization) {
  const std::string_view candidate = bearer_of(authorization);
  if (candidate.data() == nullptr) return nullptr;
  const Token* found = nullptr;
  for (const Token& token : tokens)  // all of them, whichever it is
    if (equal_in_constant_time(token.secret, candidate)) found = &token;
  return found;
}

tl::expected<HeldToken, std::string> held_token(const std::vector<Token>& tokens, OidcTokens* oidc,
                                                std::string_view authorization) {
  const std::string_view candidate = bearer_of(authorization);
  if (candidate.data() == nullptr) return tl::unexpected<std::string>("a bearer token is wanted");
  if (const Token* found = find_token(tokens, authorization))
    return HeldToken(HeldToken(), found);  // the tokens outlive the doors
  if (oidc == nullptr) return tl::unexpected<std::string>("a bearer token is wanted");
  return oidc->find(candidate, ::time(nullptr));
}

bool allows(const Token& token, std::string_view service) {
  const auto has = [&](std::string_view name) {
    return std::binary_search(token.services.begin(), token.services.end(), name, std::less<>());
  };
  if (token.all || has(service)) return true;
  const auto bucket = profile::bucket_name(std::string(service));
  return bucket.bucket > 0 && has(bucket.name);  // who may use a model may use all its buckets
}

}  // namespace partita::serve
