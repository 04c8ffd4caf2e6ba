#include "profile/consistency.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace partita::profile {
namespace {

// A row matches a mistake when it is as far off as the mistake makes it, within this factor.
constexpr double kMatch = 1.5;
constexpr double kWithinMs = 1;  // columns in whole milliseconds are rounded that much

// What people get wrong: the latency or throughput column is `factor` times too small, times batch
// and processes where these say so. Which of the two columns holds the wrong unit is what `write`
// tells; the order is that of plausibility.
enum class Column { latency, throughput, both };
struct Mistake {
  std::string_view seems;
  Column wrong;
  double agreement;                // that a row with it has ...
  int batches = 0, processes = 0;  // ... times batch^batches x processes^processes
};

constexpr Mistake kNative[] = {
    {"the latency seems to be in seconds", Column::latency, 1e-3},
    {"the throughput seems to be that of each process, not of all together", Column::throughput, 1,
     0, -1},
    {"the latency seems to be in seconds and the throughput that of each process, as in ParvaGPU's "
     "files",
     Column::both, 1e-3, 0, -1},
    {"the latency seems to be in microseconds", Column::latency, 1e3},
    {"the throughput seems to count batches, not requests, or the latency to be that of one "
     "request",
     Column::throughput, 1, -1},
    {"the throughput seems to be per minute", Column::throughput, 60},
    {"the throughput seems to be per hour", Column::throughput, 3600},
    {"the throughput seems to count the batches of each process", Column::throughput, 1, -1, -1},
    {"the latency seems to be in nanoseconds", Column::latency, 1e6},
};
constexpr Mistake kParvaGpu[] = {
    {"the latency seems to be in milliseconds", Column::latency, 1e3},
    {"the throughput seems to be that of all processes, not of each", Column::throughput, 1, 0, 1},
    {"the latency seems to be in milliseconds and the throughput that of all processes, as in our "
     "own CSV",
     Column::both, 1e3, 0, 1},
    {"the throughput seems to count batches, not requests, or the latency to be that of one "
     "request",
     Column::throughput, 1, -1},
    {"the latency seems to be in microseconds", Column::latency, 1e6},
    {"the throughput seems to be per minute", Column::throughput, 60},
    {"the throughput seems to be per hour", Column::throughput, 3600},
};

double made_by(const Mistake& mistake, const ProfilePoint& point) {
  return mistake.agreement * std::pow(point.batch, mistake.batches) *
         std::pow(point.processes, mistake.processes);
}

bool explains(const Mistake& mistake, const ProfilePoint& point) {
  return std::abs(std::log(agreement(point) / made_by(mistake, point))) < std::log(kMatch);
}

bool contradicts(const ProfilePoint& point) {
  const double ratio = agreement(point);
  return ratio > kContradiction || ratio < 1 / kContradiction;
}

// The mistake that explains `first` and the most of the others, or null.
const Mistake* best_mistake(const std::vector<const LinedPoint*>& bad, const LinedPoint& first,
                            const RowUnits& units) {
  const Mistake* best = nullptr;
  std::ptrdiff_t most = 0;
  const auto consider = [&](const Mistake& mistake) {
    if (!explains(mistake, first.point)) return;
    const auto explained = std::count_if(bad.begin(), bad.end(), [&](const LinedPoint* row) {
      return explains(mistake, row->point);
    });
    if (explained <= most) return;
    most = explained;
    best = &mistake;
  };
  if (units.throughput_per_process)
    for (const Mistake& mistake : kParvaGpu) consider(mistake);
  else
    for (const Mistake& mistake : kNative) consider(mistake);
  return best;
}

double own_throughput(const ProfilePoint& point, const RowUnits& units) {
  return point.throughput.value / (units.throughput_per_process ? point.processes : 1);
}

double own_latency(const ProfilePoint& point, const RowUnits& units) {
  return point.latency.value / units.latency_unit_ms;
}

double implied_ms(const ProfilePoint& point) { return point.latency.value / agreement(point); }

// "4 processes with batches of 8".
std::string load_text(const ProfilePoint& point) {
  const std::string batches =
      point.batch == 1 ? "single requests" : fmt::format("batches of {}", point.batch);
  return point.processes == 1 ? "a process with " + batches
                              : fmt::format("{} processes with {}", point.processes, batches);
}

std::string times_text(double factor) {
  return factor < 100 || factor > 1e9 ? fmt::format("{:.3g}", factor)
                                      : fmt::format("{:.0f}", factor);
}

// What the row says, and what follows from it.
std::string facts_text(const ProfilePoint& point, const RowUnits& units) {
  const double off = 1 / agreement(point);
  return fmt::format(
      "{} {:.4g} and {} {:.4g} contradict each other: {} at {:.4g} requests/s in all take {:.4g} "
      "ms "
      "a batch, {} that latency",
      units.throughput, own_throughput(point, units), units.latency, own_latency(point, units),
      load_text(point), point.throughput.value, implied_ms(point),
      off >= 1 ? times_text(off) + " times" : "1/" + times_text(1 / off) + " of");
}

// What to write instead, in the form's own units.
std::string remedy_text(const Mistake& mistake, const ProfilePoint& point, const RowUnits& units) {
  const double by_processes = std::pow(point.processes, mistake.processes);
  const double wrong = made_by(mistake, point);
  const auto latency = [&](double factor) {
    return fmt::format("{} {:.4g}", units.latency, own_latency(point, units) / factor);
  };
  const auto throughput = [&](double factor) {
    return fmt::format("{} {:.4g}", units.throughput, own_throughput(point, units) / factor);
  };
  if (mistake.wrong == Column::latency) return latency(wrong);
  if (mistake.wrong == Column::throughput) return throughput(wrong);
  return throughput(by_processes) + ", " + latency(wrong / by_processes);
}

Contradiction explained(const std::vector<const LinedPoint*>& bad, const RowUnits& units,
                        std::size_t rows) {
  const LinedPoint& first = *bad.front();
  std::string message = facts_text(first.point, units);
  if (const Mistake* mistake = best_mistake(bad, first, units)) {
    message += fmt::format("; {} ({} would agree)", mistake->seems,
                           remedy_text(*mistake, first.point, units));
  } else {
    message += "; one of the two is wrong";
  }
  if (rows > 1)
    message += fmt::format("; {} of the {} rows that ran contradict themselves", bad.size(), rows);
  return {first.line, std::move(message)};
}

// Rows of one model with several processes, when all of them are off by just their number.
struct Several {
  std::vector<const LinedPoint*> rows;
  bool divided = true;     // all have 1 / processes
  bool multiplied = true;  // all have processes

