#include "interop/kubernetes.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "base/form.h"
#include "interop/dra.h"
#include "interop/yaml_text.h"

namespace partita::interop {
namespace {

constexpr std::size_t kMaxName = 63;
constexpr int kPort = 8000;
constexpr const char* kService = "partita.gpu/service";

using Describe = std::function<void(Form&)>;
using Labels = std::vector<std::pair<std::string, std::string>>;

std::string mig_class(const hw::GpuModel& model) { return lower(model.name) + ".mig.partita.gpu"; }

// Instances of one service that are alike.
struct PodKind {
  std::string service, label, name;  // as planned; as a label; of the objects
  const hw::GpuModel* model = nullptr;
  const hw::MigProfile* profile = nullptr;
  int processes = 1, batch = 1, instances = 0;
  std::string engine = {};
  std::vector<std::string> apart = {};  // labels of services that may not be on its node
};

void told(Form& f, const Labels& labels) {
  for (const auto& [key, value] : labels) f.told(key, value);
}

Describe object(std::string_view version, std::string_view kind, const std::string& name,
                const KubernetesOptions* of, const Describe& spec) {
  return [=](Form& f) {
    f.told("apiVersion", version);
    f.told("kind", kind);
    f.told_object("metadata", [&](Form& meta) {
      meta.told("name", name);
      if (of != nullptr) meta.told("namespace", of->kube_namespace);
      meta.told_object("labels", [&](Form& labels) {
        labels.told("app.kubernetes.io/managed-by", "partita");
        if (of != nullptr) labels.told("partita.gpu/plan", of->plan);
      });
    });
    f.told_object("spec", spec);
  };
}

void describe_selectors(Form& f, const std::vector<std::string>& expressions) {
  f.rows("selectors", expressions,
         [](Form& one, const std::string& text) {
           one.told_object("cel", [&](Form& cel) { cel.told("expression", text); });
         },
         {});
}

std::string attribute(std::string_view name, std::string_view value) {
  return fmt::format("device.attributes['partita.gpu'].{} == '{}'", name, value);
}

void describe_share(Form& f, const PodKind& group) {
  f.told_object("opaque", [&](Form& opaque) {
    opaque.told("driver", "partita.gpu");
    opaque.told_object("parameters", [&](Form& all) {
      all.told("apiVersion", "partita.gpu/v1");
      all.told("kind", "PartitaShare");
      all.told_object("mps", [&](Form& mps) {
        mps.told("threadPercentage", 100 / group.processes);
        if (group.profile->memory)
          mps.told("memoryMib", static_cast<long>(group.profile->memory->value / group.processes));
      });
    });
  });
}

void describe_claim(Form& f, const PodKind& group) {
  f.told_object("devices", [&](Form& devices) {
    devices.rows("requests", 1,
                 [&](Form& one, std::size_t) {
                   one.told("name", "mig");
                   one.told_object("exactly", [&](Form& exactly) {
                     exactly.told("deviceClassName", mig_class(*group.model));
                     describe_selectors(exactly, {attribute("profile", group.profile->name)});
                   });
                 },
                 {});
    if (group.processes > 1)
      devices.rows("config", 1, [&](Form& one, std::size_t) { describe_share(one, group); }, {});
  });
}

void describe_container(Form& f, const PodKind& group, const std::string& image) {
  Labels environment = {{"PARTITA_SERVICE", group.service},
                        {"PARTITA_BATCH", std::to_string(group.batch)},
                        {"PARTITA_PROCESSES", std::to_string(group.processes)}};
  if (!group.engine.empty()) environment.emplace_back("PARTITA_ENGINE", group.engine);
  f.told("name", "worker");
  f.told("image", image);
  f.rows("env", environment,
         [](Form& one, const std::pair<std::string, std::string>& pair) {
           one.told("name", pair.first);
           one.told("value", pair.second);
         },
         {});
  f.rows("ports", 1,
         [](Form& port, std::size_t) {
           port.told("name", "http");
           port.told("containerPort", kPort);
         },
         {});
  f.told_object("readinessProbe", [](Form& probe) {
    probe.told_object("httpGet", [](Form& get) {
      get.told("path", "/v2/health/ready");
      get.told("port", "http");
    });
  });
  f.told_object("resources", [](Form& of) {
    of.rows("claims", 1, [](Form& claim, std::size_t) { claim.told("name", "gpu"); }, {});
  });
}

void describe_apart(Form& f, const std::vector<std::string>& labels) {
  f.rows("requiredDuringSchedulingIgnoredDuringExecution", 1,
         [&](Form& term, std::size_t) {
           term.told_object("labelSelector", [&](Form& selector) {
             selector.rows("matchExpressions", 1,
                           [&](Form& of, std::size_t) {
                             of.told("key", kService);
                             of.told("operator", "In");
                             of.told_list("values", labels, {});
                           },
                           {});
           });
           term.told("topologyKey", "kubernetes.io/hostname");
         },
         {});
}

void describe_pod(Form& f, const PodKind& group, const std::string& image) {
  if (group.processes > 1) f.told("hostIPC", true);  // MPS
  if (!group.apart.empty())
    f.told_object("affinity", [&](Form& of) {
      of.told_object("podAntiAffinity", [&](Form& apart) { describe_apart(apart, group.apart); });
    });
  f.rows("resourceClaims", 1,
         [&](Form& claim, std::size_t) {
           claim.told("name", "gpu");
           claim.told("resourceClaimTemplateName", group.name);
         },
         {});
  f.rows("containers", 1, [&](Form& one, std::size_t) { describe_container(one, group, image); },
         {});
}

Labels labels_of(const PodKind& group) {
  return {{kService, group.label}, {"partita.gpu/instance", group.name}};
}

// A plan leaves no room for one more instance, so the old one goes first.
void describe_deployment(Form& f, const PodKind& group, const std::string& image) {
  f.told("replicas", group.instances);
  f.told_object("strategy", [](Form& strategy) {
    strategy.told("type", "RollingUpdate");
    strategy.told_object("rollingUpdate", [](Form& of) {
      of.told("maxSurge", 0);
      of.told("maxUnavailable", 1);
    });
  });
  const Labels labels = labels_of(group);
  f.told_object("selector", [&](Form& selector) {
    selector.told_object("matchLabels", [&](Form& of) { told(of, labels); });
  });
  f.told_object("template", [&](Form& pod) {
    pod.told_object("metadata", [&](Form& meta) {
      meta.told_object("labels", [&](Form& of) { told(of, labels); });
    });
    pod.told_object("spec", [&](Form& spec) { describe_pod(spec, group, image); });
  });
}

void describe_service(Form& f, const std::string& label) {
  f.told_object("selector", [&](Form& of) { of.told(kService, label); });
  f.rows("ports", 1,
         [](Form& port, std::size_t) {
           port.told("name", "http");
           port.told("port", 80);
           port.told("targetPort", "http");
         },
         {});
}

void describe_budget(Form& f, const std::string& label) {
  f.told("maxUnavailable", 1);
  f.told_object("selector", [&](Form& selector) {
    selector.told_object("matchLabels", [&](Form& of) { of.told(kService, label); });
  });
}

Result<PodKind> pod_kind_of(const GpuGeometry& gpu, const Slot& slot) {
  PodKind group{slot.service, dns_label(slot.service), {}, gpu.board.model, &gpu.profile_of(slot)};
  group.processes = std::max(1, slot.processes);
  group.batch = std::max(1, slot.batch);
  group.engine = slot.engine;
  std::string profile = group.profile->name;
  std::erase_if(profile, [](char c) { return c == '.' || c == '+'; });
  group.name = fmt::format("{}-{}-{}-x{}-b{}", group.label, lower(group.model->name), profile,
                           group.processes, group.batch);
  if (group.label.empty() || group.name.size() > kMaxName)
    return bad_input("", fmt::format("service '{}': its name is too long for Kubernetes",
                                     comment(slot.service)));
  if (group.label.front() < 'a')
    return bad_input(
        "", fmt::format("service '{}': Kubernetes wants a letter first", comment(slot.service)));
  return group;
}

Result<std::map<std::string, PodKind>> pod_kinds_of(const Geometry& geometry) {
  std::map<std::string, PodKind> groups;
  for (const GpuGeometry& gpu : geometry.gpus)
    for (const Slot& slot : gpu.slots) {
      if (slot.service.empty()) continue;
      auto group = TRY(pod_kind_of(gpu, slot));
      if (const auto others = geometry.apart.find(slot.service); others != geometry.apart.end())
        for (const std::string& other : others->second) group.apart.push_back(dns_label(other));
      ++groups.try_emplace(group.name, group).first->second.instances;
    }
  if (groups.empty()) return bad_input("", "no service is on these instances");
  return groups;
}

std::vector<Describe> objects_of(const std::map<std::string, PodKind>& groups,
                                 const KubernetesOptions& options) {
  std::vector<Describe> all;
  std::set<std::string> seen;
  for (const auto& [name, group] : groups) {
    if (seen.insert(mig_class(*group.model)).second)
      all.push_back(object(
          "resource.k8s.io/v1", "DeviceClass", mig_class(*group.model), nullptr, [&group](Form& f) {
            describe_selectors(
                f, {"device.driver == 'partita.gpu'", attribute("model", group.model->name)});
          }));
    if (seen.insert("service " + group.label).second) {
      all.push_back(object("v1", "Service", group.label, &options,
                           [&group](Form& f) { describe_service(f, group.label); }));
      all.push_back(object("policy/v1", "PodDisruptionBudget", group.label, &options,
                           [&group](Form& f) { describe_budget(f, group.label); }));
    }
    all.push_back(
        object("resource.k8s.io/v1", "ResourceClaimTemplate", name, &options, [&group](Form& f) {
          f.told_object("spec", [&](Form& of) { describe_claim(of, group); });
        }));
    all.push_back(object("apps/v1", "Deployment", name, &options, [&group, &options](Form& f) {
      describe_deployment(f, group, options.image);
    }));
  }
  return all;
}

}  // namespace

Result<void> check_claims(const std::string& file, const plan::ServingPlan& plan) {
  for (const plan::PlannedGpu& gpu : plan.gpus)
    for (const plan::PlannedInstance& one : gpu.instances) {
      if (one.group > 1)
        return bad_input(
            file, fmt::format("service '{}' is served by groups of {} whole GPUs together, and "
                              "claims are for MIG instances",
                              one.service, one.group));
      if (one.prefill_units > 0)
        return bad_input(file, fmt::format("service '{}' computes prompts on {} SMs beside {} that "
                                           "decode, which no claim can ask for",
                                           one.service, one.prefill_units, one.decode_units));
    }
  return {};
}

Result<void> check_pods(const std::string& file, const plan::ServingPlan& plan) {
  for (const plan::PlannedService& one : plan.services)
    if (one.pipeline || one.models)
      return bad_input(file,
                       fmt::format("service '{}' is {}, which Partita's own gateway and "
                                   "workers serve: it has no form for Kubernetes yet",
                                   one.name, one.pipeline ? "a pipeline" : "a set of models"));
  if (plan.survive > 0)
    return bad_input(file,
                     "its services survive the loss of a GPU by where their instances are "
                     "(survive), which is left to Kubernetes there");
  return check_claims(file, plan);
}

Result<std::string> kubernetes_json(const Geometry& geometry, const KubernetesOptions& options) {
  TRY(check_namespace(options.kube_namespace));
  if (options.plan.empty() || dns_label(options.plan) != options.plan)
    return bad_input("--label", "Kubernetes wants lower-case letters, digits and dashes");
  const auto groups = TRY(pod_kinds_of(geometry));
  const std::vector<Describe> objects = objects_of(groups, options);
  const auto list = [&](Form& f) {
    f.told("apiVersion", "v1");
    f.told("kind", "List");
    f.rows("items", objects, [](Form& one, const Describe& describe) { describe(one); }, {});
  };
  return write_form(list, Form::Style::indented);
}

}  // namespace partita::interop
