#include "llm/points.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "base/append.h"
#include "base/index.h"
#include "profile/csv.h"

namespace partita::llm {
namespace {

// What lies beyond is damage or another unit, not a measurement.
constexpr profile::NumberRange kTokens{1, 1e8}, kConcurrency{1, 1e7}, kTimes{1e-6, 1e9},
    kRates{1e-6, 1e6};
constexpr profile::NumberRange kGpus{0, 1e6};

using profile::Csv, profile::CsvRow;

constexpr std::array<std::string_view, 15> kColumns = {
    "system", "backend", "version",      "model",  "precision", "isl",     "osl",    "concurrency",
    "tp",     "pp",      "attention_dp", "moe_tp", "moe_ep",    "ttft_ms", "tpot_ms"};

// May be missing: whole GPUs, and an engine that does not say how it was started.
constexpr std::string_view kProfileColumn = "profile";
struct SettingColumn {
  std::string_view name;
  std::optional<int> Configuration::*setting;
};
constexpr SettingColumn kSettings[] = {{"step_tokens", &Configuration::step_tokens},
                                       {"kv_tokens", &Configuration::kv_tokens},
                                       {"kv_move_ns", &Configuration::kv_move_ns},
                                       {"units", &Configuration::units},
                                       {"weights_mib", &Configuration::weights_mib},
                                       {"kv_token_bytes", &Configuration::kv_token_bytes}};
struct TimeColumn {
  std::string_view name;
  Percentiles Point::*of;
  std::optional<Millis> Percentiles::*at;
};
constexpr TimeColumn kTimeColumns[] = {{"ttft_p50_ms", &Point::ttft_at, &Percentiles::p50},
                                       {"ttft_p90_ms", &Point::ttft_at, &Percentiles::p90},
                                       {"ttft_p99_ms", &Point::ttft_at, &Percentiles::p99},
                                       {"tpot_p50_ms", &Point::tpot_at, &Percentiles::p50},
                                       {"tpot_p90_ms", &Point::tpot_at, &Percentiles::p90},
                                       {"tpot_p99_ms", &Point::tpot_at, &Percentiles::p99},
                                       {"itl_p50_ms", &Point::itl_at, &Percentiles::p50},
                                       {"itl_p90_ms", &Point::itl_at, &Percentiles::p90},
                                       {"itl_p99_ms", &Point::itl_at, &Percentiles::p99}};
constexpr std::string_view kItlColumn = "itl_ms", kRateColumn = "rate_rps";

// Reads the cells of a row; the first one that is refused is kept, and what follows is 0.
class Cells {
 public:
  Cells(const Csv& csv, const CsvRow& row) : csv_(csv), row_(row) {}

