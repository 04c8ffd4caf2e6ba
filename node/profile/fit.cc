#include "profile/fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/numeric/dense.h"

namespace partita::profile {
namespace {

constexpr std::size_t kN = kSpeedCoefficients;
using Vector = std::array<double, kN>;

constexpr double kNoise = 0.05;     // residuals well beyond this count as outliers (Cauchy loss)
constexpr double kPriorWidth = 4;   // e-folds that a coefficient may stray from its starting guess
constexpr double kLongestStep = 1;  // e-folds per iteration
constexpr double kDifference = 1e-4;  // of the numeric derivative, in e-folds
constexpr double kConverged = 1e-7;   // relative gain of an iteration
constexpr int kIterations = 200;
constexpr int kRefitIterations = 6;
constexpr int kDampings = 10;

// A measured point and where it was measured.
struct Sample {
  Partition on;
  ProfilePoint point;
};

// Least squares in the logarithms of the speed coefficients, pulled weakly towards `prior`: what
// the points do not determine stays at the guess.
struct Problem {
  std::vector<Sample> samples;
  Vector prior;
};

Vector logarithms(const PerformanceLaw& law) {
  Vector x{};
  for (std::size_t i = 0; i < kN; ++i) {
    x[i] = std::log(std::max(law.*kCoefficients[i].member, 1e-9));
  }
  return x;
}

PerformanceLaw with_speed(PerformanceLaw law, const Vector& x) {
  for (std::size_t i = 0; i < kN; ++i) {
    const Coefficient& c = kCoefficients[i];
    law.*c.member = std::clamp(std::exp(x[i]), c.min, c.max);
  }
  return law;
}

double residual(const PerformanceLaw& law, const Sample& sample) {
  const ProfilePoint& p = sample.point;
  return std::log(predict(law, sample.on, p.batch, p.processes).throughput / p.throughput);
}

double cost(const Problem& problem, const Vector& x) {
  const PerformanceLaw law = with_speed({}, x);
  double sum = 0;
  for (const Sample& sample : problem.samples) {
    const double r = residual(law, sample) / kNoise;
    sum += std::log1p(r * r);
  }
  for (std::size_t i = 0; i < kN; ++i) {
    const double strayed = (x[i] - problem.prior[i]) / kPriorWidth;
    sum += strayed * strayed;
  }
  return sum;
}

// Gauss-Newton normal equations with the Cauchy weights of the present residuals.
struct Normal {
  std::array<double, kN * kN> matrix{};
  Vector gradient{};
};

Normal normal_equations(const Problem& problem, const Vector& x) {
  const PerformanceLaw law = with_speed({}, x);
  std::array<PerformanceLaw, kN> shifted;
  for (std::size_t i = 0; i < kN; ++i) {
    Vector moved = x;
    moved[i] += kDifference;
    shifted[i] = with_speed({}, moved);
  }
  Normal normal;
  for (const Sample& sample : problem.samples) {
    const double r = residual(law, sample);
    const double weight = 1 / (kNoise * kNoise + r * r);
    Vector slope{};
    for (std::size_t i = 0; i < kN; ++i) {
      slope[i] = (residual(shifted[i], sample) - r) / kDifference;
    }
    for (std::size_t i = 0; i < kN; ++i) {
      normal.gradient[i] += weight * r * slope[i];
      for (std::size_t k = 0; k < kN; ++k)
        normal.matrix[i * kN + k] += weight * slope[i] * slope[k];
    }
  }
  for (std::size_t i = 0; i < kN; ++i) {
    normal.gradient[i] += (x[i] - problem.prior[i]) / (kPriorWidth * kPriorWidth);
    normal.matrix[i * kN + i] += 1 / (kPriorWidth * kPriorWidth);
  }
  return normal;
}

// Levenberg-Marquardt from `x`.
Vector minimise(const Problem& problem, Vector x, int iterations) {
  double damping = 1e-2;
  double best = cost(problem, x);
  for (int iteration = 0; iteration < iterations; ++iteration) {
    const Normal normal = normal_equations(problem, x);
    const double before = best;
    for (int attempt = 0; attempt < kDampings && best == before; ++attempt) {
      auto damped = normal.matrix;
      for (std::size_t i = 0; i < kN; ++i) damped[i * kN + i] *= 1 + damping;
      const auto step = numeric::solve_symmetric(damped, normal.gradient);
      Vector moved = x;
      for (std::size_t i = 0; i < kN; ++i)
        moved[i] -= std::clamp(step[i], -kLongestStep, kLongestStep);
      const double now = cost(problem, moved);
      if (now < best) {
        x = moved;
        best = now;
        damping = std::max(damping / 5, 1e-9);
      } else {
        damping *= 5;
      }
    }
    if (before - best <= kConverged * before) break;
  }
  return x;
}

// A guess from the scale of the data: the shortest latency is launching, the highest throughput is
// mostly compute.
PerformanceLaw guess(const std::vector<Sample>& samples) {
  const auto latency = [](const Sample& s) {
    return 1000.0 * s.point.batch * s.point.processes / s.point.throughput.value;
  };
  const Sample* fastest = &samples.front();
  double shortest = latency(samples.front());
  for (const Sample& s : samples) {
    shortest = std::min(shortest, latency(s));
    if (s.point.throughput > fastest->point.throughput) fastest = &s;
  }
  const double request_ms = 1000 / fastest->point.throughput.value;
  PerformanceLaw law;
  law.launch_ms = shortest;
  law.contention_ms = 0.02 * shortest;
  law.host_ms = 0.05 * request_ms;
  law.compute_sm_ms = 0.6 * request_ms * fastest->on.sms;
  law.serial_ms = 0.1 * request_ms;
  law.traffic_mb = 0.3 * request_ms * fastest->on.bandwidth_gb_s;
  law.ramp_requests = 0.5;
  law.sharpness = 4;
  return law;
}

using Partitions = std::map<int, Partition>;

Result<Partitions> partitions_of(const WorkloadProfile& profile, const hw::GpuModel& gpu) {
  Partitions partitions;
  for (const ProfilePoint& p : profile.points) {
    if (partitions.contains(p.gpcs)) continue;
    const Partition on = TRY(partition(gpu, p.gpcs));
    partitions.emplace(p.gpcs, on);
  }
  for (const NoRun& p : profile.no_runs) {  // a size that the GPU lacks did not run, of course
    if (const Result<Partition> on = partition(gpu, p.gpcs)) partitions.emplace(p.gpcs, *on);
  }
  return partitions;
}

std::vector<Sample> samples_of(const WorkloadProfile& profile, const Partitions& partitions) {
  std::vector<Sample> samples;
  for (const ProfilePoint& p : profile.points) samples.push_back({partitions.at(p.gpcs), p});
  return samples;
}

// A combination that was tried, and whether it ran.
struct GridRow {
  Partition on;
  int batch, processes;
  bool ran;
};

// What was not tried says nothing.
std::vector<GridRow> tried(const WorkloadProfile& profile, const Partitions& partitions) {
  std::vector<GridRow> rows;
  for (const ProfilePoint& p : profile.points)
    rows.push_back({partitions.at(p.gpcs), p.batch, p.processes, true});
  for (const NoRun& p : profile.no_runs)
    if (const auto on = partitions.find(p.gpcs); on != partitions.end())
      rows.push_back({on->second, p.batch, p.processes, false});
  return rows;
}

// The best memory per process for a given memory per request: the middle of the widest interval in
// which most rows are predicted correctly. A row is predicted to run when the process needs no
// more than `limit`.
struct MemoryChoice {
  int right = -1;
  double width = 0;  // relative
  double process_mib = 0, request_mib = 0;
};

MemoryChoice best_process_memory(const std::vector<GridRow>& rows, double request_mib) {
  std::vector<std::pair<double, bool>> limits;  // memory left for a process, whether the row ran
  int right = 0;  // with 0 MiB per process, later with each limit passed
  for (const GridRow& row : rows) {
    const double limit = row.on.memory.value / row.processes - request_mib * row.batch;
    if ((limit >= 0) == row.ran) ++right;
    if (limit >= 0) limits.emplace_back(limit, row.ran);
  }
  std::sort(limits.begin(), limits.end());
  MemoryChoice best;
  double from = 0;
  for (const auto& [limit, ran] : limits) {
    const double width = (limit - from) / (limit + from + 1);
    if (limit > from && (right > best.right || (right == best.right && width > best.width))) {
      best = {right, width, (from + limit) / 2, request_mib};
    }
    right += ran ? -1 : 1;
    from = limit;
  }
  return best;
}

// Memory of processes and requests from what ran and what did not; 0, 0 when everything ran.
MemoryChoice fit_feasibility(const std::vector<GridRow>& rows) {
  const bool all_ran =
      std::all_of(rows.begin(), rows.end(), [](const GridRow& r) { return r.ran; });
  MemoryChoice best;
  if (all_ran) return best;
  constexpr double kLeastMib = 0.1, kMostMib = 1e5, kRatio = 1.01;
  for (double request = kLeastMib; request < kMostMib; request *= kRatio) {
    const MemoryChoice choice = best_process_memory(rows, request);
    if (choice.right > best.right || (choice.right == best.right && choice.width > best.width)) {
      best = choice;
    }
  }
  return best;
}

// Memory from measured values: least squares of memory / processes = process + request x batch,
// relative.
MemoryChoice fit_measured_memory(const WorkloadProfile& profile) {
  double w = 0, wb = 0, wbb = 0, wm = 0, wbm = 0;
  for (const ProfilePoint& p : profile.points) {
    if (!p.memory || p.memory->value <= 0) continue;
    const double m = p.memory->value / p.processes, weight = 1 / (m * m);
    w += weight;
    wb += weight * p.batch;
    wbb += weight * p.batch * p.batch;
    wm += weight * m;
    wbm += weight * p.batch * m;
  }
  if (w == 0) return {};
  const double determinant = w * wbb - wb * wb;
  const double slope =
      determinant > 1e-9 * w * wbb ? std::max(0.0, (w * wbm - wb * wm) / determinant) : 0;
  return {0, 0, std::max(0.0, (wm - slope * wb) / w), slope};
}

double rounded(double value) {
  if (value == 0) return 0;
  const double scale = std::pow(10, 4 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

}  // namespace

Result<PerformanceLaw> fit(const WorkloadProfile& profile, const hw::GpuModel& gpu) {
  if (profile.points.empty()) return bad_input(profile.model, "no points to fit a law to");
  const Partitions partitions = TRY(partitions_of(profile, gpu));
  const std::vector<Sample> samples = samples_of(profile, partitions);
  const Vector start = logarithms(guess(samples));
  PerformanceLaw law = with_speed({}, minimise({samples, start}, start, kIterations));
  law.model = profile.model;
  MemoryChoice memory = fit_measured_memory(profile);
  if (memory.right < 0) memory = fit_feasibility(tried(profile, partitions));
  law.process_mib = memory.process_mib;
  law.request_mib = memory.request_mib;
  for (const Coefficient& c : kCoefficients) law.*c.member = rounded(law.*c.member);
  return law;
}

Result<MemoryScore> memory_score(const PerformanceLaw& law, const WorkloadProfile& profile,
                                 const hw::GpuModel& gpu) {
  const Partitions partitions = TRY(partitions_of(profile, gpu));
  MemoryScore score;
  for (const GridRow& row : tried(profile, partitions)) {
    ++score.rows;
    if (fits(law, row.on, row.batch, row.processes) == row.ran) ++score.right;
  }
  return score;
}

Result<std::vector<double>> errors(const PerformanceLaw& law, const WorkloadProfile& profile,
                                   const hw::GpuModel& gpu) {
  const Partitions partitions = TRY(partitions_of(profile, gpu));
  std::vector<double> result;
  for (const Sample& sample : samples_of(profile, partitions)) {
    result.push_back(std::abs(std::expm1(residual(law, sample))));
  }
  return result;
}

Result<std::vector<double>> leave_one_out(const PerformanceLaw& law, const WorkloadProfile& profile,
                                          const hw::GpuModel& gpu) {
  if (profile.points.size() < 2) return bad_input(profile.model, "one point: nothing to leave out");
  const Partitions partitions = TRY(partitions_of(profile, gpu));
  const std::vector<Sample> samples = samples_of(profile, partitions);
  std::vector<double> result;
  for (std::size_t left_out = 0; left_out < samples.size(); ++left_out) {
    std::vector<Sample> others = samples;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(left_out));
    const Problem problem{others, logarithms(guess(others))};
    const Vector x = minimise(problem, logarithms(law), kRefitIterations);
    result.push_back(std::abs(std::expm1(residual(with_speed({}, x), samples[left_out]))));
  }
  return result;
}

Result<std::vector<ProfilePoint>> suspects(const PerformanceLaw& law,
                                           const WorkloadProfile& profile,
                                           const hw::GpuModel& gpu) {
  const Partitions partitions = TRY(partitions_of(profile, gpu));
  std::vector<ProfilePoint> result;
  for (const Sample& sample : samples_of(profile, partitions)) {
    if (residual(law, sample) < -std::log(kSuspect)) result.push_back(sample.point);
  }
  return result;
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double last = static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * last)];
}

}  // namespace partita::profile