  void add(const LinedPoint& row) {
    const double ratio = agreement(row.point);
    const auto near = [](double x) { return std::abs(x - 1) <= kOffByProcesses; };
    rows.push_back(&row);
    divided = divided && near(ratio * row.point.processes);
    multiplied = multiplied && near(ratio / row.point.processes);
  }
  bool off() const { return rows.size() >= kOffByProcessesRows && (divided || multiplied); }
};

std::string_view off_by_processes(bool divided, bool per_process) {
  if (divided)
    return per_process ? "the throughput seems to be divided by the processes twice"
                       : "the throughput seems to be that of each process, not of all together";
  return per_process ? "the throughput seems to be that of all processes, not of each"
                     : "the throughput seems to be multiplied by the processes twice";
}

std::optional<Contradiction> off_by_processes(const std::vector<LinedPoint>& rows,
                                              const RowUnits& units) {
  std::map<std::string_view, Several> models;
  for (const LinedPoint& row : rows)
    if (row.point.processes > 1) models[row.model].add(row);
  const Several* first = nullptr;
  for (const auto& [model, several] : models)
    if (several.off() && (!first || several.rows.front()->line < first->rows.front()->line))
      first = &several;
  if (!first) return std::nullopt;
  const LinedPoint& row = *first->rows.front();
  const double factor = first->divided ? row.point.processes : 1.0 / row.point.processes;
  return Contradiction{
      row.line,
      fmt::format("{}; {} ({} {:.4g} would agree); so in all {} rows of this model with several "
                  "processes",
                  facts_text(row.point, units),
                  off_by_processes(first->divided, units.throughput_per_process), units.throughput,
                  own_throughput(row.point, units) * factor, first->rows.size())};
}

}  // namespace

double agreement(const ProfilePoint& point) {
  return point.latency.value * point.throughput.value / (1000.0 * point.batch * point.processes);
}

std::optional<Contradiction> contradiction(const std::vector<LinedPoint>& rows,
                                           const RowUnits& units) {
  std::vector<const LinedPoint*> bad;
  for (const LinedPoint& row : rows)
    if (contradicts(row.point)) bad.push_back(&row);
  if (!bad.empty()) return explained(bad, units, rows.size());
  return off_by_processes(rows, units);
}

std::vector<std::string> doubts(const ProfileTable& table) {
  std::vector<std::string> sentences;
  for (const auto& [model, profile] : table) {
    const ProfilePoint* worst = nullptr;
    std::size_t count = 0;
    const auto off = [](const ProfilePoint& point) { return std::abs(std::log(agreement(point))); };
    for (const ProfilePoint& point : profile.points) {
      if (off(point) <= std::log(kDoubt)) continue;
      if (std::abs(point.latency.value - implied_ms(point)) <= kWithinMs) continue;
      ++count;
      if (!worst || off(point) > off(*worst)) worst = &point;
    }
    if (!worst) continue;
    sentences.push_back(fmt::format(
        "profile of {}: latency and throughput differ by more than {:g} x in {} of {} points; the "
        "worst is {} GPCs, batch {}, {} processes: {:.4g} ms, where {:.4g} requests/s mean {:.4g} "
        "ms",
        model, kDoubt, count, profile.points.size(), worst->gpcs, worst->batch, worst->processes,
        worst->latency.value, worst->throughput.value, implied_ms(*worst)));
  }
  return sentences;
}

}  // namespace partita::profile
