#include "api/metrics.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

#include "base/append.h"
#include "device/observe/sample_text.h"

namespace partita::api {

namespace {

using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

class Exposition {
 public:
  // The metric of the values that follow; its lines stand together.
  void metric(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    head_ = "# HELP " + std::string(name) + " " + std::string(help) + "\n# TYPE " +
            std::string(name) + " " + std::string(type) + "\n";
  }
  void value(std::optional<double> number, Labels labels = {}) {
    if (!number || !std::isfinite(*number)) return;
    text_ += std::exchange(head_, {});
    text_ += name_;
    char between = '{';
    for (const auto& [label, said] : labels) {
      text_.push_back(between);
      text_ += label;
      text_ += "=\"";
      text_ += metric_label(said);
      text_ += '"';
      between = ',';
    }
    if (labels.size() > 0) text_ += '}';
    append(text_, " {}\n", *number);
  }
  void one(std::string_view name, std::string_view type, std::string_view help, double number) {
    metric(name, type, help);
    value(number);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string_view name_;
  std::string head_, text_;
};

void agent(Exposition& out, const control::Snapshot& is) {
  out.metric("partita_agent_info", "gauge", "The agent, its node and its mode.");
  out.value(1, {{"node", is.node}, {"mode", control::to_string(is.mode)}});
  out.one("partita_agent_state_timestamp_seconds", "gauge", "When the state was made.",
          static_cast<double>(is.time_ms) / 1000);
  out.one("partita_agent_converged", "gauge", "1 while the node is as its plan wants it.",
          is.converged ? 1 : 0);
  out.one("partita_agent_node_readable", "gauge", "1 while the node can be read; 0: it is old.",
          is.node_fault.empty() ? 1 : 0);
  out.one("partita_agent_worker_restarts_total", "counter", "Workers started again.",
          static_cast<double>(is.restarts));
  out.one("partita_agent_workers_given_up", "gauge", "Workers that are not started any more.",
          static_cast<double>(is.given_up_workers));
  out.one("partita_agent_drifts_total", "counter", "Times that the node was not as it was left.",
          static_cast<double>(is.drifts));
  out.one("partita_agent_changes_total", "counter", "Changes so far.",
          static_cast<double>(is.changes));
  out.one("partita_agent_changes_failed_total", "counter", "Changes that failed.",
          static_cast<double>(is.failed_changes));
  out.metric("partita_agent_change_current", "gauge", "The change proposed or under way.");
  if (is.current)
    out.value(static_cast<double>(is.current->number),
              {{"state", control::to_string(is.current->state)}});
  out.metric("partita_agent_change_last", "gauge", "Number of the change that ended last.");
  if (is.last)
    out.value(static_cast<double>(is.last->number),
              {{"outcome", control::to_string(is.last->state)}});
  out.metric("partita_agent_change_last_timestamp_seconds", "gauge", "When that was.");
  if (is.last) out.value(static_cast<double>(is.last->ended_ms) / 1000);
  out.metric("partita_agent_verdicts_total", "counter",
             "What the judge said of plans, since the agent started.");
  for (const control::JudgedPlans& one : is.judged) {
    out.value(static_cast<double>(one.accepted), {{"asked", one.asked}, {"outcome", "accepted"}});
    out.value(static_cast<double>(one.refused), {{"asked", one.asked}, {"outcome", "refused"}});
  }
  out.metric("partita_agent_batch_tasks", "gauge",
             "Tasks of batches; failed: those that were skipped, too.");
  out.value(is.batch.waiting, {{"state", "waiting"}});
  out.value(is.batch.running, {{"state", "running"}});
  out.value(is.batch.done, {{"state", "done"}});
  out.value(is.batch.failed, {{"state", "failed"}});
  out.value(is.batch.cancelled, {{"state", "cancelled"}});
}

// On a large node (snapshot.h) a service that no plan has and that nothing runs for has no numbers
// of what runs.
bool is_shown(const control::Snapshot& is, const control::ServiceNow& service) {
  return !control::is_large(is) || service.planned_rps > 0 || service.is.can_carry_rps > 0 ||
         service.segments > 0 || service.ready_workers > 0;
}

template <class Value>
void per_service(Exposition& out, const control::Snapshot& is, std::string_view name,
                 std::string_view help, Value value) {
  out.metric(name, "gauge", help);
  for (const control::ServiceNow& service : is.services)
    out.value(value(service), {{"service", service.name}});
}

// A line a word; on a large node whether each service serves, and the word that its verdict is.
void verdicts(Exposition& out, const control::Snapshot& is) {
  out.metric("partita_service_verdict", "gauge", "1 for the word that its verdict is, else 0.");
  const bool large = control::is_large(is);
  for (const control::ServiceNow& service : is.services)
    for (const control::Standing word : control::kStandings)
      if (!large || word == control::Standing::serves || word == service.is.verdict)
        out.value(service.is.verdict == word ? 1 : 0,
                  {{"service", service.name}, {"verdict", control::to_string(word)}});
}

void services(Exposition& out, const control::Snapshot& is) {
  using control::ServiceNow;
  using Maybe = std::optional<double>;
  const auto field = [&](const char* name, const char* help, Maybe ServiceNow::*what) {
    per_service(out, is, name, help, [&](const ServiceNow& service) { return service.*what; });
  };
  field("partita_service_rate_rps", "Requests per second, measured.", &ServiceNow::rate_rps);
  field("partita_service_forecast_rps", "Requests per second, expected.",
        &ServiceNow::forecast_rps);
  field("partita_service_forecast_low_rps", "Low end of what is expected.",
        &ServiceNow::forecast_low_rps);
  field("partita_service_forecast_high_rps", "High end of what is expected.",
        &ServiceNow::forecast_high_rps);
  per_service(out, is, "partita_service_wanted_rps",
              "To be planned for here; of a fleet, what this node's part says.",
              [](const ServiceNow& service) { return Maybe(service.rate.value); });
  const auto of_served = [&](const char* name, const char* help, auto value) {
    per_service(out, is, name, help, [&](const ServiceNow& service) {
      return is_shown(is, service) ? Maybe(value(service)) : std::nullopt;
    });
  };
  of_served("partita_service_planned_rps", "What the plan in force is made for.",
            [](const ServiceNow& service) { return service.planned_rps; });
  const auto is_heard = [](const ServiceNow& service) {  // else it is as it was
    return service.is.verdict != control::Standing::unknown || service.ready_workers > 0;
  };
  of_served(
      "partita_service_capacity_rps", "What its workers that are ready carry.",
      [&](const ServiceNow& service) { return is_heard(service) ? service.is.can_carry_rps : 0; });
  const auto of_asked = [&](const char* name, const char* help,
                            double control::ServiceVerdict::*what) {
    per_service(out, is, name, help, [&](const ServiceNow& service) {
      if (!service.rate_rps && service.is.as_of_ms == 0) return Maybe();  // nobody counts them
      const bool measured = service.rate_rps || service.is.asked_rps > 0;
      return measured || !control::is_large(is) ? Maybe(service.is.*what) : std::nullopt;
    });
  };
  of_asked("partita_service_asked_rps", "Requests per second, answered or not.",
           &control::ServiceVerdict::asked_rps);
  of_asked("partita_service_answered_rps", "Of them, those answered in time.",
           &control::ServiceVerdict::answered_rps);
  field("partita_service_attainment_ratio", "Share of requests within the SLO.",
        &ServiceNow::attainment);
  per_service(out, is, "partita_service_slo_ms", "The latency that is asked for.",
              [](const ServiceNow& service) { return Maybe(service.slo.value); });
  per_service(out, is, "partita_service_slo_percentile",
              "So many percent of the requests are to be in time.", [&](const ServiceNow& service) {
                const bool usual = service.percentile == ServiceNow{}.percentile;
                return usual && control::is_large(is) ? Maybe() : Maybe(service.percentile);
              });
  field("partita_service_p99_ms", "99th percentile of the latency.", &ServiceNow::p99_ms);
  per_service(out, is, "partita_service_at_risk", "1 while its verdict is not serves.",
              [&](const ServiceNow& service) {
                if (!service.at_risk() && control::is_large(is)) return Maybe();  // it serves
                return Maybe(service.at_risk() ? 1 : 0);
              });
  verdicts(out, is);
  of_served("partita_service_segments", "Instances that carry it.",
            [](const ServiceNow& service) { return service.segments; });
  of_served("partita_service_workers_ready", "Workers that take requests.",
            [](const ServiceNow& service) { return service.ready_workers; });
  out.metric("partita_service_energy_joules_total", "counter",
             "Its part of what the boards took since the agent began: above idle by how busy its "
             "instances were, idle power by compute slices. (batch): of batches.");
  for (const ServiceNow& service : is.services)
    if (service.energy_j && (*service.energy_j > 0 || !control::is_large(is)))
      out.value(*service.energy_j, {{"service", service.name}});
  if (is.batch.energy_j) out.value(*is.batch.energy_j, {{"service", control::kBatchTenant}});
}

// What nobody tells is left out: 0 would be a figure.
void host(Exposition& out, const control::Snapshot& is) {
  if (!is.host) return;
  const std::pair<const char*, std::optional<double>> parts[] = {
      {"cpu", is.host->cpu_j}, {"dram", is.host->dram_j}, {"psys", is.host->psys_j}};
  out.metric("partita_node_energy_joules_total", "counter",
             "That CPUs and memory took since the agent began, by RAPL; psys: the whole platform, "
             "which has the others in it.");
  for (const auto& [part, joules] : parts)
    if (joules) out.value(*joules, {{"part", part}});
  if (is.host->node_w)
    out.one("partita_node_power_watts", "gauge", "Of GPUs, CPUs and memory together.",
            *is.host->node_w);
  out.metric("partita_service_host_energy_joules_total", "counter",
             "Its part of what CPUs and memory took since the agent began.");
  for (const control::ServiceNow& service : is.services)
    if (service.host_energy_j) out.value(*service.host_energy_j, {{"service", service.name}});
  out.metric("partita_service_host_idle_joules_total", "counter",
             "Of these: idle power, by the least that CPUs and memory were seen to take.");
  for (const control::ServiceNow& service : is.services)
    if (service.host_idle_j) out.value(*service.host_idle_j, {{"service", service.name}});
}

void bills(Exposition& out, const control::Snapshot& is) {
  using control::ServiceNow;
  const auto of_service = [&](const char* name, const char* help,
                              std::optional<double> ServiceNow::*what) {
    const auto said = [&](const ServiceNow& service) { return (service.*what).has_value(); };
    if (std::ranges::none_of(is.services, said)) return;
    out.metric(name, "gauge", help);
    for (const ServiceNow& service : is.services)
      if (service.*what) out.value(*(service.*what), {{"service", service.name}});
  };
  of_service("partita_service_energy_cost", "Money for its joules since the agent began.",
             &ServiceNow::energy_cost);
  of_service("partita_service_co2_grams", "Grams of CO2 for its joules since the agent began.",
             &ServiceNow::co2_g);
}

void gpus(Exposition& out, const control::Snapshot& is) {
  out.metric("partita_gpu_out", "gauge", "1 while a GPU is taken out.");
  for (const control::GpuNow& gpu : is.gpus)
    out.value(gpu.out ? 1 : 0, {{"gpu", std::to_string(gpu.index)}, {"UUID", gpu.uuid}});
  out.metric("partita_slice_service", "gauge", "What runs on an instance: processes.");
  for (const actuate::AssignedSegment& one : is.assignment.segments)
    out.value(one.processes, {{"UUID", one.gpu_uuid},
                              {"device", one.device},
                              {"profile", one.profile},
                              {"service", one.service}});
  out.metric("partita_slice_use_ratio", "gauge",
             "Requests that an instance gets against those that it is planned to carry at most.");
  for (const actuate::AssignedSegment& one : is.assignment.segments) {
    const auto service = std::ranges::find(is.services, one.service, &control::ServiceNow::name);
    if (service == is.services.end() || !service->rate_rps || service->is.can_carry_rps <= 0)
      continue;
    out.value(*service->rate_rps / service->is.can_carry_rps, {{"UUID", one.gpu_uuid},
                                                               {"device", one.device},
                                                               {"profile", one.profile},
                                                               {"service", one.service}});
  }
}

void power(Exposition& out, const control::Snapshot& is) {
  if (!is.power) return;
  out.one("partita_power_budget_watts", "gauge",
          "That the GPUs of this node may draw together, by the fleet's budgets.",
          is.power->budget_w);
  out.one("partita_power_limit_watts", "gauge", "That they are limited to.", is.power->limits_w);
  if (is.power->draw_w)
    out.one("partita_power_draw_watts", "gauge", "That they draw.", *is.power->draw_w);
}

// A line a word, as of the services of a node; of many services fewer.
void fleet_verdicts(Exposition& out, const fleet::FleetStatus& is, bool stale) {
  out.metric("partita_fleet_service_verdict", "gauge",
             "1 for the word that its verdict in the whole fleet is, else 0.");
  const bool large = is.services.size() > control::kWholeRows;
  for (const fleet::ServiceStatus& service : is.services)
    for (const control::Standing one : control::kStandings) {
      const std::string word = control::to_string(one);
      const bool said = word == (stale ? "unknown" : service.verdict);
      if (!large || said || one == control::Standing::serves)
        out.value(said ? 1 : 0, {{"service", service.service}, {"verdict", word}});
    }
}

void fleet_rates(Exposition& out, const fleet::FleetStatus& is) {
  out.metric("partita_fleet_node_there", "gauge", "1 while the node's lease is alive.");
  for (const fleet::NodeStatus& node : is.nodes)
    out.value(node.there ? 1 : 0, {{"node", node.node}});
  const auto rates = [&](const char* name, const char* help, double fleet::ServiceStatus::*rate) {
    out.metric(name, "gauge", help);
    for (const fleet::ServiceStatus& one : is.services)
      out.value(one.*rate, {{"service", one.service}});
  };
  rates("partita_fleet_service_wanted_rps", "Requests per second to plan for.",
        &fleet::ServiceStatus::wanted_rps);
  rates("partita_fleet_service_planned_rps", "By parts of nodes that are there.",
        &fleet::ServiceStatus::planned_rps);
  rates("partita_fleet_service_carried_rps", "By nodes that are there, now.",
        &fleet::ServiceStatus::carried_rps);
}

}  // namespace

std::string fleet_metrics(const fleet::FleetStatus* is, double silent_s, bool stale) {
  Exposition out;
  out.one("partita_fleet_heard_seconds", "gauge", "Since the fleet's store answered last.",
          silent_s);
  if (is == nullptr) return out.take();
  out.one("partita_fleet_converged", "gauge",
          "1 while every node that is there has carried out its part.",
          is->converged && !stale ? 1 : 0);
  fleet_verdicts(out, *is, stale);
  if (!stale) fleet_rates(out, *is);
  return out.take();
}

std::string agent_metrics(const control::Snapshot& snapshot, const ServerCounts& counts) {
  Exposition out;
  agent(out, snapshot);
  services(out, snapshot);
  host(out, snapshot);
  bills(out, snapshot);
  gpus(out, snapshot);
  power(out, snapshot);
  out.one("partita_api_connections", "gauge", "Open connections of the API.",
          static_cast<double>(counts.connections));
  out.one("partita_api_streams", "gauge", "Open streams of events.",
          static_cast<double>(counts.streams));
  out.metric("partita_api_answers_total", "counter", "Answers of the API.");
  for (std::size_t i = 2; i < counts.answers.size(); ++i)
    out.value(static_cast<double>(counts.answers[i]), {{"status", std::to_string(i) + "xx"}});
  out.one("partita_api_refused_total", "counter", "Calls by those who may not.",
          static_cast<double>(counts.refused));
  out.one("partita_api_limited_total", "counter", "Calls above the rate limit.",
          static_cast<double>(counts.limited));
  telemetry::Sample sample;
  const bool large = control::is_large(snapshot);
  for (const control::GpuNow& gpu : snapshot.gpus) {
    if (!gpu.sample) continue;
    telemetry::GpuSample& said = sample.gpus.emplace_back(*gpu.sample);
    for (telemetry::InstanceSample& one : said.instances)
      if (large && one.activity.graphics_engine == 0)
        one.activity = {.graphics_engine = 0};  // so the rest
  }
  return out.take() + observe::prometheus_text(sample);
}

}  // namespace partita::api
