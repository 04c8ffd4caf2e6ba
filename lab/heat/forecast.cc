#include "heat/forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/index.h"
#include "base/numeric/nnls.h"

namespace partita::thermal {
namespace {

constexpr int kCandidates = 24;
constexpr double kFitted = 0.7;        // of the points; the others are predicted
constexpr double kLeastChange = 0.15;  // of the largest power
constexpr double kLeastShare = 0.01;   // of the resistance; less is no stage
constexpr double kNever = 1e9;         // seconds

// What one watt per watt would make of a stage of 1 K/W, at every point: the power seen through
// the time constant, as if the first power had lasted for ever before.
std::vector<double> filtered(std::span<const HeatPoint> points, double time) {
  std::vector<double> values{points.front().power.value};
  for (std::size_t i = 1; i < points.size(); ++i) {
    const double kept = std::exp(-(points[i].at - points[i - 1].at).value / time);
    values.push_back(values.back() * kept + points[i].power.value * (1 - kept));
  }
  return values;
}

struct Coefficients {
  double ambient = 0;
  std::vector<double> resistances;
  double start = 0;  // K above or below that past, gone with the slowest constant
  double rms = 0;
};

// Least squares, not negative but for the start: a column for warmer and one for colder.
Coefficients solve(std::span<const HeatPoint> points, const std::vector<double>& times,
                   std::optional<Celsius> ambient) {
  const int stages = static_cast<int>(times.size());
  numeric::DenseRows matrix = numeric::dense_rows(static_cast<int>(points.size()), stages + 3);
  std::vector<double> right;
  for (int j = 0; j < stages; ++j) {
    const std::vector<double> column = filtered(points, times[at(j)]);
    for (std::size_t i = 0; i < points.size(); ++i) matrix.at(static_cast<int>(i), j) = column[i];
  }
  const double slowest = *std::ranges::max_element(times);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const int row = static_cast<int>(i);
    const double left = std::exp(-(points[i].at - points[0].at).value / slowest);
    matrix.at(row, stages) = ambient ? 0 : 1;
    matrix.at(row, stages + 1) = left;
    matrix.at(row, stages + 2) = -left;
    right.push_back(points[i].temperature.value - (ambient ? ambient->value : 0));
  }
  const std::vector<double> x = numeric::nnls(matrix, right);
  Coefficients found;
  found.resistances.assign(x.begin(), x.begin() + stages);
  found.ambient = ambient ? ambient->value : x[at(stages)];
  found.start = x[at(stages + 1)] - x[at(stages + 2)];
  double squares = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    double sum = -right[i];
    for (std::size_t j = 0; j < x.size(); ++j)
      sum += matrix.at(static_cast<int>(i), static_cast<int>(j)) * x[j];
    squares += sum * sum;
  }
  found.rms = std::sqrt(squares / static_cast<double>(points.size()));
  return found;
}

// The candidates that were given something, neighbours as one, the largest kMostStages of them.
std::vector<double> chosen_times(const std::vector<double>& candidates,
                                 const std::vector<double>& resistances) {
  double all = 0;
  for (const double r : resistances) all += r;
  struct Group {
    double weight = 0, log_time = 0;
  };
  std::vector<Group> groups;
  bool open = false;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (resistances[i] <= kLeastShare * all) {
      open = false;
      continue;
    }
    if (!open) groups.emplace_back();
    open = true;
    groups.back().weight += resistances[i];
    groups.back().log_time += resistances[i] * std::log(candidates[i]);
  }
  std::ranges::stable_sort(groups,
                           [](const Group& a, const Group& b) { return a.weight > b.weight; });
  if (groups.size() > kMostStages) groups.resize(kMostStages);
  std::vector<double> times;
  for (const Group& group : groups) times.push_back(std::exp(group.log_time / group.weight));
  std::ranges::sort(times);
  return times;
}

// Each constant a little longer or shorter as long as that fits better.
std::vector<double> refined(std::span<const HeatPoint> points, std::vector<double> times,
                            std::optional<Celsius> ambient) {
  double best = solve(points, times, ambient).rms;
  for (double step = 1.3; step > 1.005; step = std::sqrt(step))
    for (double& time : times)
      for (const double factor : {step, 1 / step}) {
        const double before = time;
        time *= factor;
        const double rms = solve(points, times, ambient).rms;
        if (rms < best) {
          best = rms;
        } else {
          time = before;
        }
      }
  std::ranges::sort(times);
  return times;
}

