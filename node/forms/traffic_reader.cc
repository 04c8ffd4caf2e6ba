#include "forms/traffic_reader.h"

#include <fmt/format.h>

#include <string>

#include "base/parse_number.h"
#include "forms/clock_time.h"

namespace partita::forms {
namespace {

constexpr Range kCv{.high = plan::kMaxCv, .above = true};
constexpr Range kPeaks{.low = 1, .high = kMaxPeak};
constexpr Range kBurstSeconds{.low = kMinBurstSeconds, .high = kMaxBurstSeconds};

// "20%" as 0.2; nothing for what is no percentage.
std::optional<double> percentage(const Node& node) {
  if (node.kind != Node::Kind::string || !node.text.ends_with('%')) return {};
  std::string_view digits = node.text;
  digits.remove_suffix(1);
  while (digits.ends_with(' ')) digits.remove_suffix(1);
  const auto value = parse_number<double>(digits);
  if (!value) return {};
  return *value / 100;
}

std::optional<double> read_headroom(Fields& fields) {
  const Node* node = fields.node().find("headroom");
  if (!node) return {};
  const auto share =
      node->kind == Node::Kind::number ? std::optional(node->number) : percentage(*node);
  if (!share) {
    fields.refuse(*node, "'headroom' must be a share such as 20% or 0.2");
  } else if (!(*share >= 0 && *share <= kMaxHeadroom)) {
    fields.refuse(*node, fmt::format("'headroom' is {:g}, must be at least 0 and at most {:g} "
                                     "({:g} %); a fifth is 0.2, or 20%",
                                     *share, kMaxHeadroom, kMaxHeadroom * 100));
  }
  return share;
}

plan::OnOff read_on_off(Fields fields) {
  fields.only({"peak", "seconds", "every"});
  plan::OnOff on_off;
  on_off.peak = fields.number("peak", kPeaks);
  on_off.seconds = fields.number("seconds", kBurstSeconds);
  on_off.every = fields.number("every", kBurstSeconds);
  if (fields.error()) return {};
  constexpr double kRounding = 1 + 1e-12;
  if (on_off.seconds >= on_off.every) {
    fields.refuse("seconds", fmt::format("'seconds' is {:g}, must be less than 'every', {:g}",
                                         on_off.seconds, on_off.every));
  } else if (on_off.peak * on_off.seconds > on_off.every * kRounding) {
    fields.refuse("peak", fmt::format("'peak' is {:g}, must be at most 'every' / 'seconds', {:g}: "
                                      "the mean stays the service's rate",
                                      on_off.peak, on_off.every / on_off.seconds));
  }
  return on_off;
}

// FILE, or {file: FILE, row: NAME}.
plan::TraceArrivals read_trace(Fields& fields, const Node& node) {
  plan::TraceArrivals trace;
  trace.line = node.line;
  if (node.kind != Node::Kind::object) {
    trace.file = fields.text("trace");
    return trace;
  }
  Fields named(fields, node);
  named.only({"file", "row"});
  trace.file = named.text("file");
  if (named.has("row")) trace.row = named.text("row");
  return trace;
}

plan::Arrivals read_law(Fields& parent, const Node& node) {
  constexpr std::string_view kForms =
      "'arrivals' must be poisson, uniform, or one of cv, burst, mmpp and trace: {cv: 2}, {burst: "
      "{peak: 3, seconds: 5, every: 60}}";
  if (node.kind == Node::Kind::string && node.text == "poisson") return plan::PoissonArrivals{};
  if (node.kind == Node::Kind::string && node.text == "uniform") return plan::EvenArrivals{};
  if (node.kind != Node::Kind::object) {
    parent.refuse(node, std::string(kForms));
    return {};
  }
  Fields fields(parent, node);
  fields.only({"cv", "burst", "mmpp", "trace"});
  if (fields.node().members.size() != 1) fields.refuse(node, std::string(kForms));
  if (fields.has("cv")) return plan::GammaArrivals{fields.number("cv", kCv)};
  if (fields.has("burst")) return plan::BurstArrivals{read_on_off(fields.object("burst"))};
  if (fields.has("mmpp")) return plan::MmppArrivals{read_on_off(fields.object("mmpp"))};
  if (const Node* trace = node.find("trace")) return read_trace(fields, *trace);
  return {};
}

std::optional<plan::Arrivals> read_arrivals(Fields& fields) {
  const Node* law = fields.node().find("arrivals");
  const Node* trace = fields.node().find("trace");
  if (law && trace) fields.refuse(*trace, "'arrivals' and 'trace' are given: one says it all");
  if (law) return read_law(fields, *law);
  if (trace) return read_trace(fields, *trace);
  return {};
}

RateKey read_rate(Fields& fields, const Node& node) {
  constexpr std::string_view kForm =
      "'rates' must list pairs of time and requests per second, such as [08:00, 120], or of time "
      "and a share of rate_rps, [08:00, 80%]";
  RateKey rate{.line = node.line};
  if (node.kind != Node::Kind::list || node.items.size() != 2) {
    fields.refuse(node, std::string(kForm));
    return rate;
  }
  const auto minute =
      node.items[0].kind == Node::Kind::string ? minute_of(node.items[0].text) : std::nullopt;
  const auto share = percentage(node.items[1]);
  if (!minute) fields.refuse(node.items[0], "a time in 'rates' must be one from 00:00 to 23:59");
  if (!share && node.items[1].kind != Node::Kind::number)
    fields.refuse(node.items[1], std::string(kForm));
  rate.minute = minute.value_or(0);
  rate.share = share.has_value();
  rate.value = share.value_or(node.items[1].number);
  if (!(rate.value > 0 && rate.value <= kMaxQuantity))
    fields.refuse(node.items[1], fmt::format("a rate in 'rates' is {:g}, must be above 0 and at "
                                             "most {:g}",
                                             rate.value, kMaxQuantity));
  return rate;
}

std::optional<std::vector<RateKey>> read_rates(Fields& fields) {
  if (!fields.has("rates")) return {};
  std::vector<RateKey> rates;
  for (const Node& item : fields.list("rates", plan::kMinutesOfDay)) {
    rates.push_back(read_rate(fields, item));
    if (fields.error()) return rates;
    if (rates.size() > 1 && rates[rates.size() - 2].minute >= rates.back().minute)
      fields.refuse(item, "the times in 'rates' must ascend from midnight on");
  }
  if (rates.empty()) fields.refuse("rates", "'rates' is empty");
  return rates;
}

}  // namespace

TrafficKeys read_traffic(Fields& fields) {
  TrafficKeys keys;
  keys.headroom = read_headroom(fields);
  keys.arrivals = read_arrivals(fields);
  keys.rates = read_rates(fields);
  return keys;
}

}  // namespace partita::forms