  const std::string& text(std::string_view name) const { return row_.cells[at(csv_.column(name))]; }
  std::string text_if_there(std::string_view name) const {
    return csv_.column(name) < 0 ? "" : text(name);
  }
  double number(std::string_view name, profile::NumberRange range) {
    return kept(profile::csv_number(csv_, row_, csv_.column(name), range));
  }
  int whole(std::string_view name, profile::NumberRange range) {
    return kept(profile::csv_integer(csv_, row_, csv_.column(name), range));
  }
  std::optional<int> known(std::string_view name, profile::NumberRange range = kGpus) {
    if (text_if_there(name).empty()) return {};
    return whole(name, range);
  }
  std::optional<Millis> time_if_there(std::string_view name) {
    if (text_if_there(name).empty()) return {};
    return Millis{number(name, kTimes)};
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  template <class T>
  T kept(const Result<T>& value) {
    if (value) return *value;
    if (!error_) error_ = value.error();
    return T{};
  }

  const Csv& csv_;
  const CsvRow& row_;
  std::optional<Error> error_;
};

Configuration configuration_of(Cells& cells) {
  Configuration one;
  one.system = cells.text("system");
  one.backend = cells.text("backend");
  one.version = cells.text("version");
  one.model = cells.text("model");
  one.precision = cells.text("precision");
  one.profile = cells.text_if_there("profile");
  one.tensor = cells.known("tp");
  one.pipeline = cells.known("pp");
  one.attention_data = cells.known("attention_dp");
  one.expert_tensor = cells.known("moe_tp");
  one.experts = cells.known("moe_ep");
  for (const SettingColumn& column : kSettings)
    one.*column.setting = cells.known(column.name, kTokens);
  return one;
}

Point point_of(Cells& cells) {
  Point point;
  point.shape = {cells.whole("isl", kTokens), cells.whole("osl", kTokens)};
  point.concurrency = cells.number("concurrency", kConcurrency);
  point.ttft = Millis{cells.number("ttft_ms", kTimes)};
  point.tpot = Millis{cells.number("tpot_ms", kTimes)};
  for (const TimeColumn& column : kTimeColumns)
    point.*column.of.*column.at = cells.time_if_there(column.name);
  point.itl = cells.time_if_there(kItlColumn);
  if (!cells.text_if_there(kRateColumn).empty())
    point.rate = Rps{cells.number(kRateColumn, kRates)};
  return point;
}

std::string fault_of(const Point& point) {
  for (const auto& [name, percentiles] :
       {std::pair{"ttft", &point.ttft_at}, {"tpot", &point.tpot_at}, {"itl", &point.itl_at}})
    if (std::string fault = fault_of(*percentiles); !fault.empty()) return name + (" " + fault);
  return "";
}

std::string cell(const std::optional<int>& number) {
  return number ? fmt::format("{}", *number) : "";
}
std::string cell(const std::optional<Millis>& time) {
  return time ? fmt::format("{}", time->value) : "";
}

// Columns beyond those that have to be there, of what any of the points has.
struct MoreColumns {
  explicit MoreColumns(const std::vector<Measured>& all) {
    const auto any = [&](auto has) {
      return std::ranges::any_of(
          all, [&](const Measured& one) { return std::ranges::any_of(one.points, has); });
    };
    for (const TimeColumn& column : kTimeColumns)
      if (any([&](const Point& p) { return (p.*column.of.*column.at).has_value(); }))
        times.push_back(column);
    itl = any([](const Point& p) { return p.itl.has_value(); });
    rate = any([](const Point& p) { return p.rate.has_value(); });
  }
  std::string header() const {
    std::string text = itl ? fmt::format(",{}", kItlColumn) : "";
    for (const TimeColumn& column : times) text += fmt::format(",{}", column.name);
    if (rate) text += fmt::format(",{}", kRateColumn);
    return text;
  }
  std::string cells(const Point& point) const {
    std::string text = itl ? "," + cell(point.itl) : "";
    for (const TimeColumn& column : times) text += "," + cell(point.*column.of.*column.at);
    if (rate) text += point.rate ? fmt::format(",{}", point.rate->value) : ",";
    return text;
  }

