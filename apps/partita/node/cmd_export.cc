#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/split.h"
#include "commands.h"
#include "decide/input.h"
#include "decide/layout_file.h"
#include "dra/keep_plan.h"
#include "flags.h"
#include "fleet/balance.h"
#include "interop/checkpoint.h"
#include "interop/device_plugin.h"
#include "interop/dra.h"
#include "interop/kubernetes.h"
#include "interop/mig_parted.h"
#include "interop/slurm.h"

namespace partita::cli {
namespace {

struct ExportFlags {
  std::string file, to, node, catalogue;
  std::string label = "partita", sharing = "time-slicing", minors, part = "all";
  interop::DraOptions dra;
  std::string image = interop::KubernetesOptions{}.image;
  interop::SlurmOptions slurm;
  BalanceFlags balance;
  KeepPlanFlags keep;
  Output output;
  // Flags that some forms alone have, and those, "dra|kubernetes".
  std::vector<std::pair<const CLI::Option*, std::string>> particular = {};
};

// What is to be exported, and the node it is for where one was named.
struct Source {
  interop::Geometry geometry;
  std::optional<interop::Geometry> node;
};

Result<interop::Geometry> load_geometry(Context& context, const ExportFlags& flags,
                                        const hw::Catalogue& catalogue) {
  const std::string& path = flags.file;
  const auto layout = TRY(decide::load_layout(context.files, "PLAN", path, catalogue));
  if (const auto* state = std::get_if<device::StateDocument>(&layout))
    return interop::from_state(path, *state, catalogue);
  const auto& plan = std::get<plan::ServingPlan>(layout);
  if (flags.to == "kubernetes") TRY(interop::check_pods(path, plan));
  if (flags.to == "dra") TRY(interop::check_claims(path, plan));
  return interop::from_plan(path, plan, catalogue);
}

Result<interop::Geometry> load_node(Context& context, const std::string& path,
                                    const hw::Catalogue& catalogue) {
  const auto document = TRY(read_document(context.files, "--node", path));
  const Node* kind = document.root.find("kind");
  if (!kind || kind->text != "NodeState")
    return bad_input(document.at(kind ? *kind : document.root), "'kind' must be NodeState");
  const auto state = TRY(device::read_state(document, catalogue));
  return interop::from_state(path, state, catalogue);
}

Result<Source> load(Context& context, const ExportFlags& flags, const hw::Catalogue& catalogue) {
  interop::Geometry geometry = TRY(load_geometry(context, flags, catalogue));
  Source source{std::move(geometry), std::nullopt};
  if (flags.node.empty()) return source;
  interop::Geometry node = TRY(load_node(context, flags.node, catalogue));
  interop::Geometry placed = TRY(interop::on_node(flags.file, source.geometry, node));
  return Source{std::move(placed), std::move(node)};
}

// A refusal of a form is about the input file unless it names a flag.
template <class T>
Result<T> about(const std::string& file, Result<T> result) {
  if (result || !result.error().context.empty()) return result;
  return failed({result.error().code, result.error().message, file});
}

Result<std::string> checkpoint(const ExportFlags& flags, const Source& source) {
  // Restoring compares GPUs by position, so the node's other GPUs are stated as they are.
  Result<std::string> text = interop::checkpoint_json(
      source.node ? interop::overlaid(*source.node, source.geometry) : source.geometry);
  if (text) return text;
  return bad_input(flags.file, text.error().message + "; --node STATE gives UUIDs");
}

Result<std::string> sharing(const ExportFlags& flags, const Source& source) {
  const auto method =
      flags.sharing == "mps" ? interop::SharingMethod::mps : interop::SharingMethod::time_slicing;
  const interop::PluginConfig config = TRY(interop::plugin_config(source.geometry, method));
  return interop::plugin_yaml(config);
}

Result<std::string> slurm(Context& context, const ExportFlags& flags, const Source& source) {
  static const std::map<std::string, interop::SlurmPart> kParts{
      {"all", interop::SlurmPart::all},
      {"gres", interop::SlurmPart::gres},
      {"node", interop::SlurmPart::node},
      {"dynamic", interop::SlurmPart::dynamic}};
  interop::SlurmOptions options = flags.slurm;
  options.part = kParts.at(flags.part);
  if (!flags.minors.empty()) {
    const std::string text = TRY(read_input(context.files, "--mig-minors", flags.minors));
    options.minors = TRY(interop::parse_mig_minors(flags.minors, text));
  }
  return interop::slurm_lines(source.geometry, options);
}

Result<std::string> form(Context& context, const ExportFlags& flags, const Source& source) {
  if (flags.to == "mig-parted") return interop::mig_parted_yaml(source.geometry, flags.label);
  if (flags.to == "checkpoint") return checkpoint(flags, source);
  if (flags.to == "device-plugin") return sharing(flags, source);
  if (flags.to == "dra") return interop::dra_yaml(source.geometry, flags.dra);
  if (flags.to == "kubernetes")
    return interop::kubernetes_json(source.geometry,
                                    {flags.dra.kube_namespace, flags.label, flags.image});
  return slurm(context, flags, source);
}

Result<Exit> keep(Context& context, const ExportFlags& flags,
                  const std::function<Result<std::string>()>& text) {
  if (flags.balance.watch && flags.keep.once)
    return bad_input("--once", "and --watch are two things");
  if (!flags.output.file.empty())
    return bad_input("--output", "nothing is written where objects are applied");
  KeepPlanFlags keep = flags.keep;
  keep.plan = flags.label;
  keep.name_space = flags.dra.kube_namespace;
  keep.api.ca_file = flags.balance.balancer.ca;
  keep.interval = flags.balance.interval;
  return run_keep_plan(context, keep, text);
}

Result<Exit> run_export(Context& context, const ExportFlags& flags) {
  if (flags.to == "kubernetes" && !flags.balance.place.endpoints.empty())
    return bad_input("--fleet", "a fleet's agents carry its plan themselves, and pods beside them "
                                "would want the same slices: export a plan from a file");
  for (const auto& [option, form_name] : flags.particular)
    if (option->count() > 0 && std::ranges::count(split(form_name, '|'), flags.to) == 0)
      return bad_input(option->get_name(), fmt::format("only --to {} has it", form_name));
  if (is_balancer(flags.to)) {
    BalanceFlags balance = flags.balance;
    balance.to = flags.to, balance.file = flags.file, balance.output = flags.output;
    return run_balance(context, balance);
  }
  if (flags.file.empty()) return bad_input("PLAN", "is required");
  const hw::Catalogue catalogue = TRY(decide::load_catalogue(context.files, flags.catalogue));
  const auto text = [&]() -> Result<std::string> {
    const Source source = TRY(load(context, flags, catalogue));
    return about(flags.file, form(context, flags, source));
  };
  if (flags.balance.watch || flags.keep.once) return keep(context, flags, text);
  const auto content = TRY(text());
  return finish(context, flags.output, content);
}

void add_particular(CLI::App& command, ExportFlags& flags) {
  const auto only = [&](const CLI::Option* option, const char* form_name) {
    flags.particular.emplace_back(option, form_name);
  };
  only(flag(command, "--label", flags.label)->default_str(flags.label),
       "mig-parted|kubernetes");
  only(one_of(flag(command, "--sharing", flags.sharing), {"time-slicing", "mps"})
           ->default_str(flags.sharing),
       "device-plugin");
  only(
      flag(command, "--namespace", flags.dra.kube_namespace)->default_str(flags.dra.kube_namespace),
      "dra|kubernetes");
  only(flag(command, "--image", flags.image)->default_str(flags.image), "kubernetes");
  only(flag(command, "--claims", flags.dra.exact), "dra");
  only(flag(command, "--node-name", flags.slurm.node_name)->default_str(flags.slurm.node_name),
       "slurm");
  only(flag(command, "--mig-minors", flags.minors), "slurm");
  BalanceFlags& balance = flags.balance;
  const auto balancers = [&](const CLI::Option* option) { only(option, "haproxy|nginx|envoy"); };
  only(flag(command, "--http", balance.balancer.http)->default_str(balance.balancer.http),
       "haproxy|nginx");
  only(flag(command, "--grpc", balance.balancer.grpc), "haproxy|nginx");
  only(flag(command, "--tls-ca", balance.balancer.ca), "haproxy|nginx|kubernetes");
  only(flag(command, "--runtime", balance.balancer.stats_socket), "haproxy");
  balancers(flag(command, "--fleet", balance.place.endpoints));
  balancers(flag(command, "--fleet-name", balance.place.name));
  const FlagWords& settings = words_of("--settings");  // its older name is the program's here
  balancers(command.add_option("--settings", balance.settings, std::string(settings.text))
                ->type_name(std::string(settings.value)));
  only(flag(command, "--watch", balance.watch), "haproxy|nginx|envoy|kubernetes");
  only(flag(command, "--interval", balance.interval)->default_str(balance.interval),
       "haproxy|nginx|envoy|kubernetes");
  only(flag(command, "--once", flags.keep.once), "kubernetes");
  only(flag(command, "--wait", flags.keep.wait)->default_str(flags.keep.wait), "kubernetes");
  only(flag(command, "--api-server", flags.keep.api.url), "kubernetes");
  only(flag(command, "--token-file", flags.keep.api.token_file), "kubernetes");
  balancers(flag(command, "--reload", balance.reload));
  only(one_of(flag(command, "--part", flags.part), {"all", "gres", "node", "dynamic"})
           ->default_str(flags.part),
       "slurm");
}

}  // namespace

Command add_export(CLI::App& app) {
  auto [command, flags] = adding<ExportFlags>(
      app, "export", "Write a plan or the state of a node in the form of another tool");
  command
      ->add_option("PLAN", flags->file,
                   "A plan, or the state of a node (partita status) or a fleet (fleet status)")
      ->type_name("FILE");
  one_of(flag(*command, "--to", flags->to),
         {"mig-parted", "checkpoint", "device-plugin", "dra", "kubernetes", "slurm", "haproxy",
          "nginx", "envoy"})
      ->required();
  flag(*command, "--node", flags->node);
  add_particular(*command, *flags);
  add_catalogue(*command, flags->catalogue);
  add_output_file(*command, flags->output.file);
  command->footer(
      "partita export plan.json --to mig-parted -o config.yaml\n"
      "partita export plan.json --node state.json --to checkpoint -o checkpoint.json\n"
      "partita export plan.json --to dra --namespace inference\n"
      "partita export plan.json --to kubernetes --namespace inference --image registry/worker:1\n"
      "partita export plan.json --to kubernetes --watch --api-server http://127.0.0.1:8001\n"
      "partita export --fleet http://10.0.0.1:2379 --to haproxy --watch -o haproxy.cfg \\\n"
      "  --runtime /run/haproxy.sock --reload 'systemctl reload haproxy'");
  return {command, [flags](Context& context) { return run_export(context, *flags); }};
}

}  // namespace partita::cli
