#include "queue/atlas.h"

#include <algorithm>

#include "base/index.h"

namespace partita::queue {

std::vector<Spot> spots_of(const planners::batch::Forest& forest, const plan::BatchProblem& gpus,
                           const std::vector<int>& indices) {
  std::vector<Spot> spots;
  for (const planners::batch::Node& node : forest.nodes) {
    const int model = gpus.gpus[at(node.gpu)];
    const hw::MigProfile& profile = gpus.models[at(model)].profiles[at(node.profile)];
    spots.push_back(
        {{profile.name, node.start}, indices[at(node.gpu)], model, profile.gpcs, node.columns});
  }
  return spots;
}

int node_at(const std::vector<Spot>& spots, const Place& place) {
  const auto found = std::ranges::find_if(spots, [&](const Spot& spot) {
    return spot.gpu == place.gpu && spot.start == place.start && spot.profile == place.profile;
  });
  return found == spots.end() ? -1 : static_cast<int>(found - spots.begin());
}

}  // namespace partita::queue
