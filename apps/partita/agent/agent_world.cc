#include "agent/agent_world.h"

#include <unistd.h>

#include <algorithm>
#include <set>

#include "decide/gpu_costs.h"
#include "decide/input.h"
#include "decide/power.h"
#include "decide/serving_inputs.h"
#include "decide/traces.h"

namespace partita::cli {
namespace {

constexpr const char* kSettingsFlag = "--settings";

void beside_it(const std::string& file, std::string& path) {
  if (!path.empty()) path = beside(file, path);
}

}  // namespace

Result<control::AgentFile> load_agent_file(Context& context, const std::string& path) {
  if (path.empty()) return control::AgentFile{};
  const std::string text = TRY(read_input(context.files, kSettingsFlag, path));
  control::AgentFile file = TRY(control::parse_agent_file(path, text));
  for (std::string* named :
       {&file.node.machine, &file.node.catalogue, &file.node.state_dir, &file.services,
        &file.server.tokens_file, &file.server.tls_certificate, &file.server.tls_key,
        &file.server.client_ca, &file.server.client_roles, &file.server.oidc,
        &file.server.access_log, &file.server.socket, &file.fleet.password_file, &file.fleet.ca,
        &file.fleet.certificate, &file.fleet.key})
    beside_it(path, *named);
  if (!file.profiles.empty()) file.profiles = decide::all_beside(path, file.profiles);
  for (auto* named : {&file.profiles_of, &file.power_tables})
    for (control::ModelProfiles& one : *named) one.path = decide::all_beside(path, one.path);
  return file;
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 && name[0] != 0 ? name : "node";
}

std::vector<std::string> models_of(const device::NodeState& node) {
  std::set<std::string> models;
  for (const device::GpuState& gpu : node.gpus)
    if (!gpu.model.empty()) models.insert(gpu.model);
  return {models.begin(), models.end()};
}

Result<control::World> agent_world(Context& context, const control::AgentFile& file,
                                   const hw::Catalogue& catalogue,
                                   const std::vector<std::string>& models) {
  control::World world{host_name(), file.policy, catalogue, {}, {}, file.max_processes};
  if (!file.slo_rule.empty()) {
    world.rule = TRY(decide::load_rule("slo_rule", file.slo_rule));
  }
  world.tariff =
      TRY(decide::load_tariff(context.files, {file.power.prices, file.power.carbon_price}));
  if (!file.services.empty()) world.services_file = file.services;
  if (const auto text = context.files.read(file.services); !file.services.empty() && text) {
    world.token_traces = TRY(decide::token_traces(context.files, file.services, *text));
  }
  for (const control::ModelProfiles& one : file.power_tables) {
    const auto gpu = TRY(catalogue.get(one.gpu));
    auto table = TRY(decide::load_slice_table(context.files, one.path, *gpu));
    world.power_tables.push_back(std::move(table));
  }
  for (const std::string& model : models) {
    const hw::GpuModel* gpu = catalogue.find(model);
    const auto own = std::ranges::find(file.profiles_of, model, &control::ModelProfiles::gpu);
    const std::string path = own != file.profiles_of.end() ? own->path : file.profiles;
    if (gpu == nullptr || path.empty()) continue;
    auto measured = TRY(decide::load_measured(context.files, "profiles", path, *gpu));
    world.profiles.push_back(std::move(measured));
  }
  return world;
}

}  // namespace partita::cli
