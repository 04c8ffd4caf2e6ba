#include "planners/serving/incremental_repair.h"

#include <algorithm>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>

#include "base/hash.h"

namespace partita::planners::serving {
namespace {

// Ways to choose which hosts are closed that are tried at most.
constexpr std::size_t kMaxClosings = 3000;

using Fingerprint = std::pair<std::uint64_t, std::uint64_t>;

// Depth-first search with a number of creations left.
class Repair {
 public:
  Repair(Deployment& deployment, std::vector<int> hosts, long& budget)
      : deployment_(deployment), hosts_(std::move(hosts)), budget_(budget) {
    std::set<int> relevant;
    for (std::size_t s = 0; s < deployment.site().kinds.size(); ++s)
      if (deployment.missing(static_cast<int>(s)) > 0) relevant.insert(static_cast<int>(s));
    for (const int h : hosts_)
      for (const Tenant& tenant : deployment.host(h).tenants) relevant.insert(tenant.service);
    relevant_.assign(relevant.begin(), relevant.end());
  }

  bool run(int left) { return descend(left); }
  bool exhausted() const { return budget_ <= 0; }

 private:
  struct Step {
    int h = 0, spot = 0;
    int missing = 0;  // after it
    int harm = 0;     // compute slices taken from who needs them
    int gpcs = 0;
  };

  bool descend(int left) {
    int worst = -1, most = 0, sum = 0;
    for (const int s : relevant_) {
      const int missing = deployment_.missing(s);
      sum += missing;
      if (missing > most) worst = s, most = missing;
    }
    if (worst < 0) return true;
    if (sum > left || budget_ <= 0) return false;
    const Fingerprint print = fingerprint();
    const auto known = failed_.find(print);
    if (known != failed_.end() && known->second >= left) return false;
    for (const Step& step : steps(worst, sum, left)) {
      const auto saved = apply(step, worst);
      if (descend(left - 1)) return true;
      deployment_.restore(saved);
      if (budget_ <= 0) return false;
    }
    failed_[print] = left;
    return false;
  }

  Deployment::Saved apply(const Step& step, int service) {
    auto saved = deployment_.save({step.h}, {service});
    const auto out = deployment_.displaced(step.h, step.spot, service);
    for (const Tenant& tenant : *out) deployment_.remove(step.h, tenant);
    deployment_.add(step.h, step.spot, service);
    return saved;
  }

  // Places for an instance of a service after which fewer than `left` are missing of the `missing`
  // now, the least harm first; hosts that look alike once.
  std::vector<Step> steps(int service, int missing, int left) {
    std::vector<Step> found;
    const Site& site = deployment_.site();
    for (auto at = hosts_.begin(); at != hosts_.end(); ++at) {
      const int h = *at;
      const Host& host = deployment_.host(h);
      if (!host.open || std::any_of(hosts_.begin(), at, [&](int other) { return alike(other, h); }))
        continue;
      const auto& spots = site.spots[static_cast<std::size_t>(host.model)];
      for (int s = 0; s < static_cast<int>(spots.size()); ++s) {
        if (site.rate(service, host.model, s) <= 0) continue;
        --budget_;
        if (const auto step = try_step(h, s, service, missing, left)) found.push_back(*step);
      }
    }
    std::stable_sort(found.begin(), found.end(), [](const Step& a, const Step& b) {
      return std::tuple(a.missing, a.harm, a.gpcs) < std::tuple(b.missing, b.harm, b.gpcs);
    });
    return found;
  }

  std::optional<Step> try_step(int h, int spot, int service, int missing, int left) {
    const auto out = deployment_.displaced(h, spot, service);
    if (!out) return std::nullopt;
    missing += deployment_.lacked_more(h, spot, service, *out);
    if (missing >= left) return std::nullopt;
    const Site& site = deployment_.site();
    const int model = deployment_.host(h).model;
    Step step{h, spot, missing, 0, site.spot(model, spot).gpcs};
    for (const Tenant& tenant : *out)
      if (!deployment_.spare(h, tenant)) step.harm += site.spot(model, tenant.spot).gpcs;
    return step;
  }

  // For later decisions: kept instances may come back to a host, so that one of the site is like
  // another one only when both run the same.
  bool alike(int a, int b) const {
    const Host &one = deployment_.host(a), &other = deployment_.host(b);
    const auto same = [](const Running& x, const Running& y) {
      return x.spot == y.spot && x.service == y.service;
    };
    return one.open && other.open && one.model == other.model && one.tenants == other.tenants &&
           std::ranges::equal(running_on(one), running_on(other), same);
  }
  std::span<const Running> running_on(const Host& host) const {
    if (host.site < 0) return {};
    return deployment_.site().gpus[static_cast<std::size_t>(host.site)].running;
  }

