// 300 random problems of 2 to 20 services of the published scenarios that must keep apart in mixed
// ways, rates x0.1..6: GPUs and slices against their bounds, CPU time, and whatever was refused.
// Arguments: rule (execution:0.45), first and last problem, services (0: 2 to 20), seconds for CBC
// per problem (0: none); prints a line for every open gap and every difference from CBC.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <string>

#include "base/rng.h"
#include "base/source_text.h"
#include "forms/serving_forms.h"
#include "hw/catalogue.h"
#include "hw/layout.h"
#include "planners/serving/exact.h"
#include "planners/serving/points.h"
#include "profile/testing/published.h"
#include "verify/serving.h"

#ifdef PARTITA_HAVE_CBC
#include <coin/Cbc_C_Interface.h>
#endif

namespace partita {
namespace {

std::vector<plan::Service> scenario_services() {
  std::vector<plan::Service> all;
  for (int s = 1; s <= 6; ++s) {
    const std::string name = fmt::format("data/scenarios/s{}.yaml", s);
    const auto services = forms::parse_services(name, source_text(name));
    all.insert(all.end(), services->begin(), services->end());
  }
  return all;
}

plan::ServingProblem apart_problem(int number, const std::string& rule, int wanted) {
  static const std::vector<plan::Service> all = scenario_services();
  Rng rng(static_cast<std::uint64_t>(number) + 1000);
  plan::ServingProblem problem;
  problem.rule = *plan::parse_slo_rule(rule);
  plan::FleetEntry entry;
  entry.gpu = *hw::builtin_catalogue().find("A100-80GB");
  entry.profiles = profile::published_profiles();
  problem.fleet.push_back(entry);
  const int drawn = 2 + static_cast<int>(rng.below(19));
  const int services = wanted > 0 ? wanted : drawn;
  const double largest = 0.1 * std::pow(60, rng.uniform());
  for (int s = 0; s < services; ++s) {
    plan::Service service = all[rng.below(all.size())];
    service.name = fmt::format("{}-{}", service.model, s);
    service.rate = (0.1 + (largest - 0.1) * rng.uniform()) * service.rate;
    problem.services.push_back(service);
  }
  const double lists = rng.uniform(), spread = rng.uniform();
  for (plan::Service& service : problem.services) {
    if (rng.uniform() < spread)
      service.spread = true;
    else if (rng.uniform() < lists)
      for (std::uint64_t n = 1 + rng.below(3); n > 0; --n) {
        const auto& other = problem.services[rng.below(problem.services.size())];
        if (other.name != service.name) service.avoid.push_back(other.name);
      }
  }
  return problem;
}

#ifdef PARTITA_HAVE_CBC
// The fewest GPUs as an integer program: GPUs per layout and maximal set of services that may meet,
// instances per service and size on these. Instances of a spread service are at most as many as
// those GPUs, which suffices: the edges of a bipartite graph (services, slots) need as many
// colours (GPUs) as its largest degree (Koenig).
class CbcProgram {
 public:
  explicit CbcProgram(const plan::ServingProblem& problem) : problem_(problem) {
    const auto table = planners::serving::best_points(problem, problem.fleet[0]);
    for (const auto& row : table.best) {
      rates_.emplace_back();
      for (const auto& point : row) rates_.back().push_back(point ? point->throughput.value : 0);
    }
    for (const hw::Layout& layout : hw::maximal_layouts(problem.fleet[0].gpu, table.profiles)) {
      std::vector<int> counts(table.profiles.size(), 0);
      for (const hw::PlacedProfile& placed : layout)
        ++counts[static_cast<std::size_t>(
            std::find(table.profiles.begin(), table.profiles.end(), placed.profile) -
            table.profiles.begin())];
      if (std::find(layouts_.begin(), layouts_.end(), counts) == layouts_.end())
        layouts_.push_back(counts);
    }
    rows_ = problem.services.size();
    lower_.assign(rows_, 1);
    grow({}, 0);
    for (const auto& set : sets_)
      for (const auto& layout : layouts_) add(set, layout);
  }

  static constexpr std::size_t kMaxColumns = 30'000;
  bool large() const { return sets_.size() > 400 || cost_.size() > kMaxColumns; }

  // Nothing when it is not solved in time.
  std::optional<int> solve(int seconds) {
    start_.push_back(static_cast<int>(index_.size()));
    const std::vector<double> zero(cost_.size(), 0), most(cost_.size(), 1e6),
        infinite(lower_.size(), 1e30);
    Cbc_Model* model = Cbc_newModel();
    Cbc_loadProblem(model, static_cast<int>(cost_.size()), static_cast<int>(lower_.size()),
                    start_.data(), index_.data(), value_.data(), zero.data(), most.data(),
                    cost_.data(), lower_.data(), infinite.data());
    for (int c = 0; c < static_cast<int>(cost_.size()); ++c) Cbc_setInteger(model, c);
    Cbc_setParameter(model, "log", "0");
    Cbc_setParameter(model, "sec", std::to_string(seconds).c_str());
    Cbc_setParameter(model, "allowableGap", "0.999");
    Cbc_solve(model);
    std::optional<int> result;
    if (Cbc_isProvenOptimal(model)) result = static_cast<int>(std::lround(Cbc_getObjValue(model)));
    Cbc_deleteModel(model);
    return result;
  }

 private:
  bool meet(std::size_t a, std::size_t b) const {
    const auto avoids = [this](std::size_t x, std::size_t y) {
      const auto& names = problem_.services[x].avoid;
      return std::find(names.begin(), names.end(), problem_.services[y].name) != names.end();
    };
    return !avoids(a, b) && !avoids(b, a);
  }

