// A plan as objects of Kubernetes (1.34 and later) for the driver of `partita dra`: a DeviceClass
// per GPU model, and per service a Service, a PodDisruptionBudget and, for each kind of instance
// that the plan gives it, a ResourceClaimTemplate and a Deployment with a pod per instance. Where
// the instances lie is left to the driver's order of devices; services that keep apart are kept on
// different nodes (podAntiAffinity), as a scheduler knows nothing smaller.
#pragma once

#include <string>

#include "base/result.h"
#include "interop/geometry.h"

namespace partita::interop {

struct KubernetesOptions {
  std::string kube_namespace = "default";
  std::string plan = "partita";  // the label partita.gpu/plan of all but DeviceClasses
  std::string image =
      "partita-worker:latest";  // of all pods; it is told what it serves by PARTITA_*
};

// bad_input, with `file` as context: what pods do not carry. Pipelines, sets of models, groups of
// GPUs, lanes (prefill beside decode), and the loss of a GPU, as the places are the driver's.
Result<void> check_pods(const std::string& file, const plan::ServingPlan& plan);
// The same of claims alone, which say nothing of services: groups of GPUs and lanes.
Result<void> check_claims(const std::string& file, const plan::ServingPlan& plan);

// A v1 List as JSON, which is YAML too. Bad input without context: no service on the instances, a
// name that Kubernetes cannot hold.
Result<std::string> kubernetes_json(const Geometry& geometry, const KubernetesOptions& options);

}  // namespace partita::interop
