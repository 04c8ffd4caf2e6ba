#include "fleet/objects/next_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/json_writer.h"

namespace partita::dra {
namespace {

using Verb = KubeStep::Verb;

std::string json_of(const Node& node) { return JsonWriter().value(node).take(); }

const KubeObject* find(const std::vector<KubeObject>& all, KubeKind kind, const std::string& name) {
  const auto found = std::ranges::find_if(
      all, [&](const KubeObject& one) { return one.kind == kind && one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

// Pods that are ready for sure, whatever was changed a moment ago.
int ready_of(const KubeObject& deployment) {
  if (!deployment.observed || deployment.deleting) return 0;
  return std::min(deployment.ready, deployment.replicas);
}

Node with(Node body, std::string_view part, std::string_view key, Node value) {
  for (Node::Member& member : body.members)
    if (member.key == part) set_member(member.value, key, std::move(value));
  return body;
}

class Brain {
 public:
  Brain(const std::vector<KubeObject>& wanted, const std::vector<KubeObject>& seen,
        const std::string& plan)
      : wanted_(wanted), seen_(seen), plan_(plan) {}

  NextSteps steps() {
    find_faults();
    count();
    for (const KubeObject& one : wanted_) settle(one);
    for (const KubeObject& one : seen_)
      if (is_ours(one) && one.kind != KubeKind::device_class &&
          find(wanted_, one.kind, one.name) == nullptr)
        clear(one);
    return std::move(next_);
  }

 private:
  bool is_ours(const KubeObject& one) const {
    return one.manager == kManager && (one.kind == KubeKind::device_class || one.plan == plan_);
  }
  void find_faults() {
    for (const KubeObject& one : wanted_)
      if (const KubeObject* there = find(seen_, one.kind, one.name); there && !is_ours(*there))
        next_.faults.push_back(
            fmt::format("{} {} is there and not of this plan: it is left as it is",
                        word_of(one.kind), one.name));
  }
  // Of each service how many ready pods there are beyond those that the plan wants.
  void count() {
    for (const KubeObject& one : wanted_) spare_[one.service] -= one.replicas;
    for (const KubeObject& one : seen_)
      if (is_ours(one)) spare_[one.service] += ready_of(one);
  }
  void wait_for(const std::string& what) {
    if (next_.waiting.empty()) next_.waiting = what;
  }
  void step(Verb verb, const KubeObject& object, const Node& body) {
    next_.steps.push_back({verb, object.kind, object.name, json_of(body)});
  }

  // How many of a Deployment's pods are to be left now on the way to `wanted`. Those that are not
  // ready go first, which is what Kubernetes does; where ready ones are short not even those, which
  // may be ready by now.
  int lowered(const KubeObject& there, int wanted) {
    if (wanted >= there.replicas) return wanted;
    if (!there.observed || !next_.faults.empty()) return there.replicas;
    const int ready = ready_of(there);
    int& spare = spare_[there.service];
    if (spare < 0) return there.replicas;
    const int left = std::max(wanted, ready - std::min(spare, ready));
    spare -= ready - std::min(ready, left);
    return left;
  }

  void settle(const KubeObject& one) {
    const KubeObject* there = find(seen_, one.kind, one.name);
    if (there == nullptr) return step(Verb::create, one, one.body);
    if (!is_ours(*there)) return;
    if (there->deleting) return wait_for(fmt::format("{} is being deleted", one.name));
    Node body = one.body;
    if (one.kind == KubeKind::deployment) {
      const int replicas = lowered(*there, one.replicas);
      body = with(std::move(body), "spec", "replicas", number_node(replicas));
      if (replicas != one.replicas || ready_of(*there) < one.replicas ||
          there->updated < one.replicas)
        wait_for(
            fmt::format("{}: {} of {} pods are ready", one.name, ready_of(*there), one.replicas));
    }
    if (!holds(there->body, body))
      step(Verb::apply, one,
           with(std::move(body), "metadata", "resourceVersion", text_node(there->version)));
  }

  void clear(const KubeObject& one) {
    if (one.deleting) return wait_for(fmt::format("{} is being deleted", one.name));
    if (one.kind == KubeKind::deployment) return clear_pods(one);
    const bool used = std::ranges::any_of(seen_, [&](const KubeObject& other) {
      return other.kind == KubeKind::deployment && is_ours(other) &&
             (one.kind == KubeKind::claim_template ? other.name : other.service) == one.name;
    });
    if (used || !next_.faults.empty())
      return wait_for(fmt::format("{} {} goes last", word_of(one.kind), one.name));
    remove(one);
  }
  void clear_pods(const KubeObject& one) {
    const int left = lowered(one, 0);
    if (left == 0 && next_.faults.empty()) return remove(one);
    wait_for(fmt::format("{} goes when other pods of its service are ready", one.name));
    if (left < one.replicas)
      step(Verb::scale, one,
           object_node({{"metadata", object_node({{"resourceVersion", text_node(one.version)}})},
                        {"spec", object_node({{"replicas", number_node(left)}})}}));
  }
  void remove(const KubeObject& one) {
    const Node conditions =
        object_node({{"uid", text_node(one.uid)}, {"resourceVersion", text_node(one.version)}});
    step(Verb::remove, one,
         object_node({{"apiVersion", text_node("v1")},
                      {"kind", text_node("DeleteOptions")},
                      {"propagationPolicy", text_node("Background")},
                      {"preconditions", conditions}}));
  }

  const std::vector<KubeObject>&wanted_, &seen_;
  const std::string& plan_;
  std::map<std::string, int> spare_;
  NextSteps next_;
};

}  // namespace

NextSteps next_steps(const std::vector<KubeObject>& wanted, const std::vector<KubeObject>& seen,
                     const std::string& plan) {
  return Brain(wanted, seen, plan).steps();
}

}  // namespace partita::dra
