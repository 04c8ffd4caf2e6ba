#include "decide/power_seen.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/form.h"

namespace partita::decide {
namespace {

struct SeenService {
  std::string name;
  double rate_rps = 0;
  std::optional<double> p95_ms, waiting;
};

void describe(Form& f, SeenService& s) {
  f.name("name", s.name, "of the service");
  f.number("rate_rps", s.rate_rps, kNotNegative, "requests that came since it was written before");
  f.number("p95_ms", s.p95_ms, kNotNegative, "latency");
  f.number("waiting", s.waiting, kNotNegative, "requests in the queue");
  f.closed();
}

void describe(Form& f, std::vector<SeenService>& all) { f.list("services", all, describe, {}, ""); }

struct ServiceUnits {
  std::string name;
  int units = 0, percent = 0, batch = 0;
};

void describe(Form& f, ServiceUnits& s) {
  constexpr Range kCount{.high = 1e9};
  f.name("name", s.name, "of the service");
  f.integer("units", s.units, kCount, "CUs or SMs of its mask");
  f.integer("percent", s.percent, kCount, "of all units, rounded up");
  f.integer("batch", s.batch, kCount, "the most requests that are run at once");
  f.closed();
}

void describe(Form& f, std::vector<ServiceUnits>& all) {
  f.list("services", all, describe, {}, "");
}

}  // namespace

Result<std::vector<plan::ServiceSeen>> parse_power_seen(const std::string& file,
                                                        std::string_view text,
                                                        const std::vector<plan::Terms>& services) {
  const auto all = TRY(read_form<std::vector<SeenService>>(file, text, describe));
  std::set<std::string> names;
  for (const SeenService& one : all)
    if (!names.insert(one.name).second)
      return bad_input(file, "tells twice of service " + one.name);
  std::vector<plan::ServiceSeen> seen;
  for (const plan::Terms& service : services) {
    const auto at = std::ranges::find(all, service.name, &SeenService::name);
    if (at == all.end()) return bad_input(file, "does not tell of service " + service.name);
    seen.push_back({.rate = Rps{at->rate_rps}, .waiting = at->waiting});
    if (at->p95_ms) seen.back().p95 = Millis{*at->p95_ms};
  }
  return seen;
}

std::string power_shares_json(const std::vector<plan::Terms>& services, int all_units,
                              const plan::Setting& setting) {
  const int all = std::max(1, all_units);
  std::vector<ServiceUnits> shares;
  for (std::size_t s = 0; s < services.size(); ++s) {
    const int units = s < setting.units.size() ? setting.units[s] : all;
    shares.push_back({services[s].name, units, (100 * units + all - 1) / all,
                      s < setting.batches.size() ? setting.batches[s] : 1});
  }
  return write_form(shares, describe);
}

}  // namespace partita::decide
