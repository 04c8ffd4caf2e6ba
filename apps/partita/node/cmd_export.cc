#include <filesystem>
#include <map>
#include <variant>

#include "commands.h"
#include "decide/foreign_file.h"
#include "decide/layout_file.h"
#include "device/node_forms.h"
#include "dra/keep_plan.h"
#include "fleet/fleet_place.h"
#include "forms/batch_forms.h"
#include "interop/checkpoint.h"
#include "interop/device_plugin.h"
#include "interop/dra.h"
#include "interop/kubernetes.h"
#include "interop/mig_parted.h"
#include "interop/slurm.h"
#include "queue/slurm/job_script.h"
#include "queue/slurm/past_jobs.h"
#include "queue/task_forms.h"

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

// A pod has a queue of its own, and a plan by the rule `pooled` promises what one queue over all
// instances of a service keeps.
void warn_of_queues(Context& context, const std::string& path, const plan::ServingPlan& plan) {
  std::map<std::string, int> pods;
  for (const plan::PlannedGpu& gpu : plan.gpus)
    for (const plan::PlannedInstance& one : gpu.instances) ++pods[one.service];
  const auto several = std::ranges::find_if(pods, [](const auto& one) { return one.second > 1; });
  if (plan.rule.dispatch == plan::Dispatch::pooled && several != pods.end())
    complain(context, fmt::format("warning: {}: service '{}' is planned for one queue over its {} "
                                  "instances, and pods have one each: plan with --dispatch "
                                  "shared-queue or per-process",
                                  path, several->first, several->second));
}

Result<interop::Geometry> load_geometry(Context& context, const ExportFlags& flags,
                                        const hw::Catalogue& catalogue) {
  const std::string& path = flags.file;
  const auto layout = TRY(decide::load_layout(context.files, "PLAN", path, catalogue));
  if (const auto* state = std::get_if<device::StateDocument>(&layout))
    return interop::from_state(path, *state, catalogue);
  const auto& plan = std::get<plan::ServingPlan>(layout);
  if (flags.to == "kubernetes") TRY(interop::check_pods(path, plan));
  if (flags.to == "kubernetes" && !flags.balance.watch) warn_of_queues(context, path, plan);
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
    options.minors =
        TRY(read_input(context.files, "--mig-minors", flags.minors, interop::parse_mig_minors));
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
  only(one_of(command, "--sharing", flags.sharing, {"time-slicing", "mps"}), "device-plugin");
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
  balancers(flag(command, "--settings", balance.settings));
  only(flag(command, "--watch", balance.watch), "haproxy|nginx|envoy|kubernetes");
  only(flag(command, "--interval", balance.interval)->default_str(balance.interval),
       "haproxy|nginx|envoy|kubernetes");
  only(flag(command, "--once", flags.keep.once), "kubernetes");
  only(flag(command, "--wait", flags.keep.wait)->default_str(flags.keep.wait), "kubernetes");
  only(flag(command, "--api-server", flags.keep.api.url), "kubernetes");
  only(flag(command, "--token-file", flags.keep.api.token_file), "kubernetes");
  balancers(flag(command, "--reload", balance.reload));
  only(one_of(command, "--part", flags.part, {"all", "gres", "node", "dynamic"}), "slurm");
}

struct ImportFlags {
  decide::ForeignFile source;
  double gpu_memory_gib = 0;  // 0: not said
  std::string catalogue;
  Output output;
};

Result<std::string> layout_form(const Context& context, const ImportFlags& flags,
                                const interop::Geometry& geometry, const hw::Catalogue& catalogue) {
  const device::StateDocument document = interop::to_state(geometry);
  if (flags.output.json()) return device::state_json(document.state, document.occupants);
  const bool colour = context.colour && flags.output.file.empty();
  return device::state_text(document.state, document.occupants, catalogue,
                            {.colour = colour, .width = context.width});
}

void say_all(Context& context, const ImportFlags& flags, const std::vector<std::string>& said) {
  for (const std::string& sentence : said)
    complain(context, fmt::format("{}: {}", flags.source.file, sentence));
}

Result<std::string> past_tasks(Context& context, const ImportFlags& flags,
                               const hw::Catalogue& catalogue, const std::string& text) {
  if (flags.output.json()) return bad_input("--format", "tasks of sacct are written as CSV");
  if (flags.source.gpu.empty())
    return bad_input("--gpu", "which GPUs did the jobs run on? Their sizes are the CSV's columns");
  const auto model = catalogue.get(flags.source.gpu);
  if (!model) return bad_input("--gpu", model.error().message);
  const auto past = TRY(slurm::parse_sacct(flags.source.file, text));
  std::optional<double> memory;
  if (flags.gpu_memory_gib > 0) memory = flags.gpu_memory_gib;
  const auto tasks = TRY(slurm::tasks_of(past, **model, memory));
  say_all(context, flags, tasks.said);
  if (tasks.problem.tasks.empty())
    return bad_input(flags.source.file, "none of its jobs makes a task");
  return forms::tasks_csv(tasks.problem);
}

