#include "planners/serving/incremental_state.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/check.h"
#include "base/index.h"

namespace partita::planners::serving {

Deployment::Deployment(const Site& site)
    : site_(&site), rate_(site.kinds.size(), 0), count_(site.kinds.size(), 0) {
  for (std::size_t g = 0; g < site.gpus.size(); ++g)
    hosts_.push_back({site.gpus[g].model, static_cast<int>(g), false, {}});
}

int Deployment::missing(int service) const {
  return std::max(
      0, site_->missing(service, rate_[partita::at(service)], count_[partita::at(service)]));
}

int Deployment::missing() const {
  int sum = 0;
  for (std::size_t s = 0; s < rate_.size(); ++s) sum += missing(static_cast<int>(s));
  return sum;
}

int Deployment::open_gpus(int entry) const {
  int gpus = 0;
  for (const Host& host : hosts_)
    if (const Unit& unit = site_->unit(host.model); host.open && unit.entry == entry)
      gpus += unit.gpus;
  return gpus;
}

bool Deployment::fit_nodes() const {
  if (site_->fleet.group_rows.empty()) return true;
  Counts groups{};
  for (const Host& host : hosts_)
    if (host.open && site_->unit(host.model).gpus > 1) ++groups[site_->spot(host.model, 0).cls];
  return site_->fleet.fit_nodes(groups);
}

int Deployment::add_host(int model) {
  hosts_.push_back({model, -1, true, {}});
  return static_cast<int>(hosts_.size()) - 1;
}

void Deployment::open(int h) {
  Host& host = at(h);
  host.open = true;
  if (host.site < 0) return;
  for (const Running& running : site_->gpus[partita::at(host.site)].running)
    add(h, running.spot, running.service);
}

void Deployment::reopen(int h) {
  close(h);
  at(h).open = true;
}

void Deployment::close(int h) {
  while (!at(h).tenants.empty()) remove(h, at(h).tenants.back());
  at(h).open = false;
}

bool Deployment::runs(const Host& host, int spot, int service) const {
  return host.site >= 0 && site_->running_at(host.site, spot, service) != nullptr;
}

void Deployment::add(int h, int spot, int service) {
  Host& host = at(h);
  const Tenant tenant{spot, service, runs(host, spot, service)};
  host.tenants.insert(std::upper_bound(host.tenants.begin(), host.tenants.end(), tenant), tenant);
  rate_[partita::at(service)] += site_->rate(service, host.model, spot);
  ++count_[partita::at(service)];
  if (!tenant.kept) ++creations_;
}

void Deployment::remove(int h, Tenant tenant) {
  Host& host = at(h);
  const auto found = std::find(host.tenants.begin(), host.tenants.end(), tenant);
  CHECK(found != host.tenants.end());
  host.tenants.erase(found);
  rate_[partita::at(tenant.service)] -= site_->rate(tenant.service, host.model, tenant.spot);
  --count_[partita::at(tenant.service)];
  if (!tenant.kept) --creations_;
}

std::optional<std::vector<Tenant>> Deployment::displaced(int h, int spot, int service) const {
  const Host& host = hosts_[partita::at(h)];
  const std::uint32_t slices = site_->spot(host.model, spot).slices;
  std::vector<Tenant> out;
  for (const Tenant& tenant : host.tenants) {
    const bool clash = (site_->spot(host.model, tenant.spot).slices & slices) != 0 ||
                       !site_->meet(service, tenant.service);
    if (clash && !tenant.kept) return std::nullopt;
    if (clash) out.push_back(tenant);
  }
  if (site_->pairwise || site_->unit(host.model).gpus > 1) return out;
  std::vector<int> layout{spot};
  for (const Tenant& tenant : host.tenants)
    if (std::ranges::count(out, tenant) == 0) layout.push_back(tenant.spot);
  // Places that share no slice and still do not go together: the last ones give way.
  for (std::size_t i = host.tenants.size(); i-- > 0 && !site_->legal(host.model, layout);) {
    const Tenant& tenant = host.tenants[i];
    const auto place = std::find(layout.begin() + 1, layout.end(), tenant.spot);
    if (!tenant.kept || place == layout.end()) continue;
    layout.erase(place);
    out.push_back(tenant);
  }
  if (!site_->legal(host.model, layout)) return std::nullopt;
  return out;
}

// Sums are added up as add() and remove() do it.
int Deployment::lacked_more(int h, int spot, int service, const std::vector<Tenant>& out) const {
  const int model = host(h).model;
  const auto more = [&](int s) {
    double rate = this->rate(s);
    int count = this->count(s);
    for (const Tenant& tenant : out)
      if (tenant.service == s) rate -= site_->rate(s, model, tenant.spot), --count;
    if (s == service) rate += site_->rate(s, model, spot), ++count;
    return std::max(0, site_->missing(s, rate, count)) - missing(s);
  };
  int sum = more(service);
  for (auto one = out.begin(); one != out.end(); ++one)
    if (one->service != service && std::ranges::none_of(out.begin(), one, [&](const Tenant& other) {
          return other.service == one->service;
        }))
      sum += more(one->service);
  return sum;
}

bool Deployment::spare(int h, const Tenant& tenant) const {
  const std::size_t s = partita::at(tenant.service);
  const double rate = rate_[s] - site_->rate(tenant.service, host(h).model, tenant.spot);
  return site_->missing(tenant.service, rate, count_[s] - 1) <= 0;
}

// Of a service's created instances those that carry the least go first: so the fewest are left.
void Deployment::drop_spare() {
  struct Created {
    double rate;
    int h;
    Tenant tenant;
  };
  std::vector<Created> created;
  for (int h = 0; h < static_cast<int>(hosts_.size()); ++h)
    for (const Tenant& tenant : host(h).tenants)
      if (!tenant.kept)
        created.push_back({site_->rate(tenant.service, host(h).model, tenant.spot), h, tenant});
  std::stable_sort(created.begin(), created.end(),
                   [](const Created& a, const Created& b) { return a.rate < b.rate; });
  for (const Created& c : created)
    if (spare(c.h, c.tenant)) remove(c.h, c.tenant);
}

// Replaces created instances by smaller ones inside their slices; by one that runs there, at best.
void Deployment::shrink() {
  for (int h = 0; h < static_cast<int>(hosts_.size()); ++h) {
    const std::vector<Tenant> tenants = host(h).tenants;
    const int model = host(h).model;
    const auto& spots = site_->spots[partita::at(model)];
    for (const Tenant& tenant : tenants) {
      if (tenant.kept) continue;
      const double others = rate(tenant.service) - site_->rate(tenant.service, model, tenant.spot);
      std::tuple<int, int, int> best{1, spots[partita::at(tenant.spot)].gpcs, tenant.spot};
      for (int s = 0; s < static_cast<int>(spots.size()); ++s) {
        const Spot& spot = spots[partita::at(s)];
        const double carries = site_->rate(tenant.service, model, s);
        if ((spot.slices & ~spots[partita::at(tenant.spot)].slices) != 0 || carries <= 0) continue;
        if (site_->missing(tenant.service, others + carries, count(tenant.service)) > 0) continue;
        best = std::min(best, {runs(host(h), s, tenant.service) ? 0 : 1, spot.gpcs, s});
      }
      if (std::get<2>(best) == tenant.spot) continue;
      remove(h, tenant);
      add(h, std::get<2>(best), tenant.service);
    }
  }
}

void Deployment::tidy() {
  drop_spare();
  shrink();
  close_spare();
}

// GPUs all of whose tenants are spare, the largest groups and those with the fewest tenants first.
void Deployment::close_spare() {
  std::vector<int> order(hosts_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int h) {
    return std::pair(-site_->unit(host(h).model).gpus, host(h).tenants.size());
  });
  for (const int h : order) {
    if (!host(h).open) continue;
    const std::vector<Tenant> tenants = host(h).tenants;
    std::size_t gone = 0;
    while (gone < tenants.size() && spare(h, tenants[gone])) remove(h, tenants[gone++]);
    if (gone == tenants.size()) {
      at(h).open = false;
      continue;
    }
    for (std::size_t i = 0; i < gone; ++i) add(h, tenants[i].spot, tenants[i].service);
  }
}

Deployment::Saved Deployment::save(const std::vector<int>& hosts,
                                   const std::vector<int>& services) const {
  Saved saved{{}, {}, creations_};
  const auto note = [&](int s) {
    saved.sums.push_back({s, {rate_[partita::at(s)], count_[partita::at(s)]}});
  };
  for (const int s : services) note(s);
  for (const int h : hosts) {
    saved.hosts.emplace_back(h, host(h));
    for (const Tenant& tenant : host(h).tenants) note(tenant.service);
    if (host(h).site < 0) continue;
    for (const Running& running : site_->gpus[partita::at(host(h).site)].running)
      note(running.service);
  }
  return saved;
}

void Deployment::restore(const Saved& saved) {
  for (const auto& [h, host] : saved.hosts) at(h) = host;
  for (const auto& [service, sums] : saved.sums) {
    rate_[partita::at(service)] = sums.first;
    count_[partita::at(service)] = sums.second;
  }
  creations_ = saved.creations;
}

}  // namespace partita::planners::serving