  // All sets of services that may meet and to which none can be added.
  void grow(const std::vector<std::size_t>& set, std::size_t next) {
    if (sets_.size() > 400) return;
    const auto fits = [&](std::size_t s) {
      return std::all_of(set.begin(), set.end(), [&](std::size_t t) { return meet(s, t); });
    };
    if (next == problem_.services.size()) {
      for (std::size_t s = 0; s < next; ++s)
        if (std::find(set.begin(), set.end(), s) == set.end() && fits(s)) return;
      sets_.push_back(set);
      return;
    }
    if (fits(next)) {
      auto with = set;
      with.push_back(next);
      grow(with, next + 1);
    }
    grow(set, next + 1);
  }

  std::size_t row() {
    lower_.push_back(0);
    return rows_++;
  }
  void column(double cost) {
    start_.push_back(static_cast<int>(index_.size()));
    cost_.push_back(cost);
  }
  void entry(std::size_t r, double v) {
    index_.push_back(static_cast<int>(r));
    value_.push_back(v);
  }

  void add(const std::vector<std::size_t>& set, const std::vector<int>& layout) {
    if (large()) return;
    std::vector<std::size_t> sizes(layout.size()), spread(problem_.services.size());
    column(1);
    for (std::size_t k = 0; k < layout.size(); ++k)
      if (layout[k] > 0) entry(sizes[k] = row(), layout[k]);
    for (const std::size_t s : set)
      if (problem_.services[s].spread) entry(spread[s] = row(), 1);
    for (const std::size_t s : set)
      for (std::size_t k = 0; k < layout.size(); ++k) {
        if (layout[k] == 0 || rates_[s][k] == 0) continue;
        column(0);
        entry(s, rates_[s][k] / problem_.services[s].rate.value);
        entry(sizes[k], -1);
        if (problem_.services[s].spread) entry(spread[s], -1);
      }
  }

  const plan::ServingProblem& problem_;
  std::vector<std::vector<double>> rates_;
  std::vector<std::vector<int>> layouts_;
  std::vector<std::vector<std::size_t>> sets_;
  std::vector<int> start_, index_;
  std::vector<double> value_, cost_, lower_;
  std::size_t rows_ = 0;
};

std::optional<int> fewest_gpus(const plan::ServingProblem& problem, int seconds) {
  CbcProgram program(problem);
  return seconds == 0 || program.large() ? std::nullopt : program.solve(seconds);
}
#else
std::optional<int> fewest_gpus(const plan::ServingProblem&, int) { return std::nullopt; }
#endif

double cpu_ms() { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

int run(const std::string& rule, int first, int last, int services, int seconds) {
  int compared = 0, different = 0, violations = 0;
  int optimal = 0, gpu_proven = 0, refused = 0, worst_gap = 0, count = 0;
  double sum = 0, most = 0;
  std::vector<double> times;
  for (int number = first; number < last; ++number, ++count) {
    const plan::ServingProblem problem = apart_problem(number, rule, services);
    planners::serving::Options options;
    options.cpu_ms = cpu_ms;
    const auto outcome = planners::serving::plan_exact(problem, options);
    if (!outcome.plan) {
      ++refused;
      fmt::print("{}: refused: {}\n", number, to_string(outcome.refusals[0]));
      continue;
    }
    for (const plan::Reason& violation : verify::verify(problem, *outcome.plan)) {
      ++violations;
      fmt::print("{}: VIOLATION {}\n", number, to_string(violation));
    }
    const plan::Objective& o = outcome.plan->objective;
    const double ms = outcome.plan->stats.planning_ms;
    times.push_back(ms);
    sum += ms;
    most = std::max(most, ms);
    optimal += o.optimal ? 1 : 0;
    gpu_proven += o.gpus == o.lower_bound_gpus ? 1 : 0;
    worst_gap = std::max(worst_gap, o.gpus - o.lower_bound_gpus);
    if (!o.optimal || ms > 1000)
      fmt::print("{}: {} services, GPUs {} (bound {}), GPCs {} (bound {}), {:.0f} ms, {} nodes\n",
                 number, problem.services.size(), o.gpus, o.lower_bound_gpus, o.gpcs,
                 o.lower_bound_gpcs, ms, outcome.plan->stats.nodes);
    if (const auto fewest = fewest_gpus(problem, seconds)) {
      ++compared;
      different += *fewest == o.gpus ? 0 : 1;
      if (*fewest != o.gpus) fmt::print("{}: {} GPUs, CBC {}\n", number, o.gpus, *fewest);
    }
    std::fflush(stdout);
  }
  std::sort(times.begin(), times.end());
  fmt::print(
      "{} problems: {} refused, {} optimal, {} with the fewest GPUs proven, largest gap {}; "
      "{:.0f} ms on average, median {:.0f}, most {:.0f}\n",
      count, refused, optimal, gpu_proven, worst_gap, sum / count,
      times.empty() ? 0 : times[times.size() / 2], most);
  fmt::print("CBC solved {} of them: {} with another number of GPUs\n", compared, different);
  return refused + violations + different == 0 ? 0 : 1;
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  const std::string rule = argc > 1 ? argv[1] : "execution:0.45";
  const int first = argc > 2 ? std::stoi(argv[2]) : 0;
  const int last = argc > 3 ? std::stoi(argv[3]) : 300;
  const int services = argc > 4 ? std::stoi(argv[4]) : 0;
  const int seconds = argc > 5 ? std::stoi(argv[5]) : 0;
  return partita::run(rule, first, last, services, seconds);
}
