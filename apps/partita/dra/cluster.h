// The API server of Kubernetes that a command asks: as its flags say, else that of the cluster in
// whose pod it runs.
#pragma once

#include "context.h"
#include "fleet/kubelet/kube_api.h"

namespace partita::cli {

// What a pod is told by its cluster, where flags say nothing.
Result<dra::KubeApiSettings> settled_cluster(Context& context, dra::KubeApiSettings flags);

}  // namespace partita::cli