GpuThermalModel fit(std::span<const HeatPoint> points, std::optional<Celsius> ambient) {
  const double span = (points.back().at - points.front().at).value;
  const double shortest = 2 * span / static_cast<double>(points.size());
  std::vector<double> candidates;
  for (int i = 0; i < kCandidates; ++i)
    candidates.push_back(shortest * std::pow(span / shortest, i / (kCandidates - 1.0)));
  std::vector<double> times =
      chosen_times(candidates, solve(points, candidates, ambient).resistances);
  if (times.empty()) times = {span / 3};
  times = refined(points, std::move(times), ambient);
  const Coefficients found = solve(points, times, ambient);
  GpuThermalModel model;
  model.ambient = Celsius{found.ambient};
  model.rms_k = found.rms;
  model.span = Seconds{span};
  for (std::size_t j = 0; j < times.size(); ++j) {
    double rise = found.resistances[j] * filtered(points, times[j]).back();
    if (j + 1 == times.size()) rise += found.start * std::exp(-span / times[j]);
    model.stages.push_back({found.resistances[j], Seconds{times[j]}, rise});
  }
  return model;
}

double rise_after(const GpuThermalModel& model, double watts, double seconds) {
  double rise = 0;
  for (const ThermalStage& stage : model.stages) {
    const double end = stage.resistance * watts;
    rise += end + (stage.rise - end) * std::exp(-seconds / stage.time.value);
  }
  return rise;
}

// How far the last points lie from what a fit to those before says of them.
double held_out(std::span<const HeatPoint> points, std::optional<Celsius> ambient) {
  const std::size_t first = static_cast<std::size_t>(kFitted * static_cast<double>(points.size()));
  GpuThermalModel model = fit(points.first(first), ambient);
  double squares = 0;
  for (std::size_t i = first; i < points.size(); ++i) {
    const double seconds = (points[i].at - points[i - 1].at).value;
    double rise = 0;
    for (ThermalStage& stage : model.stages) {
      const double end = stage.resistance * points[i].power.value;
      stage.rise = end + (stage.rise - end) * std::exp(-seconds / stage.time.value);
      rise += stage.rise;
    }
    const double error = model.ambient.value + rise - points[i].temperature.value;
    squares += error * error;
  }
  return std::sqrt(squares / static_cast<double>(points.size() - first));
}

}  // namespace

double GpuThermalModel::resistance() const {
  double sum = 0;
  for (const ThermalStage& stage : stages) sum += stage.resistance;
  return sum;
}

Result<GpuThermalModel> fit_thermal(std::span<const HeatPoint> points,
                                    std::optional<Celsius> ambient) {
  if (points.size() < kLeastPoints)
    return bad_input("", fmt::format("{} samples with power and temperature; {} are wanted",
                                     points.size(), kLeastPoints));
  const auto [least, most] =
      std::ranges::minmax(points, {}, [](const HeatPoint& point) { return point.power.value; });
  if (!ambient && most.power.value - least.power.value < kLeastChange * most.power.value)
    return bad_input(
        "", fmt::format("power stays between {:.1f} and {:.1f} W: the room's temperature cannot be "
                        "told from the cooler's resistance; give it with --air, or record a "
                        "load that changes",
                        least.power.value, most.power.value));
  GpuThermalModel model = fit(points, ambient);
  model.least = least.power;
  model.most = most.power;
  if (!(model.resistance() > 0))
    return bad_input("", "the temperature does not rise with the power");
  model.held_out_rms_k = held_out(points, ambient);
  return model;
}

Celsius temperature_after(const GpuThermalModel& model, Watts power, Seconds time) {
  return model.ambient + Celsius{rise_after(model, power.value, time.value)};
}

Celsius settled_temperature(const GpuThermalModel& model, Watts power) {
  return model.ambient + Celsius{model.resistance() * power.value};
}

std::optional<Seconds> time_to_reach(const GpuThermalModel& model, Watts power, Celsius limit) {
  const double wanted = (limit - model.ambient).value;
  if (rise_after(model, power.value, 0) >= wanted) return Seconds{0};
  // Stages that cool while others warm can make a hump: look in steps that grow, then halve.
  double low = 0;
  for (double high = model.stages.front().time.value / 16; high < kNever; high *= 1.1) {
    if (rise_after(model, power.value, high) < wanted) {
      low = high;
      continue;
    }
    for (int i = 0; i < 60; ++i) {
      const double middle = (low + high) / 2;
      (rise_after(model, power.value, middle) < wanted ? low : high) = middle;
    }
    return Seconds{high};
  }
  return std::nullopt;
}

Watts sustainable(const GpuThermalModel& model, Celsius limit) {
  return Watts{std::max(0.0, (limit - model.ambient).value / model.resistance())};
}

}  // namespace partita::thermal
