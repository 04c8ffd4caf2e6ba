#include "heat/dtm/dtm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <set>

#include "base/check.h"

namespace partita::dtm {
namespace {

constexpr double kMostWatts = 1e4;  // of one block

double hottest(const std::vector<double>& kelvin) {
  return *std::max_element(kelvin.begin(), kelvin.end());
}

// How work and powers go at one clock.
struct Pace {
  double rate = 1, dynamic = 1, idle = 1;
};
Pace pace_of(const DtmCase& dtm, const HotWork& work, int clock) {
  const double top = dtm.clocks.mhz.back(), mhz = dtm.clocks.mhz[static_cast<std::size_t>(clock)];
  const double volts = std::pow(
      dtm.clocks.volts(clock) / dtm.clocks.volts(static_cast<int>(dtm.clocks.mhz.size()) - 1), 2);
  Pace pace;
  pace.rate = 1 / (work.memory_share + (1 - work.memory_share) * top / mhz);
  pace.dynamic = pace.rate * volts;
  pace.idle = 1 - dtm.idle_clocked + dtm.idle_clocked * mhz / top * volts;
  return pace;
}

// What the hottest block will be at the end of an epoch for every clock: the free decay plus what a
// unit of idle and of each row's power add, which is linear.
class Prediction {
 public:
  Prediction(const thermal::ReducedModel& model, const DtmCase& dtm, const HotWork& work,
             const std::vector<Pace>& paces)
      : paces_(paces), error_(1 + dtm.power_error) {
    idle_ = added(model, dtm.idle_watts);
    for (const std::vector<double>& row : work.rows) rows_.push_back(added(model, row));
    kelvin_.resize(paces.size());
  }

  std::span<const double> at(const thermal::ReducedModel& model, std::size_t row) {
    base_ = model.decayed_temperatures();
    std::ranges::fill(kelvin_, 0);
    // Clocks inside: they have nothing to do with one another, so the compiler takes several.
    for (std::size_t b = 0; b < base_.size(); ++b) {
      const double base = base_[b], idle = idle_[b], busy = rows_[row][b];
      for (std::size_t f = 0; f < kelvin_.size(); ++f) {
        const double kelvin = base + error_ * (paces_[f].idle * idle + paces_[f].dynamic * busy);
        kelvin_[f] = kelvin > kelvin_[f] ? kelvin : kelvin_[f];
      }
    }
    return kelvin_;
  }

  // What the epoch that at() looked at ends with, without the error: cheaper than asking the model.
  std::vector<double> end(const Pace& pace, std::size_t row) const {
    std::vector<double> kelvin = base_;
    for (std::size_t b = 0; b < kelvin.size(); ++b)
      kelvin[b] += pace.idle * idle_[b] + pace.dynamic * rows_[row][b];
    return kelvin;
  }

 private:
  static std::vector<double> added(thermal::ReducedModel model, const std::vector<double>& watts) {
    model.start_uniform(model.ambient());
    model.step(watts);
    std::vector<double> rise = model.block_temperatures();
    for (double& value : rise) value -= model.ambient();
    return rise;
  }

  const std::vector<Pace>& paces_;
  double error_;
  std::vector<double> idle_, base_;
  std::vector<std::vector<double>> rows_;
  std::vector<double> kelvin_;
};

// Every tenant's own heat in a model of its own: temperatures add up, so the parts are exact.
class Blame {
 public:
  Blame(const thermal::ReducedModel& model, const DtmCase& dtm) : dtm_(dtm) {
    for (const HotTenant& tenant : dtm.tenants) {
      models_.push_back(model);
      models_.back().start_uniform(model.ambient());
      heat_.push_back({tenant.name, 0, 0});
      lost_.push_back(0);
    }
  }