  std::vector<TimeColumn> times;
  bool itl = false, rate = false;
};

}  // namespace

std::string to_string(const Configuration& c) {
  std::string text = c.model;
  const auto add = [&](const std::string& word, const char* before) {
    if (!word.empty()) text += before + word;
  };
  add(c.precision, " ");
  add(c.system, " on ");
  add(c.profile, " ");
  add(c.backend, ", ");
  add(c.version, " ");
  const std::pair<const char*, const std::optional<int>*> splits[] = {
      {", tp ", &c.tensor},
      {", pp ", &c.pipeline},
      {", dp ", &c.attention_data},
      {", moe tp ", &c.expert_tensor},
      {", ep ", &c.experts},
      {", steps of ", &c.step_tokens},
      {", KV ", &c.kv_tokens},
      {", KV moves in ns ", &c.kv_move_ns},
      {", SMs ", &c.units},
      {", weights of MiB ", &c.weights_mib},
      {", KV bytes a token ", &c.kv_token_bytes}};
  for (const auto& [name, number] : splits) add(cell(*number), name);
  return text;
}

std::string fault_of(const Percentiles& percentiles) {
  std::optional<Millis> before;
  for (const auto at : kPercentiles) {
    const std::optional<Millis>& one = percentiles.*at;
    if (one && before && *one < *before) return "percentiles do not ascend";
    if (one) before = one;
  }
  return "";
}

std::vector<Point> closed_loops(const std::vector<Point>& points) {
  std::vector<Point> closed;
  std::ranges::copy_if(points, std::back_inserter(closed),
                       [](const Point& point) { return !point.rate; });
  return closed;
}

std::vector<Measured> closed_loops(const std::vector<Measured>& all) {
  std::vector<Measured> closed;
  for (const Measured& one : all) closed.push_back({one.configuration, closed_loops(one.points)});
  return closed;
}

int Measured::shapes() const {
  std::set<Shape> all;
  for (const Point& point : points) all.insert(point.shape);
  return static_cast<int>(all.size());
}

Result<std::vector<Measured>> parse_points(const std::string& file, std::string_view text) {
  const Result<Csv> csv = profile::parse_csv(file, text);
  if (!csv) return failed(csv.error());
  std::vector<std::string_view> others = {kProfileColumn};
  for (const SettingColumn& column : kSettings) others.push_back(column.name);
  for (const TimeColumn& column : kTimeColumns) others.push_back(column.name);
  for (const std::string_view name : {kItlColumn, kRateColumn}) others.push_back(name);
  const Result<void> columns =
      profile::require_columns(*csv, {kColumns.begin(), kColumns.end()}, others);
  if (!columns) return failed(columns.error());
  std::vector<Measured> all;
  std::map<Configuration, std::size_t> places;
  for (const CsvRow& row : csv->rows) {
    Cells cells(*csv, row);
    const Configuration configuration = configuration_of(cells);
    const Point point = point_of(cells);
    if (cells.error()) return failed(*cells.error());
    if (configuration.model.empty()) return bad_input(csv->at(row), "model is empty");
    if (std::string fault = fault_of(point); !fault.empty())
      return bad_input(csv->at(row), std::move(fault));
    const auto [place, added] = places.emplace(configuration, all.size());
    if (added) all.push_back({configuration, {}});
    all[place->second].points.push_back(point);
  }
  return all;
}

std::string points_csv(const std::vector<Measured>& all) {
  const auto any = [&](auto member) {
    return std::ranges::any_of(all, [&](const Measured& one) {
      return one.configuration.*member != decltype(one.configuration.*member){};
    });
  };
  const bool profiles = any(&Configuration::profile);
  std::string text = joined(kColumns, ",");
  if (profiles) text += fmt::format(",{}", kProfileColumn);
  for (const SettingColumn& column : kSettings)
    if (any(column.setting)) text += fmt::format(",{}", column.name);
  const MoreColumns more(all);
  text += more.header() + "\n";
  for (const auto& [c, points] : all) {
    std::string front, split, back = profiles ? "," + profile::csv_cell(c.profile) : "";
    for (const SettingColumn& column : kSettings)
      if (any(column.setting)) back += "," + cell(c.*column.setting);
    for (const std::string* word : {&c.system, &c.backend, &c.version, &c.model, &c.precision})
      front += profile::csv_cell(*word) + ",";
    for (const auto* number :
         {&c.tensor, &c.pipeline, &c.attention_data, &c.expert_tensor, &c.experts})
      split += cell(*number) + ",";
    for (const Point& p : points)
      text += fmt::format("{}{},{},{},{}{},{}{}{}\n", front, p.shape.tokens_in, p.shape.tokens_out,
                          p.concurrency, split, p.ttft.value, p.tpot.value, back, more.cells(p));
  }
  return text;
}

}  // namespace partita::llm