Result<std::string> submission(Context& context, const ImportFlags& flags,
                               const std::string& text) {
  const std::string path = std::filesystem::absolute(flags.source.file).lexically_normal().string();
  auto script = TRY(slurm::parse_job_script(flags.source.file, text, path));
  if (flags.gpu_memory_gib > 0) script.spec.memory_gib = flags.gpu_memory_gib;
  say_all(context, flags, script.said);
  return queue::submission_json(script.spec);
}

Result<Exit> run_import(Context& context, const ImportFlags& flags) {
  const auto catalogue = TRY(decide::load_catalogue(context.files, flags.catalogue));
  if (flags.source.from == "sacct" || flags.source.from == "sbatch") {
    const auto text = TRY(read_input(context.files, "FILE", flags.source.file));
    const auto made = TRY(flags.source.from == "sacct" ? past_tasks(context, flags, catalogue, text)
                                                       : submission(context, flags, text));
    Output output = flags.output;
    if (flags.source.from == "sbatch") output.format = "json";  // there is no other form of it
    return finish(context, output, made);
  }
  const auto read = TRY(decide::read_foreign(context.files, flags.source, catalogue));
  Result<std::string> content;
  if (const auto* config = std::get_if<interop::PluginConfig>(&read))
    content = flags.output.json() ? interop::plugin_json(*config) : interop::plugin_text(*config);
  else
    content = layout_form(context, flags, std::get<interop::Geometry>(read), catalogue);
  if (!content) return failed(content.error());
  return finish(context, flags.output, *content);
}

}  // namespace

Command add_export(CLI::App& app) {
  auto [command, flags] = adding<ExportFlags>(
      app, "export", "Write a plan or the state of a node in the form of another tool");
  file_argument(*command, "PLAN", flags->file,
                "A plan, or the state of a node (partita status) or a fleet (fleet status)");
  takes(*command, "--to",
        needed(word_from(flags->to, {"mig-parted", "checkpoint", "device-plugin", "dra",
                                     "kubernetes", "slurm", "haproxy", "nginx", "envoy"})),
        "--node", flags->node);
  add_particular(*command, *flags);
  flag(*command, "--catalogue", flags->catalogue);
  add_output_file(*command, flags->output.file);
  return runs(
      command, flags, run_export,
      "partita export plan.json --to mig-parted -o config.yaml\n"
      "partita export plan.json --node state.json --to checkpoint -o checkpoint.json\n"
      "partita export plan.json --to dra --namespace inference\n"
      "partita export plan.json --to kubernetes --namespace inference --image registry/worker:1\n"
      "partita export plan.json --to kubernetes --watch --api-server http://127.0.0.1:8001\n"
      "partita export --fleet http://10.0.0.1:2379 --to haproxy --watch -o haproxy.cfg \\\n"
      "  --runtime /run/haproxy.sock --reload 'systemctl reload haproxy'");
}

Command add_import(CLI::App& app) {
  auto [command, flags] =
      adding<ImportFlags>(app, "import",
                          "Read a configuration of another tool and print it, or "
                          "write a layout for apply; Slurm's jobs "
                          "as tasks, a job script as a submission to the queue");
  file_argument(
      *command, "FILE", flags->source.file,
      "mig-parted's YAML or checkpoint, a device plugin's configuration, what sacct -P or "
      "sacct --json printed, or a job script")
      ->required();
  takes(*command, "--from",
        word_from(flags->source.from,
                  {"mig-parted", "checkpoint", "device-plugin", "sacct", "sbatch"}),
        "--label", flags->source.label, "--gpu", flags->source.gpu, "--gpus",
        limited(flags->source.gpus, 1, decide::kMaxForeignGpus), "--node", flags->source.node,
        "--gpu-memory", limited(flags->gpu_memory_gib, 0, 1e6, "For each task of sacct and sbatch"),
        "--catalogue", flags->catalogue);
  return runs(command, flags, run_import, {"text", "json"},
              "partita import config.yaml --label all-balanced --gpu A100-80GB --gpus 8\n"
              "partita import checkpoint.json --node state.json --format json -o wanted.json\n"
              "partita import week.txt --from sacct --gpu A100-80GB -o tasks.csv\n"
              "partita import job.sh --from sbatch -o submission.json");
}

}  // namespace partita::cli