  // The row of powers that the epochs from now on work on.
  void row(const std::vector<double>& watts) {
    drives_.clear();
    watts_.clear();
    for (std::size_t t = 0; t < models_.size(); ++t) {
      std::vector<double> own(watts.size(), 0);
      double sum = 0;
      for (const int b : dtm_.tenants[t].blocks) {
        own[static_cast<std::size_t>(b)] = watts[static_cast<std::size_t>(b)];
        sum += watts[static_cast<std::size_t>(b)];
      }
      drives_.push_back(models_[t].drive(own));
      watts_.push_back(sum);
    }
  }

  // An epoch in which `lost` seconds of work were not done because of the clock; what of the row's
  // powers was taken, and which block was the hottest.
  void epoch(double dynamic, double lost, int hot, double seconds) {
    std::vector<double> rises(models_.size(), 0), drive;
    for (std::size_t t = 0; t < models_.size(); ++t) {
      heat_[t].energy_j += dynamic * watts_[t] * seconds;
      drive = drives_[t];
      for (double& value : drive) value *= dynamic;
      models_[t].step_driven(drive);
      if (lost > 0)
        rises[t] = std::max(0.0, models_[t].block_temperature(hot) - models_[t].ambient());
    }
    const double all = std::accumulate(rises.begin(), rises.end(), 0.0);
    if (all <= 0) return;
    for (std::size_t t = 0; t < rises.size(); ++t) lost_[t] += lost * rises[t] / all;
  }

  // Of a block, by each tenant's own heat.
  std::vector<double> rises(std::size_t block) const {
    std::vector<double> rises;
    for (const thermal::ReducedModel& model : models_)
      rises.push_back(std::max(0.0, model.block_temperatures()[block] - model.ambient()));
    return rises;
  }

  std::vector<TenantHeat> heat() {
    const double all = std::accumulate(lost_.begin(), lost_.end(), 0.0);
    for (std::size_t t = 0; t < heat_.size(); ++t)
      heat_[t].throttle_share = all > 0 ? lost_[t] / all : 0;
    return heat_;
  }

 private:
  const DtmCase& dtm_;
  std::vector<thermal::ReducedModel> models_;
  std::vector<TenantHeat> heat_;
  std::vector<double> lost_;
  std::vector<std::vector<double>> drives_;  // of the row, per tenant
  std::vector<double> watts_;                // likewise
};

std::vector<double> powers(const DtmCase& dtm, const std::vector<double>& row, const Pace& pace) {
  std::vector<double> watts(row.size());
  for (std::size_t b = 0; b < row.size(); ++b)
    watts[b] = pace.idle * dtm.idle_watts[b] + pace.dynamic * row[b];
  return watts;
}

// One epoch after another.
class Simulation {
 public:
  Simulation(const thermal::ReducedModel& model, const DtmCase& dtm, const HotWork& work,
             double cap)
      : dtm_(dtm), work_(work), cap_(cap), model_(model), blame_(model, dtm) {
    for (int f = 0; f < static_cast<int>(dtm.clocks.mhz.size()); ++f)
      paces_.push_back(pace_of(dtm, work, f));
    model_.settle(powers(dtm, std::vector<double>(dtm.idle_watts.size(), 0), paces_.back()));
    idle_drive_ = model_.drive(dtm.idle_watts);
    now_ = hottest(model_.block_temperatures());
    run_.clock_share.assign(paces_.size(), 0);
  }

  DtmRun run(Governor& governor, bool predicting) {
    if (predicting) prediction_ = std::make_unique<Prediction>(model_, dtm_, work_, paces_);
    const double epoch = model_.interval().value;
    while (run_.work_s < work_.work.value * (1 - 1e-9) && run_.epochs < kMostEpochs) {
      const auto row =
          static_cast<std::size_t>(run_.work_s / work_.row.value + 1e-9) % work_.rows.size();
      EpochView view;
      view.sensed = dtm_.sensor_step_k > 0
                        ? std::floor(now_ / dtm_.sensor_step_k) * dtm_.sensor_step_k
                        : now_;
      if (prediction_) view.predicted = prediction_->at(model_, row);
      step(governor.next(view), row, epoch);
    }
    run_.finished = run_.work_s >= work_.work.value * (1 - 1e-9);
    run_.mean_k /= std::max(run_.seconds, 1e-300);
    for (double& share : run_.clock_share) share /= std::max(run_.seconds, 1e-300);
    run_.tenants = blame_.heat();
    return run_;
  }

