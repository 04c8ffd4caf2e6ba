#include "forms/tokens_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace partita::forms {
namespace {

constexpr Range kPercentiles{.high = 100, .above = true, .below = true};
// Below the median nobody promises anything: what is smaller is a share, or a slip.
constexpr double kLeastPercentile = 50;
constexpr Range kTokenCounts{.low = 1, .high = plan::kMostTokens};
constexpr std::size_t kMostListed = 100'000;

std::string in_words(std::string_view key) {
  return key == "trace" ? "'trace' must be a file or a list of [in, out], numbers of tokens"
                        : fmt::format(
                              "'{}' must be a number of tokens, {{mean: M, cv: C}} or a "
                              "list of numbers",
                              key);
}

int count_of(Fields& fields, const Node& node, std::string_view key) {
  const bool fits = node.kind == Node::Kind::number && node.number >= 1 &&
                    node.number <= plan::kMostTokens && node.number == std::floor(node.number);
  if (!fits) fields.refuse(node, in_words(key) + fmt::format(", 1 to {}", plan::kMostTokens));
  return fits ? static_cast<int>(node.number) : 1;
}

plan::Tokens read_lengths(Fields& fields, std::string_view key) {
  const Node* const node = fields.node().find(key);
  if (!node) fields.refuse(key, fmt::format("'tokens' has no '{}'", key));
  if (!node) return 1;
  if (node->kind == Node::Kind::number) return count_of(fields, *node, key);
  if (node->kind == Node::Kind::list) {
    plan::ListedTokens list;
    for (const Node& item : fields.list(key, kMostListed))
      list.push_back(count_of(fields, item, key));
    if (list.empty()) fields.refuse(*node, in_words(key));
    return list;
  }
  if (node->kind != Node::Kind::object) fields.refuse(*node, in_words(key));
  Fields law = fields.object(key);
  law.only({"mean", "cv"});
  return plan::LognormalTokens{law.number("mean", kTokenCounts),
                               law.number("cv", {.high = plan::kMostTokenCv})};
}

// Lengths in place of a file's name: pairs of the tokens of a prompt and of its answer.
plan::TokenTrace read_pairs(Fields& fields) {
  plan::TokenTrace trace{.file = {}, .line = fields.node().find("trace")->line};
  std::vector<plan::TracedRequest> requests;
  for (const Node& pair : fields.list("trace", kMostListed)) {
    if (pair.kind != Node::Kind::list || pair.items.size() != 2)
      fields.refuse(pair, "'trace' must be a file or a list of [in, out]");
    else
      requests.push_back({.in = count_of(fields, pair.items[0], "trace"),
                          .out = count_of(fields, pair.items[1], "trace")});
  }
  if (requests.empty()) fields.refuse("trace", "'trace' has no lengths");
  trace.file = fmt::format("of {} requests", requests.size());
  trace.requests = std::make_shared<const std::vector<plan::TracedRequest>>(std::move(requests));
  return trace;
}

void read_lengths(Fields fields, plan::TokenTerms& tokens) {
  fields.only({"in", "out", "trace"});
  if (!fields.has("trace")) {
    const plan::Tokens in = read_lengths(fields, "in");
    tokens.lengths = plan::TokenPair{in, read_lengths(fields, "out")};
    return;
  }
  if (fields.has("in") || fields.has("out"))
    fields.refuse("trace", "'tokens' has a trace, which says both 'in' and 'out'");
  const Node& trace = *fields.node().find("trace");
  if (trace.kind == Node::Kind::list)
    tokens.lengths = read_pairs(fields);
  else
    tokens.lengths =
        plan::TokenTrace{.file = fields.text("trace"), .requests = {}, .line = trace.line};
}

void read_slo(Fields fields, plan::Terms& terms) {
  fields.only({"ttft_ms", "tpot_ms", "e2e_ms", "percentile"});
  const auto limit = [&](std::string_view key) {
    return Millis{fields.has(key) ? fields.number(key, kPositive) : 0};
  };
  terms.tokens->ttft = limit("ttft_ms");
  terms.tokens->tpot = limit("tpot_ms");
  terms.slo = limit("e2e_ms");
  if (fields.has("percentile")) terms.percentile = read_percentile(fields);
  if (!fields.has("ttft_ms") && !fields.has("tpot_ms") && !fields.has("e2e_ms"))
    fields.refuse(fields.node(), "'slo' promises nothing: give ttft_ms, tpot_ms or e2e_ms");
}

// The longest prompt that the service says, where it says one.
std::optional<int> longest_prompt(const plan::TokenTerms& tokens) {
  const auto* const pair = std::get_if<plan::TokenPair>(&tokens.lengths);
  if (pair == nullptr) return std::nullopt;
  if (const int* const fixed = std::get_if<int>(&pair->in)) return *fixed;
  const auto* const list = std::get_if<plan::ListedTokens>(&pair->in);
  return list == nullptr || list->empty() ? std::nullopt : std::optional(std::ranges::max(*list));
}

void read_prefix(Fields fields, plan::TokenTerms& tokens) {
  fields.only({"share", "tokens"});
  tokens.prefix_share = fields.number("share", {.high = 1});
  tokens.prefix_tokens = fields.integer("tokens", {.high = plan::kMostTokens - 1});
  const std::optional<int> longest = longest_prompt(tokens);
  if (!fields.error() && longest && tokens.prefix_tokens >= *longest)
    fields.refuse("tokens", fmt::format("'tokens' is {}: a prefix is shorter than the prompt that "
                                        "begins with it, and no prompt is longer than {}",
                                        tokens.prefix_tokens, *longest));
}

}  // namespace

double read_percentile(Fields& fields) {
  const double value = fields.number("percentile", kPercentiles);
  if (fields.error() || value >= kLeastPercentile) return value;
  const double meant = value * 100;
  fields.refuse(
      "percentile",
      fmt::format("'percentile' is {:g}: so many percent of the answers must be in time, at least "
                  "{:g}{}",
                  value, kLeastPercentile,
                  meant >= kLeastPercentile && meant < kPercentiles.high
                      ? fmt::format("; did you mean {:g}?", meant)
                      : ""));
  return value;
}

void read_tokens(Fields& fields, plan::Terms& terms) {
  terms.tokens.emplace();
  if (fields.has("slo_ms"))
    fields.refuse("slo_ms",
                  "a service of kind llm has no slo_ms; write slo: {ttft_ms: 500, tpot_ms: 50}, or "
                  "e2e_ms for the whole answer");
  if (fields.has("percentile"))
    fields.refuse("percentile", "write it into slo: {ttft_ms: 500, percentile: 99}");
  read_slo(fields.object("slo"), terms);
  read_lengths(fields.object("tokens"), *terms.tokens);
  if (fields.has("prefix") && !fields.error()) read_prefix(fields.object("prefix"), *terms.tokens);
}

}  // namespace partita::forms
