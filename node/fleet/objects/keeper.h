// One round of keeping a plan's objects: everything is listed, the next steps are taken. It keeps
// nothing between rounds. Where a list fails nothing is changed.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "fleet/objects/next_steps.h"

namespace partita::dra {

struct KubeReply {
  int status = 0;
  std::string body = {};
};
// An error: no answer came, and it may have been done.
using AskKube = std::function<Result<KubeReply>(std::string_view method, const std::string& path,
                                                const std::string& body, std::string_view type)>;

struct KeptPlan {
  std::string name, name_space;  // the label's value; where its objects are
  std::vector<KubeObject> wanted;
};

struct KeptRound {
  int done = 0;                          // steps
  bool settled = false;                  // everything is as planned
  std::string waiting = {};              // else what it waits for
  std::vector<std::string> faults = {};  // what is refused until a person has changed something
  std::string version = {};              // of Deployments, from which changes are watched
};
// Environment error: ask again after pause_ns().
Result<KeptRound> keep_round(const KeptPlan& plan, const AskKube& ask);

// How long to wait after so many failures one after another: 100 ms and twice as much each time,
// 30 s at most, of that between half and all by `uniform` in [0, 1).
std::int64_t pause_ns(int failures, double uniform);

}  // namespace partita::dra
