// What is to be done next so that Kubernetes has the objects of a plan: wanted objects x seen ones
// -> steps. A function of both alone, so whoever starts anew goes on where another was killed.
//
// Make before break: as many pods of a service are ready as the plan wants of it, or as there were,
// before one goes. Of a kind of instances that has too many pods, those go that the others of its
// service make up for; so where the new plan has fewer pods there is room for its new ones. Objects
// without this plan's labels are never touched, and a DeviceClass, which others' claims may name,
// is never removed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fleet/objects/objects.h"

namespace partita::dra {

struct KubeStep {
  // create: fails where the name is taken. apply: server-side. scale: its pods alone. All but
  // create fail where the object has changed since it was seen.
  enum class Verb : std::uint8_t { create, apply, scale, remove };
  Verb verb = Verb::create;
  KubeKind kind = KubeKind::deployment;
  std::string name, body;
};

struct NextSteps {
  std::vector<KubeStep> steps;  // in order; where one fails, what is seen is to be read again
  std::vector<std::string> faults = {};  // what a person has to do; nothing goes until then
  std::string waiting = {};              // what it waits for, the first thing; nothing: it is done
};

// `seen` is all of the namespace and every DeviceClass, at one moment each kind. `plan` is the
// value of the label.
NextSteps next_steps(const std::vector<KubeObject>& wanted, const std::vector<KubeObject>& seen,
                     const std::string& plan);

}  // namespace partita::dra