  Fingerprint fingerprint() const {
    Fingerprint sum{0, 0};
    for (const int h : hosts_)
      for (const Tenant& tenant : deployment_.host(h).tenants) {
        const std::uint64_t word = (static_cast<std::uint64_t>(h) << 40) ^
                                   (static_cast<std::uint64_t>(tenant.spot) << 33) ^
                                   static_cast<std::uint64_t>(2 * tenant.service + tenant.kept);
        sum.first += mix64(word * kGolden64 + 1);
        sum.second += mix64(word * 0xd1342543de82ef95ULL + 7);
      }
    return sum;
  }

  Deployment& deployment_;
  std::vector<int> hosts_;
  std::vector<int> relevant_;  // services that may be short
  long& budget_;
  struct Hash {
    std::size_t operator()(const Fingerprint& print) const { return print.first; }
  };
  std::unordered_map<Fingerprint, int, Hash> failed_;  // creations left that did not suffice
};

// Which hosts of a window stay open, as sorted lists: as many as its GPUs allow. Hosts that run the
// same are interchangeable.
class Closings {
 public:
  Closings(const Deployment& deployment, const Window& window)
      : deployment_(deployment), window_(window) {
    int all = 0;
    for (const int h : window.hosts) all += gpus_of(h);
    visit(0, all, window.open);
  }

  std::vector<std::vector<int>> open;
  bool complete = true;

 private:
  int gpus_of(int h) const { return deployment_.site().unit(deployment_.host(h).model).gpus; }
  bool like(std::size_t i, std::size_t j) const {
    const Host& a = deployment_.host(window_.hosts[i]);
    const Host& b = deployment_.host(window_.hosts[j]);
    return a.model == b.model && content(a) == content(b);
  }
  std::vector<std::pair<int, int>> content(const Host& host) const {
    std::vector<std::pair<int, int>> result;
    if (host.site < 0) return result;
    const Site& site = deployment_.site();
    for (const Running& r : site.gpus[static_cast<std::size_t>(host.site)].running)
      result.emplace_back(r.spot, r.service);
    return result;
  }

  // The GPUs of the hosts from i on, and those that may still be used.
  void visit(std::size_t i, int all, int left) {
    if (open.size() >= kMaxClosings) {
      complete = false;
      return;
    }
    if (i == window_.hosts.size()) {
      if (is_full(left)) open.push_back(chosen_);
      return;
    }
    const int gpus = gpus_of(window_.hosts[i]);
    // Of hosts that are alike the first ones are closed.
    bool may_close = all > left;
    for (std::size_t j = 0; j < i && may_close; ++j)
      if (std::find(chosen_.begin(), chosen_.end(), window_.hosts[j]) != chosen_.end() &&
          like(i, j))
        may_close = false;
    if (may_close) visit(i + 1, all - gpus, left);
    if (gpus > left) return;
    chosen_.push_back(window_.hosts[i]);
    visit(i + 1, all - gpus, left - gpus);
    chosen_.pop_back();
  }

  // Whether nobody who is closed could be open, too.
  bool is_full(int left) const {
    return std::ranges::all_of(window_.hosts, [&](int h) {
      return gpus_of(h) > left || std::ranges::count(chosen_, h) > 0;
    });
  }

  const Deployment& deployment_;
  const Window& window_;
  std::vector<int> chosen_;
};

}  // namespace

Repaired repair(Deployment& deployment, const std::vector<int>& hosts, int limit, long& budget) {
  for (int most = deployment.creations() + deployment.missing(); most <= limit; ++most) {
    Repair search(deployment, hosts, budget);
    if (search.run(most - deployment.creations())) return Repaired::yes;
    if (search.exhausted()) return Repaired::unknown;
  }
  return Repaired::none;
}

Repaired rearrange(Deployment& deployment, const Window& window, int limit, long& budget) {
  const auto saved = deployment.save(window.hosts, {});
  const Closings closings(deployment, window);
  const auto arrange = [&](std::size_t closing) {
    for (const int h : window.hosts) deployment.close(h);
    for (const int h : closings.open[closing]) deployment.open(h);
  };
  bool complete = closings.complete;
  std::vector<std::pair<int, std::size_t>> trials;  // least creations, closing
  for (std::size_t c = 0; c < closings.open.size(); ++c) {
    arrange(c);
    const int least = deployment.creations() + deployment.missing();
    const bool fit = deployment.fit_nodes();
    complete = complete && fit;  // fewer of these may
    if (fit && least <= limit) trials.emplace_back(least, c);
  }
  std::sort(trials.begin(), trials.end());
  for (int most = trials.empty() ? limit + 1 : trials[0].first; most <= limit; ++most) {
    for (const auto& [least, closing] : trials) {
      if (least > most) break;
      arrange(closing);
      Repair search(deployment, closings.open[closing], budget);
      if (search.run(most - deployment.creations())) return Repaired::yes;
      if (!search.exhausted()) continue;
      deployment.restore(saved);
      return Repaired::unknown;
    }
  }
  deployment.restore(saved);
  return complete ? Repaired::none : Repaired::unknown;
}

}  // namespace partita::planners::serving
