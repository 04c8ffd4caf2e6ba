#include "serve/front/tokens.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <set>

#include "base/append.h"
#include "base/door/constant_time.h"
#include "base/nearest.h"
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

constexpr std::size_t kFewTokens = 8;  // all of them are compared in less time than one is hashed
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

// "rsp=2": no service is called so, but a limit may be meant.
std::string unknown_limit(std::string_view word) {
  std::vector<std::string> known;
  for (const LimitWord& one : kLimits) known.emplace_back(one.word);
  const std::string said(word.substr(0, word.find('=') + 1));
  return fmt::format("unknown limit '{}'{} (there are {})", said, did_you_mean(said, known),
                     joined(known, ", "));
}

// A service, '*', or a limit.
Result<void> take_word(const std::string& word, Token& token, std::set<std::string_view>& said) {
  const auto* limit = std::ranges::find_if(
      kLimits, [&](const LimitWord& one) { return word.starts_with(one.word); });
  if (limit == std::end(kLimits)) {
    if (word.find('=') != std::string::npos) return bad_input("", unknown_limit(word));
    token.all |= word == "*";
    if (word != "*") token.services.push_back(word);
    return {};
  }
  if (!said.insert(limit->word).second)
    return bad_input("", fmt::format("{} is said twice", limit->word));
  double& value = token.limits.*limit->limit;
  const char* begin = word.data() + limit->word.size();
  const auto [end, error] = std::from_chars(begin, word.data() + word.size(), value);
  const bool whole = error == std::errc() && end == word.data() + word.size();
  if (!whole || !(value >= limit->least && value <= limit->most))
    return bad_input(
        "", fmt::format("after {} comes a number from {}{}, not '{}'", limit->word, limit->least,
                        limit->most > kMaxPriority ? " on" : fmt::format(" to {}", limit->most),
                        begin));
  return {};
}

// From a place in the words on.
Result<Token> grant_of(const std::string& context, const std::vector<std::string>& words,
                       std::size_t from) {
  Token token;
  std::set<std::string_view> said;
  for (std::size_t i = from; i < words.size(); ++i)
    if (auto took = take_word(words[i], token, said); !took)
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

Result<Tokens> parse_tokens(const std::string& file, std::string_view text) {
  std::vector<Token> tokens;
  std::set<std::string> secrets;
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
    Token token = TRY(grant_of(context, words, 1));
    if (!secrets.insert(words[0]).second) return bad_input(context, "this token was said before");
    token.secret = words[0];
    token.name = "token " + std::to_string(tokens.size() + 1);
    tokens.push_back(std::move(token));
  }
  if (tokens.empty()) return bad_input(file, "there is no token in it");
  return Tokens(std::move(tokens));
}

std::string hash_of(std::string_view secret) {
  std::string hash(EVP_MAX_MD_SIZE, '\0');
  unsigned size = 0;
  EVP_Digest(secret.data(), secret.size(), reinterpret_cast<unsigned char*>(hash.data()), &size,
             EVP_sha256(), nullptr);
  hash.resize(size);
  return hash;
}

Tokens::Tokens(std::vector<Token> tokens) : all_(std::move(tokens)) {
  if (all_.size() <= kFewTokens) return;
  for (std::size_t i = 0; i < all_.size(); ++i) by_hash_.emplace(hash_of(all_[i].secret), i);
}

const Token* Tokens::find(std::string_view authorization) const {
  const std::string_view candidate = bearer_of(authorization);
  if (candidate.data() == nullptr) return nullptr;
  if (!by_hash_.empty()) {
    const auto known = by_hash_.find(hash_of(candidate));
    return known == by_hash_.end() ? nullptr : &all_[known->second];
  }
  const Token* found = nullptr;
  for (const Token& token : all_)  // all of them, whichever it is
    if (equal_in_constant_time(token.secret, candidate)) found = &token;
  return found;
}

tl::expected<HeldToken, std::string> held_token(const Tokens& tokens, OidcTokens* oidc,
                                                std::string_view authorization) {
  const std::string_view candidate = bearer_of(authorization);
  if (candidate.data() == nullptr) return tl::unexpected<std::string>("a bearer token is wanted");
  if (const Token* found = tokens.find(authorization))
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
