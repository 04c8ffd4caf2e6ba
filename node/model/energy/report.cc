#include "model/energy/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "base/append.h"
#include "base/table.h"

namespace partita::energy {
namespace {

constexpr double kMicro = 1e6;
constexpr double kJoulesPerKwh = 3.6e6;
constexpr double kMostUnits = 9e15;  // that doubles count exactly

double joules(Microjoules energy) { return static_cast<double>(energy) / kMicro; }

// The ledger with a tenant per owner instead of one per service.
struct Owned {
  Ledger ledger;
  std::vector<std::string> names;
  std::vector<int> owner;  // per service
};

Owned owned(const TelemetryLedger& in, const ReportOptions& options) {
  Owned out{in.ledger, {}, {}};
  std::map<std::string, int> index;
  for (const std::string& service : in.services) {
    const auto found = options.owners.find(service);
    const std::string& name = found == options.owners.end() ? service : found->second;
    const auto [at, fresh] = index.emplace(name, static_cast<int>(out.names.size()));
    if (fresh) out.names.push_back(name);
    out.owner.push_back(at->second);
  }
  out.ledger.tenants = static_cast<int>(out.names.size());
  for (Account& account : out.ledger.accounts)
    account.tenant = out.owner[static_cast<std::size_t>(account.tenant)];
  return out;
}

double mean(double energy, double seconds) { return seconds > 0 ? energy / seconds : 0; }

Microjoules unassigned(const Attribution& found) {
  Microjoules sum = 0;
  for (const Microjoules one : found.unassigned) sum += one;
  return sum;
}

void add_tenants(const TelemetryLedger& in, const Owned& own, const Attribution& found,
                 const ReportOptions& options, EnergyReport& report) {
  const double seconds = report.to_s - report.from_s;
  for (std::size_t t = 0; t < own.names.size(); ++t) {
    EnergyReport::Tenant tenant{own.names[t], joules(found.tenants[t]), 0, 0, 0, false};
    tenant.mean_w = mean(tenant.energy_j, seconds);
    tenant.uncertainty_j = found.tenant_errors[t];
    for (std::size_t s = 0; s < in.services.size(); ++s)
      if (own.owner[s] == static_cast<int>(t)) tenant.services.push_back(in.services[s]);
    if (options.co2_g_per_kwh)
      tenant.co2_g = tenant.energy_j / kJoulesPerKwh * *options.co2_g_per_kwh;
    if (options.price_per_kwh)
      tenant.cost = tenant.energy_j / kJoulesPerKwh * *options.price_per_kwh;
    report.tenants.push_back(std::move(tenant));
  }
  for (std::size_t a = 0; a < in.accounts.size(); ++a) {
    auto& tenant = report.tenants[static_cast<std::size_t>(own.ledger.accounts[a].tenant)];
    tenant.idle_share_j += joules(found.accounts[a].idle);
    tenant.known |= in.accounts[a].known;
  }
}

void add_services(const TelemetryLedger& in, const Owned& own, const ReportOptions& options,
                  EnergyReport& report) {
  const Attribution found = attribute(in.ledger, options.rule, options.idle);
  for (std::size_t s = 0; s < in.services.size(); ++s) {
    EnergyReport::Service service{in.services[s], own.names[static_cast<std::size_t>(own.owner[s])],
                                  joules(found.tenants[s]), 0, found.tenant_errors[s]};
    service.mean_w = mean(service.energy_j, report.to_s - report.from_s);
    if (const auto count = options.requests.find(service.name); count != options.requests.end()) {
      service.requests = count->second;
      if (count->second > 0) service.joules_per_request = service.energy_j / count->second;
    }
    report.services.push_back(std::move(service));
  }
  for (std::size_t a = 0; a < in.accounts.size(); ++a) {
    const AccountFacts& facts = in.accounts[a];
    const auto service = static_cast<std::size_t>(in.ledger.accounts[a].tenant);
    report.instances.push_back({facts.gpu, facts.gpu_uuid, facts.gi_id, facts.device, facts.profile,
                                facts.service, report.services[service].tenant,
                                joules(found.accounts[a].energy), 0, found.accounts[a].seconds});
    report.instances.back().mean_w =
        mean(report.instances.back().energy_j, report.instances.back().present_s);
  }
}

void add_gpus(const TelemetryLedger& in, const std::vector<Board>& boards, const Attribution& found,
              EnergyReport& report) {
  for (std::size_t b = 0; b < boards.size(); ++b) {
    const Board& board = boards[b];
    report.gpus.push_back(
        {board.index, board.uuid, board.model, joules(found.boards[b]), joules(found.unassigned[b]),
         in.ledger.boards[b].idle.value, to_string(in.idle_sources[b]), board.counted.value,
         board.integrated.value, board.unmeasured.value, board.gaps.value, board.resets});
    const auto say = [&](double seconds, const char* what) {
      if (seconds > 0)
        report.notes.push_back(fmt::format("GPU {}: {:.1f} s {}", board.index, seconds, what));
    };
    say(board.unmeasured.value, "were not measured and are in no figure");
    say(std::max(0.0, board.gaps.value - board.unmeasured.value),
        "between samples that lie far apart count as nobody's: nobody watched");
    if (board.resets > 0)
      report.notes.push_back(
          fmt::format("GPU {}: the energy counter was reset {} times; power was "
                      "integrated there",
                      board.index, board.resets));
  }
}

void add_compared(const Owned& own, const ReportOptions& options, EnergyReport& report) {
  for (const SplitRule rule : {SplitRule::model, SplitRule::activity, SplitRule::slice,
                               SplitRule::kepler, SplitRule::equal}) {
    if (rule == SplitRule::model && !options.has_model) continue;
    const Attribution found = attribute(own.ledger, rule, options.idle);
    EnergyReport::Compared compared{to_string(rule), {}, joules(unassigned(found))};
    for (const EnergyReport::Tenant& tenant : report.tenants) {
      const auto at = std::ranges::find(own.names, tenant.name) - own.names.begin();
      compared.tenants.push_back(
          {tenant.name, joules(found.tenants[static_cast<std::size_t>(at)])});
    }
    report.compared.push_back(std::move(compared));
  }
}

// Joules with as many decimals as seven digits of the total leave, made to add up to it.
class Digits {
 public:
  explicit Digits(double total) {
    while (decimals_ < 6 && total * std::pow(10, decimals_) < 1e6) ++decimals_;
  }
  // Of parts that add up to the total.
  std::vector<std::string> of(const std::vector<double>& parts) const {
    double sum = 0;
    for (const double part : parts) sum += part;
    const double unit = std::pow(10, decimals_);
    std::vector<std::string> out;
    if (sum * unit > kMostUnits) {  // parts that are not those of the total
      for (const double part : parts) out.push_back(of(part));
      return out;
    }
    for (const std::int64_t part : apportion(parts, std::llround(sum * unit)))
      out.push_back(fmt::format("{:.{}f}", static_cast<double>(part) / unit, decimals_));
    return out;
  }
  std::string of(double value) const { return fmt::format("{:.{}f}", value, decimals_); }

