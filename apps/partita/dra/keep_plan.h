// export --to kubernetes --watch|--once: a plan's objects at an API server, made as the plan says,
// once or again whenever one of both changes.
#pragma once

#include <functional>
#include <string>

#include "context.h"
#include "fleet/kubelet/kube_api.h"

namespace partita::cli {

struct KeepPlanFlags {
  dra::KubeApiSettings api;
  std::string plan, name_space;  // the label of its objects; where they are
  std::string interval = "1s", wait = "5m";
  bool once = false;
};

// `objects` reads the plan and answers its objects, a v1 List. The first time it has to; later what
// cannot be read is said, and the plan before stays. Environment error with `once`: after --wait,
// or where something is refused, it is not as planned.
Result<Exit> run_keep_plan(Context& context, const KeepPlanFlags& flags,
                           const std::function<Result<std::string>()>& objects);

}  // namespace partita::cli
