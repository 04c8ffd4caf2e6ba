#include "fleet/brain/older_terms.h"

#include <algorithm>
#include <utility>

#include "base/document.h"

namespace partita::fleet {

const plan::Service* OlderTerms::take(const FleetView& view, const plan::Service& wanted) {
  const Part* newest = nullptr;
  for (const auto& [node, part] : view.parts)
    if ((!newest || part.revision > newest->revision) &&
        std::ranges::count(part.plan.services, wanted.name, &plan::PlannedService::name) > 0)
      newest = &part;
  if (newest == nullptr) return nullptr;
  auto document = parse_document(newest->node, newest->services);
  const auto file = parse_fleet_services(newest->node, newest->services);
  if (!document || !file) return nullptr;
  const auto found = std::ranges::find(file->services, wanted.name, &plan::Service::name);
  if (found == file->services.end()) return nullptr;
  plan::Service older = *found;
  older.rate = wanted.rate;
  older.min_replicas = wanted.min_replicas;
  older.spread = wanted.spread;
  older.avoid = wanted.avoid;
  older.priority = wanted.priority;
  older.traffic.rates = wanted.traffic.rates;
  if (older == wanted) return nullptr;
  written_.insert_or_assign(wanted.name, PartServices(*std::move(document)));
  return &(terms_[wanted.name] = std::move(older));
}

}  // namespace partita::fleet
