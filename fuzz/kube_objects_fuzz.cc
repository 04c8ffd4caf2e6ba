// What the API server says of a plan's objects: lists and lines of a watch. Whatever it says, the
// steps that follow from it name only objects that are this plan's, or new ones.
#include <algorithm>
#include <string>

#include "base/check.h"
#include "fleet/objects/next_steps.h"
#include "target.h"

namespace dra = partita::dra;

FUZZ_TARGET(kube_objects) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(dra::says_change(text));
  const auto mixed = dra::parse_objects("objects", text);
  const auto list = dra::parse_objects("list", text, dra::KubeKind::deployment);
  for (const auto* seen : {&mixed, &list}) {
    if (!*seen) continue;
    for (const dra::KubeObject& one : (*seen)->objects) CHECK(dra::holds(one.body, one.body));
    const auto next = dra::next_steps({}, (*seen)->objects, "p");
    for (const dra::KubeStep& step : next.steps)
      CHECK(std::ranges::any_of((*seen)->objects, [&](const dra::KubeObject& one) {
        return one.kind == step.kind && one.name == step.name && one.manager == dra::kManager &&
               one.plan == "p";
      }));
  }
  return 0;
}
