#include "dra/cluster.h"

#include <fmt/format.h>

#include <cstdlib>

namespace partita::cli {
namespace {

constexpr const char* kAccount = "/var/run/secrets/kubernetes.io/serviceaccount";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Result<dra::KubeApiSettings> settled_cluster(Context& context, dra::KubeApiSettings api) {
  if (!api.url.empty()) return api;
  const std::string host = variable("KUBERNETES_SERVICE_HOST");
  const std::string port = variable("KUBERNETES_SERVICE_PORT");
  if (host.empty() || port.empty())
    return bad_input("--api-server", "is wanted outside a cluster, as http://127.0.0.1:8001");
  const bool v6 = host.find(':') != std::string::npos;
  api.url = fmt::format("https://{}:{}", v6 ? "[" + host + "]" : host, port);
  if (api.token_file.empty() && context.files.exists(std::string(kAccount) + "/token"))
    api.token_file = std::string(kAccount) + "/token";
  if (api.ca_file.empty() && context.files.exists(std::string(kAccount) + "/ca.crt"))
    api.ca_file = std::string(kAccount) + "/ca.crt";
  return api;
}

}  // namespace partita::cli
