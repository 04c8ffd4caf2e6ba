#include "serve/load/load_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/append.h"
#include "base/form_rules.h"
#include "base/table.h"

namespace partita::serve {
namespace {

constexpr Range kPart{.high = 1};

void describe(Form& f, LoadPercentiles& percentiles) {
  f.number("p50", percentiles.p50, kNotNegative, "milliseconds");
  f.number("p99", percentiles.p99, kNotNegative, "milliseconds");
}

void describe(Form& f, PredictedTokens& predicted) {
  f.object("ttft_ms", predicted.ttft_ms, describe, "to the first token");
  f.object("tpot_ms", predicted.tpot_ms, describe, "per token after it");
  f.number("tokens_per_s", predicted.tokens_per_s, kNotNegative, "produced");
}

// Its fields stand among those of the service.
void describe_tokens(Form& f, std::optional<LoadTokens>& tokens) {
  const bool there = f.reading() ? f.reading()->has("ttft_ms") : tokens.has_value();
  LoadTokens kept = tokens.value_or(LoadTokens{});
  f.optional(there).object("ttft_ms", kept.ttft_ms, describe,
                           "of a language model: to the first token, from when it was due");
  f.optional(there).object("tpot_ms", kept.tpot_ms, describe,
                           "per token after it, on average over an answer");
  f.optional(there).object("itl_ms", kept.itl_ms, describe, "from one token to the next");
  f.optional(there).whole("tokens_in", kept.in, kNotNegative, "of prompts, as the server says");
  f.optional(there).whole("tokens_out", kept.out, kNotNegative, "of answers");
  f.optional(there).whole("tokens_asked", kept.asked, kNotNegative, "that those should have");
  f.optional(there).number("tokens_per_s", kept.tokens_per_s, kNotNegative, "of answers");
  f.optional(there).number("goodput_rps", kept.goodput_rps, kNotNegative,
                           "answers that kept all that is promised");
  if (f.reading() && there) tokens = kept;
}

void describe(Form& f, LoadServiceReport& service) {
  f.name("name", service.terms.name, "of the service");
  f.optional(service.terms.rate.value > 0)
      .number("rate_rps", service.terms.rate.value, kNotNegative,
              "that was played; missing: a trace's");
  f.whole("offered", service.offered, kNotNegative, "requests that were due");
  f.whole("completed", service.completed, kNotNegative, "answered with 200");
  f.whole("refused", service.refused, kNotNegative, "answered with 503 or 429");
  f.whole("failed", service.failed, kNotNegative, "answered otherwise, or not at all");
  f.whole("reset", service.reset, kNotNegative, "of the failed: no connection, or a broken one");
  f.optional(!service.first_failure.empty())
      .note("first_failure", service.first_failure, "why the first of them failed");
  f.optional(!service.first_refusal.empty())
      .note("first_refusal", service.first_refusal, "why the first of them was refused");
  f.number("slo_ms", service.terms.slo.value, kNotNegative, "the latency objective");
  f.or_null().number("slo_attainment", service.slo_attainment, kPart,
                     "share of the offered ones that completed within the SLO; null: none was");
  f.number("p50_ms", service.p50_ms, kNotNegative, "of the latency; 0: nothing completed");
  f.number("p95_ms", service.p95_ms, kNotNegative, "of the latency");
  f.number("p99_ms", service.p99_ms, kNotNegative, "of the latency");
  f.number("max_ms", service.max_ms, kNotNegative, "of the latency");
  f.or_null().number("predicted_p50_ms", service.predicted_p50_ms, kNotNegative,
                     "by the simulator for the same arrivals; null: not asked");
  f.or_null().number("predicted_p99_ms", service.predicted_p99_ms, kNotNegative, "the same");
  f.or_null().number("predicted_slo_attainment", service.predicted_slo_attainment, kPart,
                     "the same");
  describe_tokens(f, service.tokens);
  f.object("predicted", service.predicted, describe,
           "of a language model, by the simulator for requests of such lengths");
}

void describe(Form& f, LoadGenerator& generator) {
  f.number("late_p50_ms", generator.late_p50_ms, kNotNegative, "how late it sent what was due");
  f.number("late_p99_ms", generator.late_p99_ms, kNotNegative, "the same");
  f.boolean("late", generator.late, "enough to doubt the latencies");
  f.integer("connections", generator.connections, kNotNegative, "most that were open");
  f.integer("most_connections", generator.most_connections, kNotNegative, "that were allowed");
  f.whole("waited", generator.waited, kNotNegative, "requests that found none of them free");
}

void describe(Form& f, ServerScenario& server) {
  f.number("target_qps", server.target_qps, kPositive, "offered, Poisson");
  f.number("latency_bound_ms", server.latency_bound_ms, kPositive, "of the 99th percentile");
  f.whole("min_requests", server.min_requests, kNotNegative, "asked for");
  f.number("min_duration_s", server.min_duration_s, kNotNegative, "asked for");
  f.number("completed_qps", server.completed_qps, kNotNegative, "until the last answer");
  f.or_null().number("p99_ms", server.p99_ms, kNotNegative,
                     "of all offered; null: more than 1 % never completed");
  f.boolean("valid", server.valid, "the verdict");
  f.notes("reasons", server.reasons, {}, "why it is not valid");
}

void describe(Form& f, LoadReport& report) {
  f.document("LoadReport");
  f.text("url", report.url, "of the server");
  f.whole("seed", report.seed, "of arrivals and tensors");
  f.number("duration_s", report.duration_s, kNotNegative, "in which requests were due");
  f.optional(report.stopped).boolean("stopped", report.stopped, "it was broken off");
  f.list("services", report.services, describe, {}, "what became of their requests");
  f.object("generator", report.generator, describe, "how well it kept time");
  f.object("server", report.server, describe, "the Server scenario, where it was asked for");
}

constexpr double kLeastOfAsked = 0.9;

std::string ms_text(double ms) { return std::isfinite(ms) ? fmt::format("{:.2f}", ms) : "-"; }

// Rounded down, so that only a full share reads 100 %.
std::string share_text(double share) {
  if (!std::isfinite(share)) return "-";
  return fmt::format("{:.2f} %", std::floor(share * 1e4 + 1e-9) / 100);
}

// Measured, with what was predicted in brackets.
std::string both_text(double measured, std::optional<double> predicted) {
  return ms_text(measured) + (predicted ? fmt::format(" ({})", ms_text(*predicted)) : "");
}

std::string tokens_text(const LoadReport& report) {
  Table table{{"SERVICE", "TTFT p50 ms", "p99 ms", "TPOT p50 ms", "p99 ms", "ITL p99 ms",
               "TOKENS IN", "OUT", "OUT /s", "GOODPUT /s"},
              {}};
  bool predicted = false;
  for (const LoadServiceReport& one : report.services) {
    if (!one.tokens) continue;
    const LoadTokens& seen = *one.tokens;
    predicted = predicted || one.predicted;
    const auto both = [&](LoadPercentiles LoadTokens::*of, LoadPercentiles PredictedTokens::*by,
                          double LoadPercentiles::*at) {
      return both_text(seen.*of.*at,
                       one.predicted ? std::optional((*one.predicted).*by.*at) : std::nullopt);
    };
    using P = LoadPercentiles;
    if (one.completed == 0) {
      table.rows.push_back({one.terms.name, "-", "-", "-", "-", "-", "-", "-", "-", "-"});
      continue;
    }
    table.rows.push_back(
        {one.terms.name, both(&LoadTokens::ttft_ms, &PredictedTokens::ttft_ms, &P::p50),
         both(&LoadTokens::ttft_ms, &PredictedTokens::ttft_ms, &P::p99),
         both(&LoadTokens::tpot_ms, &PredictedTokens::tpot_ms, &P::p50),
         both(&LoadTokens::tpot_ms, &PredictedTokens::tpot_ms, &P::p99), ms_text(seen.itl_ms.p99),
         fmt::format("{}", seen.in), fmt::format("{}", seen.out),
         fmt::format("{:.1f}", seen.tokens_per_s), fmt::format("{:.2f}", seen.goodput_rps)});
  }
  if (table.rows.empty()) return "";
  return "\n" + to_string(table) + (predicted ? "(in brackets: predicted)\n" : "");
}

std::string verdict_text(const ServerScenario& server) {
  std::string text = fmt::format(
      "\nServer scenario: {} - {:g}/s asked for, {:.0f}/s completed, p99 {} ms of at most {:g} "
      "ms\n",
      server.valid ? "VALID" : "INVALID", server.target_qps, server.completed_qps,
      ms_text(server.p99_ms), server.latency_bound_ms);
  for (const std::string& reason : server.reasons) text += "  " + reason + "\n";
  return text;
}

}  // namespace

std::string load_report_json(const LoadReport& report) {
  return write_form(report, describe, Form::Style::indented);
}

Result<LoadReport> parse_load_report(const std::string& file, std::string_view text) {
  return read_form<LoadReport>(file, text, describe);
}

DocumentKind load_report_kind() {
  return document_kind<LoadReport, describe, "LoadReport",
                       "what became of the requests that were sent to a server">();
}

std::string load_report_text(const LoadReport& report) {
  const bool predicted = std::ranges::any_of(
      report.services, [](const auto& one) { return std::isfinite(one.predicted_p99_ms); });
  Table table{{"SERVICE", "RATE /s", "OFFERED", "COMPLETED", "REFUSED", "FAILED", "IN SLO",
               "SLO ms", "p50 ms", "p95 ms", "p99 ms"},
              {}};
  if (predicted)
    for (const char* name : {"PREDICTED p50", "p99", "IN SLO"}) table.header.emplace_back(name);
  for (const LoadServiceReport& one : report.services) {
    std::vector<std::string>& row = table.rows.emplace_back();
    row = {one.terms.name,
           one.terms.rate.value > 0 ? fmt::format("{:g}", one.terms.rate.value) : "-",
           fmt::format("{}", one.offered),
           fmt::format("{}", one.completed),
           fmt::format("{}", one.refused),
           fmt::format("{}", one.failed),
           share_text(one.slo_attainment),
           one.terms.slo.value > 0 ? fmt::format("{:g}", one.terms.slo.value) : "-",
           ms_text(one.completed > 0 ? one.p50_ms : kNotPredicted),
           ms_text(one.completed > 0 ? one.p95_ms : kNotPredicted),
           ms_text(one.completed > 0 ? one.p99_ms : kNotPredicted)};
    if (!predicted) continue;
    row.push_back(ms_text(one.predicted_p50_ms));
    row.push_back(ms_text(one.predicted_p99_ms));
    row.push_back(share_text(one.predicted_slo_attainment));
  }
  std::string text = to_string(table);
  text += tokens_text(report);
  text += fmt::format("\n{:g} s, seed {}; the generator was late by {} ms (p50), {} ms (p99)\n",
                      report.duration_s, report.seed, ms_text(report.generator.late_p50_ms),
                      ms_text(report.generator.late_p99_ms));
  if (report.stopped) text += "broken off: what was to come is not known\n";
  for (const LoadServiceReport& one : report.services) {
    if (!one.first_failure.empty())
      text += fmt::format("{}: the first that failed: {}\n", one.terms.name, one.first_failure);
    if (!one.first_refusal.empty())
      text +=
          fmt::format("{}: the first that was refused: {}\n", one.terms.name, one.first_refusal);
  }
  if (report.server) text += verdict_text(*report.server);
  return text;
}

std::string silence(const LoadReport& report) {
  std::vector<std::string> silent;
  const bool none =  // was answered of any
      std::ranges::all_of(report.services, [](const auto& one) { return one.completed == 0; });
  for (const LoadServiceReport& one : report.services)
    if (one.offered > 0 && one.failed + (none ? one.refused : 0) == one.offered)
      silent.push_back(
          fmt::format("service {}: all {} requests {}, the first: {}", one.terms.name, one.offered,
                      one.refused == 0  ? "failed"
                      : one.failed == 0 ? "were refused"
                                        : "failed or were refused",
                      one.first_failure.empty() ? one.first_refusal : one.first_failure));
  return joined(silent, "; ");
}

std::vector<std::string> unkept(const LoadReport& report, double require) {
  std::vector<std::string> unkept;
  if (require > 0 && report.stopped)
    unkept.push_back("it was broken off, so what is required was not measured");
  for (const LoadServiceReport& one : report.services) {
    if (require > 0 && one.offered == 0)
      unkept.push_back(
          fmt::format("service {}: nothing was asked, so nothing is known", one.terms.name));
    else if (one.offered > 0 && one.slo_attainment < require)
      unkept.push_back(fmt::format("service {}: slo_attainment: have {:.6f}, need {}",
                                   one.terms.name, one.slo_attainment, require));
  }
  return unkept;
}

std::vector<std::string> load_doubts(const LoadReport& report) {
  std::vector<std::string> doubts;
  const LoadGenerator& generator = report.generator;
  if (generator.late)
    doubts.push_back(fmt::format(
        "the generator itself was late by {:.2f} ms (p99), which is in the latencies: give it a "
        "core of its own, or a machine",
        generator.late_p99_ms));
  if (generator.waited > 0)
    doubts.push_back(fmt::format(
        "{} requests waited because all {} connections were busy: --connections gives more",
        generator.waited, generator.most_connections));
  for (const LoadServiceReport& one : report.services) {
    if (!one.tokens) continue;
    const auto out = static_cast<double>(one.tokens->out);
    const auto asked = static_cast<double>(one.tokens->asked);
    if (out < kLeastOfAsked * asked)
      doubts.push_back(fmt::format(
          "the answers of {} have {:.0f} % of the tokens that were asked for, so that nothing is "
          "told of such: its engine ends them by itself, although `ignore_eos` is asked for",
          one.terms.name, 100 * out / asked));
  }
  return doubts;
}

}  // namespace partita::serve