 private:
  void step(int clock, std::size_t row, double epoch) {
    const Pace& pace = paces_[static_cast<std::size_t>(clock)];
    // The last epoch ends with the work.
    const double share = std::min(1.0, (work_.work.value - run_.work_s) / (pace.rate * epoch));
    const double seconds = share * epoch;
    if (row_ != row) begin(row);
    for (std::size_t i = 0; i < drive_.size(); ++i)
      drive_[i] = pace.idle * idle_drive_[i] + pace.dynamic * row_drive_[i];
    model_.step_driven(drive_);
    const std::vector<double> kelvin =
        prediction_ ? prediction_->end(pace, row) : model_.block_temperatures();
    const auto hot = std::max_element(kelvin.begin(), kelvin.end());
    now_ = *hot;
    run_.work_s += pace.rate * seconds;
    run_.seconds += seconds;
    run_.energy_j += seconds * (pace.idle * idle_sum_ + pace.dynamic * row_sum_);
    if (now_ > cap_) {
      run_.over_cap_s += seconds;
      run_.worst_over_k = std::max(run_.worst_over_k, now_ - cap_);
    }
    run_.max_k = std::max(run_.max_k, now_);
    run_.mean_k += now_ * seconds;
    run_.clock_share[static_cast<std::size_t>(clock)] += seconds;
    ++run_.epochs;
    const auto block = static_cast<std::size_t>(hot - kelvin.begin());
    if (!dtm_.tenants.empty()) {
      blame_.epoch(pace.dynamic, (1 - pace.rate) * seconds, static_cast<int>(block), seconds);
    }
    if (dtm_.moments > 0 && run_.epochs % stride_ == 0) keep(clock, block);
  }

  // How long a run is shows at its end: when there are too many moments every other one goes.
  void keep(int clock, std::size_t block) {
    run_.moments.push_back({run_.seconds, now_, dtm_.clocks.mhz[static_cast<std::size_t>(clock)],
                            blame_.rises(block)});
    if (run_.moments.size() <= dtm_.moments) return;
    for (std::size_t i = 0; 2 * i + 1 < run_.moments.size(); ++i)
      run_.moments[i] = std::move(run_.moments[2 * i + 1]);
    run_.moments.resize(run_.moments.size() / 2);
    stride_ *= 2;
  }

  // Rows last for many epochs: what their powers do is worked out once for each.
  void begin(std::size_t row) {
    row_ = row;
    row_drive_ = model_.drive(work_.rows[row]);
    drive_.resize(row_drive_.size());
    row_sum_ = std::accumulate(work_.rows[row].begin(), work_.rows[row].end(), 0.0);
    idle_sum_ = std::accumulate(dtm_.idle_watts.begin(), dtm_.idle_watts.end(), 0.0);
    if (!dtm_.tenants.empty()) blame_.row(work_.rows[row]);
  }