 private:
  int decimals_ = 0;
};

std::string tenants_table(const EnergyReport& report, const Digits& digits) {
  Table table{{"TENANT", "JOULES", "SHARE %", "MEAN W", "+- J", "OF IT IDLE"}, {}};
  const bool co2 =
      std::ranges::any_of(report.tenants, [](const auto& t) { return t.co2_g.has_value(); });
  const bool cost =
      std::ranges::any_of(report.tenants, [](const auto& t) { return t.cost.has_value(); });
  if (co2) table.header.emplace_back("gCO2");
  if (cost) table.header.emplace_back("COST");
  std::vector<double> parts;
  for (const auto& tenant : report.tenants) parts.push_back(tenant.energy_j);
  parts.push_back(report.idle_j);
  const std::vector<std::string> shown = digits.of(parts);
  const double seconds = report.to_s - report.from_s;
  const auto row = [&](const std::string& name, const std::string& energy, double joules_of) {
    table.rows.push_back(
        {name, energy,
         fmt::format("{:.1f}", report.measured_j > 0 ? 100 * joules_of / report.measured_j : 0),
         fmt::format("{:.2f}", mean(joules_of, seconds))});
  };
  for (std::size_t t = 0; t < report.tenants.size(); ++t) {
    const auto& tenant = report.tenants[t];
    row(tenant.name, shown[t], tenant.energy_j);
    auto& cells = table.rows.back();
    cells.push_back(tenant.uncertainty_j > 0 ? digits.of(tenant.uncertainty_j) : "-");
    cells.push_back(digits.of(tenant.idle_share_j));
    if (co2) cells.push_back(fmt::format("{:.4g}", tenant.co2_g.value_or(0)));
    if (cost) cells.push_back(fmt::format("{:.4g}", tenant.cost.value_or(0)));
  }
  row("(nobody)", shown.back(), report.idle_j);
  row("measured", digits.of(report.measured_j), report.measured_j);
  for (auto& cells : table.rows) cells.resize(table.header.size(), "-");
  return to_string(table);
}

std::string services_table(const EnergyReport& report, const Digits& digits) {
  Table table{{"SERVICE", "TENANT", "JOULES", "+- J", "REQUESTS", "J PER REQUEST"}, {}};
  std::vector<double> parts;
  for (const auto& service : report.services) parts.push_back(service.energy_j);
  if (parts.empty()) return "";
  const std::vector<std::string> shown = digits.of(parts);
  for (std::size_t s = 0; s < report.services.size(); ++s) {
    const auto& service = report.services[s];
    table.rows.push_back(
        {service.name, service.tenant, shown[s],
         service.uncertainty_j > 0 ? digits.of(service.uncertainty_j) : "-",
         service.requests ? fmt::format("{:.0f}", *service.requests) : "-",
         service.joules_per_request ? fmt::format("{:.4g}", *service.joules_per_request) : "-"});
  }
  return to_string(table);
}

std::string compared_table(const EnergyReport& report, const Digits& digits) {
  Table table{{"TENANT, JOULES BY RULE"}, {}};
  for (const auto& tenant : report.tenants) table.rows.push_back({tenant.name});
  table.rows.push_back({"(nobody)"});
  table.rows.push_back({"differs from this report %"});
  for (const auto& compared : report.compared) {
    table.header.push_back(compared.rule);
    std::vector<double> parts;
    double apart = 0;
    for (std::size_t t = 0; t < compared.tenants.size(); ++t) {
      parts.push_back(compared.tenants[t].energy_j);
      apart += std::abs(parts[t] - report.tenants[t].energy_j);
    }
    parts.push_back(compared.idle_j);
    const std::vector<std::string> shown = digits.of(parts);
    for (std::size_t t = 0; t < shown.size(); ++t) table.rows[t].push_back(shown[t]);
    table.rows.back().push_back(
        fmt::format("{:.1f}", report.measured_j > 0 ? 100 * apart / report.measured_j : 0));
  }
  return to_string(table);
}

}  // namespace

EnergyReport report_of(const TelemetryLedger& ledger, const std::vector<Board>& boards,
                       Seconds from, Seconds to, const ReportOptions& options) {
  EnergyReport report;
  report.from_s = from.value;
  report.to_s = to.value;
  report.rule = to_string(options.rule);
  report.idle_policy = to_string(options.idle);
  const Owned own = owned(ledger, options);
  const Attribution found = attribute(own.ledger, options.rule, options.idle);
  report.measured_j = joules(found.measured);
  report.idle_j = joules(unassigned(found));
  report.notes = ledger.notes;
  add_tenants(ledger, own, found, options, report);
  add_services(ledger, own, options, report);
  add_gpus(ledger, boards, found, report);
  const auto falling = [](const auto& a, const auto& b) {
    return a.energy_j != b.energy_j ? a.energy_j > b.energy_j : a.name < b.name;
  };
  std::ranges::sort(report.tenants, falling);
  std::ranges::sort(report.services, falling);
  if (options.compare) add_compared(own, options, report);
  std::set<std::string> strangers;
  for (const auto& [service, count] : options.requests)
    if (std::ranges::find(ledger.services, service) == ledger.services.end())
      strangers.insert(service);
  for (const std::string& service : strangers)
    report.notes.push_back(
        fmt::format("requests of '{}' are counted, but it was on no instance of the log", service));
  return report;
}

std::string report_text(const EnergyReport& report) {
  const Digits digits(report.measured_j);
  double counted = 0, integrated = 0;
  for (const auto& gpu : report.gpus) {
    counted += gpu.counter_s;
    integrated += gpu.power_s;
  }
  std::string out = fmt::format(
      "{} J in {:.1f} s on {} GPU{}, {}; above idle by {}, idle by {}\n\n",
      digits.of(report.measured_j), report.to_s - report.from_s, report.gpus.size(),
      report.gpus.size() == 1 ? "" : "s",
      integrated == 0 ? "by the energy counters"
      : counted == 0  ? "by integrated power"
                      : fmt::format("{:.0f} % of the time by the energy counters, else by power",
                                    100 * counted / (counted + integrated)),
      report.rule, report.idle_policy);
  out += tenants_table(report, digits);
  const bool more = std::ranges::any_of(report.services, [](const auto& service) {
    return service.requests || service.name != service.tenant;
  });
  if (more) out += "\n" + services_table(report, digits);
  if (!report.compared.empty()) out += "\n" + compared_table(report, digits);
  out += "\n";
  for (const auto& gpu : report.gpus)
    out += fmt::format("GPU {} {}: {} J, idle {:.1f} W ({})\n", gpu.index, gpu.model,
                       digits.of(gpu.measured_j), gpu.idle_w, gpu.idle_from);
  for (const std::string& note : report.notes) out += "note: " + note + "\n";
  return out;
}

std::string report_prometheus(const EnergyReport& report) {
  std::string out;
  const auto family = [&](const char* name, const char* type, const char* help) {
    append(out, "# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
  };
  std::map<std::pair<int, std::string>, std::string> models;
  for (const auto& gpu : report.gpus) models[{gpu.index, gpu.uuid}] = gpu.model;
  const auto labels = [&](const EnergyReport::OnInstance& one) {
    return fmt::format(
        "gpu=\"{}\",UUID=\"{}\",modelName=\"{}\",GPU_I_ID=\"{}\",GPU_I_PROFILE=\"{}\","
        "service=\"{}\",tenant=\"{}\"",
        one.gpu, metric_label(one.gpu_uuid), metric_label(models[{one.gpu, one.gpu_uuid}]),
        one.gi_id < 0 ? "" : std::to_string(one.gi_id), metric_label(one.profile),
        metric_label(one.service), metric_label(one.tenant));
  };
  family("partita_instance_energy_joules_total", "counter", "Energy charged to an instance");
  for (const auto& one : report.instances)
    append(out, "partita_instance_energy_joules_total{{{}}} {}\n", labels(one), one.energy_j);
  family("partita_instance_power_watts", "gauge", "Mean power of an instance while it was there");
  for (const auto& one : report.instances)
    append(out, "partita_instance_power_watts{{{}}} {}\n", labels(one), one.mean_w);
  const auto per_gpu = [&](const char* name, const char* help, double EnergyReport::OfGpu::*value) {
    family(name, "counter", help);
    for (const auto& gpu : report.gpus)
      append(out, "{}{{gpu=\"{}\",UUID=\"{}\",modelName=\"{}\"}} {}\n", name, gpu.index,
             metric_label(gpu.uuid), metric_label(gpu.model), gpu.*value);
  };
  per_gpu("partita_gpu_energy_joules_total", "Energy that a board took",
          &EnergyReport::OfGpu::measured_j);
  per_gpu("partita_gpu_unassigned_energy_joules_total", "Of it, what is charged to nobody",
          &EnergyReport::OfGpu::idle_j);
  const auto per_tenant = [&](const char* name, const char* type, const char* help,
                              double EnergyReport::Tenant::*value) {
    family(name, type, help);
    for (const auto& tenant : report.tenants)
      append(out, "{}{{tenant=\"{}\"}} {}\n", name, metric_label(tenant.name), tenant.*value);
  };
  per_tenant("partita_tenant_energy_joules_total", "counter", "Energy charged to a tenant",
             &EnergyReport::Tenant::energy_j);
  per_tenant("partita_tenant_energy_uncertainty_joules", "gauge", "Its standard deviation",
             &EnergyReport::Tenant::uncertainty_j);
  return out;
}

}  // namespace partita::energy
