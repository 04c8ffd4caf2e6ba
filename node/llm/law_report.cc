#include "llm/law_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/form_rules.h"
#include "base/median.h"
#include "base/table.h"

namespace partita::llm {
namespace {

using Key = std::pair<double, double>;  // what is left out together
Key key_of(const Point& point, LeftOut left_out) {
  switch (left_out) {
    case LeftOut::nothing:
      return {};
    case LeftOut::concurrency:
      return {point.concurrency, 0};
    case LeftOut::shape:
      return {point.shape.tokens_in, point.shape.tokens_out};
  }
  return {};
}

// Adds what a law is wrong by. The sums become means in errors_of().
void add(ConfigurationErrors& errors, const TokenLaw& law, const Point& point) {
  const Expected e = expect(law, point.shape, point.concurrency);
  errors.tpot_error += std::abs(e.tpot / point.tpot - 1);
  errors.ttft_error += std::abs(e.ttft / point.ttft - 1);
  errors.outside += e.shape_outside;
  ++errors.predicted;
}

Result<ConfigurationErrors> errors_of(const Measured& one, const std::vector<Kin>& kin,
                                      LeftOut left_out) {
  const std::string name = to_string(one.configuration);
  const auto learned = [&](const std::vector<Point>& points) -> Result<TokenLaw> {
    Result<TokenLaw> law = learn({one.configuration, points}, kin);
    if (!law) return bad_input(name, law.error().message);
    return law;
  };
  const Result<TokenLaw> whole = learned(one.points);
  if (!whole) return failed(whole.error());
  ConfigurationErrors errors;
  errors.configuration = name;
  errors.shapes = one.shapes();
  errors.points = static_cast<int>(one.points.size());
  if (std::isfinite(whole->cache.tokens)) errors.cache_tokens = whole->cache.tokens;
  std::set<Key> keys;
  for (const Point& point : one.points) keys.insert(key_of(point, left_out));
  for (const Key& key : keys) {
    std::vector<Point> told, asked;
    for (const Point& point : one.points)
      (key_of(point, left_out) == key ? asked : told).push_back(point);
    if (left_out != LeftOut::nothing && told.size() < kLeastPoints) continue;
    const Result<TokenLaw> law = left_out == LeftOut::nothing ? whole : learned(told);
    if (!law) return failed(law.error());
    for (const Point& point : asked) add(errors, *law, point);
  }
  if (errors.predicted > 0) {
    errors.tpot_error /= errors.predicted;
    errors.ttft_error /= errors.predicted;
  }
  return errors;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace

Result<LawReport> law_report(const std::vector<Measured>& all, LeftOut left_out,
                             const SayTails& tails) {
  LawReport report;
  report.left_out = left_out;
  const std::vector<Measured> closed = closed_loops(all);
  const std::vector<Kin> kin = kin_of(closed);
  std::vector<double> tpot, ttft;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Measured& one = closed[i];
    if (one.shapes() < kFewestShapes || one.points.size() < std::size_t{kFewestPoints}) {
      ++report.too_small;
      continue;
    }
    Result<ConfigurationErrors> errors = errors_of(one, kin, left_out);
    if (!errors) return failed(errors.error());
    if (errors->predicted == 0) {  // a single concurrency
      ++report.too_small;
      continue;
    }
    tpot.push_back(errors->tpot_error);
    ttft.push_back(errors->ttft_error);
    if (tails) errors->tails = tails(all[i]);
    report.by_configuration.push_back(std::move(*errors));
  }
  if (tpot.empty())
    return bad_input("", fmt::format("no configuration has at least {} shapes and {} points",
                                     kFewestShapes, kFewestPoints));
  report.configurations = static_cast<int>(tpot.size());
  report.tpot_error_mean = mean(tpot);
  report.ttft_error_mean = mean(ttft);
  report.tpot_error_median = median(tpot);
  report.ttft_error_median = median(ttft);
  return report;
}

// -------------------------------------------------------------------------------------- forms

namespace {

constexpr Range kCount{.low = 0, .high = 1e9};

constexpr Range kBelow{.low = -1, .high = 0};

void describe_tails(Form& f, TailErrors& tails) {
  f.integer("percentiles", tails.percentiles, kCount, "measured, of TTFT or TPOT, the more");
  f.number("tpot_error", tails.tpot_error, kNotNegative, "mean relative error of TPOT's");
  f.number("ttft_error", tails.ttft_error, kNotNegative, "mean relative error of TTFT's");
  f.number("tpot_lowest", tails.tpot_lowest, kBelow, "the one most below what was measured");
  f.number("ttft_lowest", tails.ttft_lowest, kBelow, "the one most below what was measured");
}

void describe(Form& f, ConfigurationErrors& one) {
  f.name("configuration", one.configuration, "model, precision, system, engine, split over GPUs");
  f.integer("shapes", one.shapes, kCount, "different pairs of tokens in and out");
  f.integer("points", one.points, kCount, "measured");
  f.integer("predicted", one.predicted, kCount, "points whose errors are counted");
  f.integer("outside", one.outside, kCount,
            "of these, with a shape outside of those that the law was learned from");
  f.number("tpot_error", one.tpot_error, kNotNegative, "mean relative error of TPOT");
  f.number("ttft_error", one.ttft_error, kNotNegative, "mean relative error of TTFT");
  f.optional(one.cache_tokens.has_value())
      .number("kv_tokens", one.cache_tokens, kNotNegative,
              "tokens of KV cache, where requests waited for some");
  f.object("tails", one.tails, describe_tails,
           "of the percentiles that its engine is simulated to have, where some were measured");
}

void describe(Form& f, LawReport& report) {
  f.document("LawReport");
  f.word("left_out", report.left_out, {"nothing", "concurrency", "shape"},
         "what the law had not seen of the points that it is measured by");
  f.integer("configurations", report.configurations, kCount, "that have points enough");
  f.integer("too_small", report.too_small, kCount, "that have not, and do not count");
  f.number("tpot_error_mean", report.tpot_error_mean, kNotNegative, "over configurations");
  f.number("ttft_error_mean", report.ttft_error_mean, kNotNegative, "over configurations");
  f.number("tpot_error_median", report.tpot_error_median, kNotNegative, "over configurations");
  f.number("ttft_error_median", report.ttft_error_median, kNotNegative, "over configurations");
  f.list("by_configuration", report.by_configuration, describe, {.indent = "    "},
         "those that count, in the order of the file");
}

std::string percent(double share) { return fmt::format("{:.1f}", 100 * share); }

// Of those of which percentiles were measured; "" where there are none.
std::string tails_text(const LawReport& report) {
  Table table{{"CONFIGURATION", "PERCENTILES", "TPOT %", "LOWEST", "TTFT %", "LOWEST"}, {}};
  for (const ConfigurationErrors& one : report.by_configuration)
    if (one.tails)
      table.rows.push_back({one.configuration, fmt::format("{}", one.tails->percentiles),
                            percent(one.tails->tpot_error), percent(one.tails->tpot_lowest),
                            percent(one.tails->ttft_error), percent(one.tails->ttft_lowest)});
  if (table.rows.empty()) return "";
  return "\n" + to_string(table) +
         "\nErrors of simulated percentiles; plans take what is simulated for as much longer as "
         "the "
         "lowest need.\n";
}

}  // namespace

std::string law_report_json(const LawReport& report) { return write_form(report, describe); }

Result<LawReport> parse_law_report(const std::string& file, std::string_view text) {
  return read_form<LawReport>(file, text, describe);
}

DocumentKind law_report_kind() {
  return document_kind<LawReport, describe, "LawReport",
                       "How well laws of token-level services say what was measured">();
}

std::string law_report_text(const LawReport& report) {
  constexpr const char* kOf[] = {"points that the laws were learned from",
                                 "points of a concurrency that the law had not seen",
                                 "points of a shape that the law had not seen"};
  Table table{{"CONFIGURATION", "SHAPES", "POINTS", "TPOT %", "TTFT %", "OUTSIDE", "KV TOKENS"},
              {}};
  for (const ConfigurationErrors& one : report.by_configuration)
    table.rows.push_back({one.configuration, fmt::format("{}", one.shapes),
                          fmt::format("{}", one.points), percent(one.tpot_error),
                          percent(one.ttft_error), fmt::format("{}", one.outside),
                          one.cache_tokens ? fmt::format("{:.0f}", *one.cache_tokens) : "-"});
  std::string text = to_string(table);
  text += fmt::format(
      "\nRelative errors of {}.\nOver {} configurations: TPOT {} % (median {}), TTFT {} % (median "
      "{}).\n",
      kOf[static_cast<int>(report.left_out)], report.configurations,
      percent(report.tpot_error_mean), percent(report.tpot_error_median),
      percent(report.ttft_error_mean), percent(report.ttft_error_median));
  if (report.too_small > 0)
    text += fmt::format(
        "{} configurations have fewer than {} shapes or {} points and do not "
        "count.\n",
        report.too_small, kFewestShapes, kFewestPoints);
  return text + tails_text(report);
}

}  // namespace partita::llm