  const DtmCase& dtm_;
  const HotWork& work_;
  double cap_;
  thermal::ReducedModel model_;
  Blame blame_;
  std::vector<Pace> paces_;
  std::unique_ptr<Prediction> prediction_;
  DtmRun run_;
  double now_ = 0;
  long stride_ = 1;  // epochs from one kept moment to the next
  std::size_t row_ = SIZE_MAX;  // that row_drive_ and the sums are of
  std::vector<double> idle_drive_, row_drive_, drive_;
  double idle_sum_ = 0, row_sum_ = 0;
};

std::vector<double> mean_row(const HotWork& work) {
  std::vector<double> mean(work.rows.front().size(), 0);
  for (const std::vector<double>& row : work.rows)
    for (std::size_t b = 0; b < mean.size(); ++b)
      mean[b] += row[b] / static_cast<double>(work.rows.size());
  return mean;
}

}  // namespace

double ClockTable::volts(int clock) const {
  const double span = mhz.back() - mhz.front();
  const double share = span > 0 ? (mhz[static_cast<std::size_t>(clock)] - mhz.front()) / span : 1;
  return low_volts + share * (high_volts - low_volts);
}

ClockTable pascal_clocks() {
  ClockTable table;
  table.mhz.push_back(131);
  for (int mhz = 200; mhz <= 1700; mhz += 100) table.mhz.push_back(mhz);
  return table;
}

DtmRun run_dtm(const thermal::ReducedModel& model, const DtmCase& dtm, const HotWork& work,
               double cap, Governing governing, const GovernorOptions& options) {
  const auto governor = make_governor(governing, options, dtm.clocks.mhz, cap, model.interval());
  return Simulation(model, dtm, work, cap).run(*governor, governing == Governing::predictive);
}

double settled_hottest(const thermal::ReducedModel& model, const DtmCase& dtm, const HotWork& work,
                       int clock) {
  thermal::ReducedModel settled = model;
  settled.settle(powers(dtm, mean_row(work), pace_of(dtm, work, clock)));
  return hottest(settled.block_temperatures());
}

double idle_hottest(const thermal::ReducedModel& model, const DtmCase& dtm) {
  HotWork none;
  none.rows = {std::vector<double>(dtm.idle_watts.size(), 0)};
  return settled_hottest(model, dtm, none, 0);
}

double cap_of_own_maximum(double max_k, double percent) {
  return kZeroCelsius + (max_k - kZeroCelsius) * (1 - percent / 100);
}

double cap_of_rise(double max_k, double ambient_k, double percent) {
  return ambient_k + (max_k - ambient_k) * (1 - percent / 100);
}

Result<void> check_dtm(const thermal::ReducedModel& model, const DtmCase& dtm,
                       const HotWork& work) {
  const auto refuse = [&](std::string why) { return bad_input(work.name, std::move(why)); };
  const auto blocks = static_cast<std::size_t>(model.blocks());
  const auto good = [](double watts) { return watts >= 0 && watts <= kMostWatts; };
  if (dtm.idle_watts.size() != blocks || !std::ranges::all_of(dtm.idle_watts, good))
    return refuse(
        fmt::format("idle power is 0 to {} W for each of the {} blocks", kMostWatts, blocks));
  if (work.rows.empty()) return refuse("no row of power");
  for (const std::vector<double>& row : work.rows)
    if (row.size() != blocks || !std::ranges::all_of(row, good))
      return refuse(
          fmt::format("power is 0 to {} W for each of the {} blocks", kMostWatts, blocks));
  if (!(work.row.value > 0) || !(work.work.value >= model.interval().value))
    return refuse("rows last longer than nothing, and the work at least an epoch");
  if (!(work.memory_share >= 0 && work.memory_share <= 1))
    return refuse("the memory's share is 0 to 1");
  if (work.work.value / model.interval().value > static_cast<double>(kMostEpochs))
    return refuse(fmt::format("more than {} epochs", kMostEpochs));
  const std::vector<double>& mhz = dtm.clocks.mhz;
  if (mhz.empty() || mhz.front() <= 0 ||
      std::ranges::adjacent_find(mhz, std::greater_equal<>()) != mhz.end())
    return refuse("clocks are positive and ascend");
  std::set<int> owned;
  for (const HotTenant& tenant : dtm.tenants)
    for (const int block : tenant.blocks)
      if (block < 0 || block >= model.blocks() || !owned.insert(block).second)
        return refuse(
            fmt::format("tenant {}: a block is not there or another tenant's", tenant.name));
  return {};
}

}  // namespace partita::dtm
