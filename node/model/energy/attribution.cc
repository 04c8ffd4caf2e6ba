#include "model/energy/attribution.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/check.h"

namespace partita::energy {
namespace {

constexpr double kMicrojoules = 1e6;

double weight_of(const InstanceUse& use, SplitRule rule) {
  switch (rule) {
    case SplitRule::model:
      return use.watts;
    case SplitRule::activity:
      return use.share * use.duty;
    case SplitRule::slice:
      return use.share;
    case SplitRule::kepler:
      return use.engine;
    case SplitRule::equal:
      return 1;
  }
  return 0;
}

// Models of counters miss by some 12 %, and kernels differ by some 25 % on the same slices as busy:
// so the best guess lies (0.12^2 / (0.12^2 + 0.25^2)) a fifth of the way from the model to what
// activity alone says; less where the model is surer.
constexpr double kMostDrawn = 0.2;

std::vector<double> weights_of(const BoardInterval& interval, SplitRule rule) {
  std::vector<double> weights;
  double all = 0, busy = 0;
  for (const InstanceUse& use : interval.uses) {
    weights.push_back(weight_of(use, rule));
    all += weights.back();
    busy += use.share * use.duty;
  }
  if (rule != SplitRule::model || !(busy > 0)) return weights;
  for (std::size_t u = 0; u < weights.size(); ++u) {
    const InstanceUse& use = interval.uses[u];
    const double error = use.error * use.error;
    const double drawn = std::min(kMostDrawn, error / (error + kKernelsDiffer * kKernelsDiffer));
    weights[u] += drawn * (all * use.share * use.duty / busy - weights[u]);
  }
  return weights;
}

bool has_errors(SplitRule rule) { return rule == SplitRule::model || rule == SplitRule::activity; }

// What grows while the intervals of all boards pass.
struct Sums {
  std::vector<double> active, idle, seconds;  // per account
  std::vector<double> unassigned, measured;   // per board
  // Errors: d(joules of a tenant) / d(relative error of another's watts), and / d(idle watts).
  std::map<std::pair<int, int>, double> sensitivity;
  std::vector<std::map<int, double>> idle_sensitivity;  // per board, by tenant
  std::vector<double> error_weight, error_sum;          // per tenant

  explicit Sums(const Ledger& ledger)
      : active(ledger.accounts.size()),
        idle(active.size()),
        seconds(active.size()),
        unassigned(ledger.boards.size()),
        measured(ledger.boards.size()),
        idle_sensitivity(ledger.boards.size()),
        error_weight(static_cast<std::size_t>(ledger.tenants)),
        error_sum(error_weight.size()) {}
};

// Who bears idle energy: a share per use; the rest is nobody's.
std::vector<double> idle_shares(const BoardInterval& interval, IdlePolicy policy,
                                const Ledger& ledger) {
  std::vector<double> shares(interval.uses.size());
  if (policy == IdlePolicy::unassigned) return shares;
  std::map<int, double> present;  // the shares of each tenant
  double all = 0;
  for (const InstanceUse& use : interval.uses) {
    present[ledger.accounts[static_cast<std::size_t>(use.account)].tenant] += use.share;
    all += use.share;
  }
  for (std::size_t u = 0; u < shares.size(); ++u) {
    const InstanceUse& use = interval.uses[u];
    const double own = present.at(ledger.accounts[static_cast<std::size_t>(use.account)].tenant);
    shares[u] = policy == IdlePolicy::slice ? use.share / std::max(1.0, all)
                : own > 0                   ? use.share / own / static_cast<double>(present.size())
                                            : 0;
  }
  return shares;
}

class Booking {
 public:
  Booking(const Ledger& ledger, SplitRule rule, IdlePolicy idle)
      : ledger_(ledger), rule_(rule), idle_(idle), sums_(ledger) {}

  void book(std::size_t board, const BoardInterval& interval);
  Attribution close() const;

 private:
  void book_errors(std::size_t board, const BoardInterval& interval, double active,
                   const std::vector<double>& split, const std::vector<double>& idle);
  int tenant_of(const InstanceUse& use) const {
    return ledger_.accounts[static_cast<std::size_t>(use.account)].tenant;
  }
  std::vector<double> errors() const;

