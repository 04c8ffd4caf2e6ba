// Balancers in front of the gateways of several nodes: HAProxy's and nginx's configuration, Envoy's
// endpoints. Each service has a pool of nodes of its own, with the share of its requests that each
// should get. HTTP requests name their service in the path (/v2/models/NAME/...), all others in the
// header `partita-service` (of gRPC: metadata).
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"

namespace partita::interop {

struct BalancedNode {
  std::string node;
  std::string http, grpc;  // HOST:PORT of its gateway; empty: it has none
  double share = 0;        // 0: nothing is sent there
};
struct BalancedService {
  std::string name;
  std::vector<BalancedNode> nodes = {};
  double answer_ms = 0;  // as promised, of a whole answer; 0: nobody says
};
// So long an answer is waited for: four times as long as promised, a minute at least.
double answer_limit_s(const BalancedService& service);
using BalancedServices = std::vector<BalancedService>;

// What gateways' hosts are called that have no address by themselves.
std::set<std::string> host_names(const BalancedServices& services);
// Addresses of such names, as they were found; none: nobody knows the name.
using KnownHosts = std::map<std::string, std::vector<std::string>>;

struct BalancerOptions {
  std::string http = "*:8080";  // where the balancer listens; empty: it does not
  std::string grpc = {};
  std::string stats_socket = {};  // HAProxy's, where weights are set; empty: it has none
  std::string ca = {};  // who signs the certificates of gateways; empty: they speak no TLS
  // nginx gets these in place of names, of which it would refuse the whole file for one that it
  // does not find; HAProxy looks for itself, and takes these for those that it does not find.
  KnownHosts hosts = {};
};

enum class BalancerKind { haproxy, nginx, envoy };
// Takes out what this balancer's file cannot hold -- services of other names, addresses that are
// none, or names of hosts for Envoy, whose endpoints are IP addresses -- and says each, a sentence:
// what is wrong with one service or node is not to keep the others.
std::vector<std::string> leave_out_unfit(BalancedServices& services, BalancerKind kind);

// The same is bad input here, without context.
Result<std::string> haproxy_config(const BalancedServices& services,
                                   const BalancerOptions& options);
// To be included in the block `http`.
Result<std::string> nginx_config(const BalancedServices& services, const BalancerOptions& options);
// A DiscoveryResponse of ClusterLoadAssignments, a cluster per service and protocol, which Envoy
// reads again whenever the file is replaced (path_config_source).
Result<std::string> envoy_endpoints(const BalancedServices& services);
// What that file cannot say: the timeouts that routes need. A sentence.
std::string envoy_timeouts(const BalancedServices& services);

// The same without weights: what a change of weights alone does not change.
BalancedServices without_weights(BalancedServices services);
// For the stats socket: "set weight POOL/NODE N" of all, on one line.
std::string haproxy_weights(const BalancedServices& services, const BalancerOptions& options);

}  // namespace partita::interop
