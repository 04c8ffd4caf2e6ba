#include "fleet/objects/keeper.h"

#include <fmt/format.h>

#include <algorithm>

namespace partita::dra {
namespace {

using Verb = KubeStep::Verb;
constexpr int kNotFound = 404, kConflict = 409, kTooMany = 429;
constexpr std::int64_t kFirstPause = 100'000'000, kLongestPause = 30'000'000'000;
constexpr const char* kJson = "application/json";

bool is_fine(int status) { return status >= 200 && status < 300; }

// Refused for good, as long as nobody changes something: no right, no such kind, a body that the
// server does not take.
bool is_final(int status) {
  return status >= 400 && status < 500 && status != kConflict && status != kTooMany &&
         status != kNotFound && status != 408 && status != 401;
}

std::string said(std::string_view method, const std::string& path, int status) {
  return fmt::format("{} {}: the API server answered {}", method, path, status);
}

Result<std::string> list_all(const KeptPlan& plan, const AskKube& ask,
                             std::vector<KubeObject>& seen) {
  std::string version;
  for (int i = 0; i < kKubeKinds; ++i) {
    const KubeKind kind = static_cast<KubeKind>(i);
    const std::string path = path_of(kind, plan.name_space);
    const auto answer = ask("GET", path, "", "");
    if (!answer) return failed(answer.error());
    if (!is_fine(answer->status))
      return environment_error("--api-server", said("GET", path, answer->status));
    auto list = parse_objects("the API server's list", answer->body, kind);
    if (!list) return environment_error(path, to_string(list.error()));
    std::ranges::move(list->objects, std::back_inserter(seen));
    version = list->version;
  }
  return version;
}

// A new one is not applied, which would be to change what somebody else has made a moment ago. What
// it was made with stays its own until applying says otherwise, and that says the same fields.
Result<KubeReply> take(const KeptPlan& plan, const KubeStep& step, const AskKube& ask) {
  const std::string all = path_of(step.kind, plan.name_space), one = all + "/" + step.name;
  const std::string by = fmt::format("?fieldManager={}", kManager);
  switch (step.verb) {
    case Verb::create:
      return ask("POST", all + by, step.body, kJson);
    case Verb::apply:
      return ask("PATCH", one + by + "&force=true", step.body, "application/apply-patch+yaml");
    case Verb::scale:
      return ask("PATCH", one + by, step.body, "application/merge-patch+json");
    case Verb::remove:
      break;
  }
  return ask("DELETE", one, step.body, kJson);
}

bool breaks(const KubeStep& step) { return step.verb == Verb::scale || step.verb == Verb::remove; }

}  // namespace

Result<KeptRound> keep_round(const KeptPlan& plan, const AskKube& ask) {
  std::vector<KubeObject> seen;
  const auto version = list_all(plan, ask, seen);
  if (!version) return failed(version.error());
  const NextSteps next = next_steps(plan.wanted, seen, plan.name);
  KeptRound round{0, false, next.waiting, next.faults, *version};
  for (const KubeStep& step : next.steps) {
    if (breaks(step) && round.faults.size() > next.faults.size()) break;
    const auto answer = take(plan, step, ask);
    if (!answer) return failed(answer.error());
    const std::string what =
        said(breaks(step) ? "remove" : "apply", fmt::format("{} {}", word_of(step.kind), step.name),
             answer->status);
    if (is_final(answer->status))
      round.faults.push_back(what);
    else if (!is_fine(answer->status))
      return environment_error("--api-server", what);
    else
      ++round.done;
  }
  round.settled = next.steps.empty() && round.faults.empty() && round.waiting.empty();
  return round;
}

std::int64_t pause_ns(int failures, double uniform) {
  const int doublings = std::clamp(failures - 1, 0, 10);
  const std::int64_t pause = std::min(kFirstPause << doublings, kLongestPause);
  return pause / 2 + static_cast<std::int64_t>(static_cast<double>(pause / 2) * uniform);
}

}  // namespace partita::dra
