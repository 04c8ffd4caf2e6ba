// Kubernetes objects for the DRA driver of NVIDIA GPUs (resource.k8s.io/v1): a DeviceClass per GPU
// model, and either a ResourceClaimTemplate per service and kind of instance, or a ResourceClaim
// per instance. Processes that share an instance become MPS sharing in the driver's own
// configuration.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "interop/geometry.h"

namespace partita::interop {

// A name as one label of a Kubernetes object's name: lower-case letters, digits and dashes, a
// letter or digit first and last. Different names give different labels: what cannot stay becomes
// '--' and two hexadecimal digits. Empty when the result is longer than kMaxLabel.
inline constexpr std::size_t kMaxLabel = 180;
std::string dns_label(std::string_view name);

// Refused by --namespace.
Result<void> check_namespace(const std::string& name);

struct DraOptions {
  std::string kube_namespace = "default";
  bool exact = false;  // claims of single instances at their place rather than templates
};

// The objects as YAML documents. Bad input without context: no instance that a claim could be for,
// names that are too long, and with `exact` GPUs without UUID.
Result<std::string> dra_yaml(const Geometry& geometry, const DraOptions& options);

}  // namespace partita::interop
