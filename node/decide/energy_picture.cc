#include "decide/energy_picture.h"

#include <fmt/format.h>

#include <vector>

#include "forms/bar_picture.h"

namespace partita::decide {
namespace {

std::string note_of(double joules, double error, double measured) {
  return fmt::format("{:.5g} J{}{}", joules, error > 0 ? fmt::format(" +- {:.2g}", error) : "",
                     measured > 0 ? fmt::format(" ({:.1f} %)", 100 * joules / measured) : "");
}

}  // namespace

std::string energy_svg(const energy::EnergyReport& report) {
  forms::BarPicture picture;
  picture.title = "Who took the joules";
  picture.subtitle = fmt::format("{:.6g} J in {:.4g} s on {} GPU{}", report.measured_j,
                                 report.to_s - report.from_s, report.gpus.size(),
                                 report.gpus.size() == 1 ? "" : "s");
  picture.unit = "J";
  picture.series = {fmt::format("by {} (the lines: one standard deviation)", report.rule)};
  picture.part = fmt::format("idle power, by {}", report.idle_policy);
  std::vector<const energy::EnergyReport::Compared*> others;
  for (const auto& compared : report.compared)
    if (compared.rule != report.rule) others.push_back(&compared);
  for (const auto* compared : others) picture.series.push_back("by " + compared->rule);
  for (std::size_t t = 0; t < report.tenants.size(); ++t) {
    const auto& tenant = report.tenants[t];
    forms::AmountRow row{
        tenant.name, note_of(tenant.energy_j, tenant.uncertainty_j, report.measured_j), {}};
    row.bars.push_back({tenant.energy_j, tenant.idle_share_j, tenant.uncertainty_j});
    for (const auto* compared : others) row.bars.push_back({compared->tenants[t].energy_j, 0, 0});
    picture.rows.push_back(std::move(row));
  }
  forms::AmountRow nobody{"(nobody)", note_of(report.idle_j, 0, report.measured_j), {}};
  nobody.bars.push_back({report.idle_j, report.idle_j, 0});
  for (const auto* compared : others) nobody.bars.push_back({compared->idle_j, 0, 0});
  picture.rows.push_back(std::move(nobody));
  return forms::bar_svg(picture);
}

}  // namespace partita::decide