  const Ledger& ledger_;
  const SplitRule rule_;
  const IdlePolicy idle_;
  Sums sums_;
};

void Booking::book(std::size_t board, const BoardInterval& interval) {
  sums_.measured[board] += interval.joules;
  if (!interval.watched || interval.uses.empty()) {
    sums_.unassigned[board] += interval.joules;
    return;
  }
  const std::vector<double> weight = weights_of(interval, rule_);
  const double weights = std::accumulate(weight.begin(), weight.end(), 0.0);
  double idle = std::min(interval.joules, ledger_.boards[board].idle.value * interval.length.value);
  // Nobody did anything: whatever it took is the board's own.
  if (!(weights > 0)) idle = interval.joules;
  const double active = interval.joules - idle;
  const std::vector<double> shares = idle_shares(interval, idle_, ledger_);
  std::vector<double> split;
  double left = idle;
  for (std::size_t u = 0; u < interval.uses.size(); ++u) {
    const InstanceUse& use = interval.uses[u];
    const auto account = static_cast<std::size_t>(use.account);
    split.push_back(weights > 0 ? weight[u] / weights : 0);
    sums_.active[account] += active * split[u];
    sums_.idle[account] += idle * shares[u];
    sums_.seconds[account] += interval.length.value;
    left -= idle * shares[u];
  }
  sums_.unassigned[board] += std::max(0.0, left);
  if (has_errors(rule_) && active > 0) book_errors(board, interval, active, split, shares);
}

void Booking::book_errors(std::size_t board, const BoardInterval& interval, double active,
                          const std::vector<double>& split, const std::vector<double>& idle) {
  std::map<int, double> parts, shares;
  for (std::size_t u = 0; u < interval.uses.size(); ++u) {
    const InstanceUse& use = interval.uses[u];
    const int tenant = tenant_of(use);
    parts[tenant] += split[u];
    shares[tenant] += idle[u];
    sums_.error_weight[static_cast<std::size_t>(tenant)] += active * split[u];
    sums_.error_sum[static_cast<std::size_t>(tenant)] += active * split[u] * use.error;
  }
  for (const auto& [tenant, part] : parts) {
    for (const auto& [other, its] : parts)
      sums_.sensitivity[{tenant, other}] += active * part * ((tenant == other ? 1 : 0) - its);
    sums_.idle_sensitivity[board][tenant] += interval.length.value * (shares.at(tenant) - part);
  }
}

// To first order: errors of tenants' watts and of boards' idle power are independent.
std::vector<double> Booking::errors() const {
  std::vector<double> variance(static_cast<std::size_t>(ledger_.tenants));
  for (const auto& [pair, value] : sums_.sensitivity) {
    const auto other = static_cast<std::size_t>(pair.second);
    if (sums_.error_weight[other] <= 0) continue;
    const double error = sums_.error_sum[other] / sums_.error_weight[other];
    variance[static_cast<std::size_t>(pair.first)] += std::pow(value * error, 2);
  }
  for (std::size_t board = 0; board < ledger_.boards.size(); ++board)
    for (const auto& [tenant, value] : sums_.idle_sensitivity[board])
      variance[static_cast<std::size_t>(tenant)] +=
          std::pow(value * ledger_.boards[board].idle_error.value, 2);
  for (double& v : variance) v = std::sqrt(v);
  return variance;
}

Attribution Booking::close() const {
  Attribution out;
  out.accounts.resize(ledger_.accounts.size());
  out.tenants.resize(static_cast<std::size_t>(ledger_.tenants));
  for (std::size_t board = 0; board < ledger_.boards.size(); ++board) {
    const auto total = static_cast<Microjoules>(std::llround(sums_.measured[board] * kMicrojoules));
    std::vector<std::size_t> here;
    std::vector<double> parts;
    for (std::size_t a = 0; a < ledger_.accounts.size(); ++a) {
      if (static_cast<std::size_t>(ledger_.accounts[a].board) != board) continue;
      here.push_back(a);
      parts.push_back(sums_.active[a] + sums_.idle[a]);
    }
    parts.push_back(sums_.unassigned[board]);
    const std::vector<Microjoules> whole = apportion(parts, total);
    for (std::size_t i = 0; i < here.size(); ++i) {
      const std::size_t a = here[i];
      const auto idle = static_cast<Microjoules>(std::llround(sums_.idle[a] * kMicrojoules));
      out.accounts[a] = {whole[i], std::clamp<Microjoules>(idle, 0, whole[i]), sums_.seconds[a]};
      out.tenants[static_cast<std::size_t>(ledger_.accounts[a].tenant)] += whole[i];
    }
    out.measured += total;
    out.boards.push_back(total);
    out.unassigned.push_back(whole.back());
  }
  out.tenant_errors = errors();
  return out;
}

}  // namespace

const char* to_string(SplitRule rule) {
  switch (rule) {
    case SplitRule::model:
      return "model";
    case SplitRule::activity:
      return "activity";
    case SplitRule::slice:
      return "slice";
    case SplitRule::kepler:
      return "kepler";
    case SplitRule::equal:
      return "equal";
  }
  return "";
}

const char* to_string(IdlePolicy policy) {
  switch (policy) {
    case IdlePolicy::slice:
      return "slice";
    case IdlePolicy::equal:
      return "equal";
    case IdlePolicy::unassigned:
      return "unassigned";
  }
  return "";
}

Attribution attribute(const Ledger& ledger, SplitRule rule, IdlePolicy idle) {
  Booking booking(ledger, rule, idle);
  for (std::size_t board = 0; board < ledger.boards.size(); ++board)
    for (const BoardInterval& interval : ledger.boards[board].intervals) {
      for (const InstanceUse& use : interval.uses)
        CHECK(use.account >= 0 && static_cast<std::size_t>(use.account) < ledger.accounts.size());
      booking.book(board, interval);
    }
  return booking.close();
}

std::vector<std::int64_t> apportion(const std::vector<double>& parts, std::int64_t total) {
  CHECK(!parts.empty() && total >= 0);
  double sum = 0;
  for (const double part : parts) sum += part;
  std::vector<std::int64_t> whole(parts.size());
  if (!(sum > 0)) {
    whole.back() = total;
    return whole;
  }
  std::vector<double> remainders;
  std::int64_t left = total;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double exact = parts[i] / sum * static_cast<double>(total);
    whole[i] = std::min(left, static_cast<std::int64_t>(std::floor(exact)));
    left -= whole[i];
    remainders.push_back(exact - static_cast<double>(whole[i]));
  }
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return remainders[a] > remainders[b]; });
  for (std::size_t i = 0; left > 0; i = (i + 1) % order.size(), --left) ++whole[order[i]];
  return whole;
}

}  // namespace partita::energy
