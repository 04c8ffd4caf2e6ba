#include "serve/gateway/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/append.h"
#include "serve/gateway/core.h"

namespace partita::serve {
namespace {

constexpr double kNotSaid = std::numeric_limits<double>::quiet_NaN();

double seconds(Nanos time) { return static_cast<double>(time) * 1e-9; }
double micros(Nanos time) { return static_cast<double>(time) * 1e-3; }

class Text {
 public:
  explicit Text(const std::vector<ServiceSnapshot>& services) : services_(services) {}

  using Value = std::function<double(const ServiceSnapshot&)>;
  // One number per service, but kNotSaid; `labels` beside the service's own.
  void family(const char* name, const char* type, const char* help) {
    append(out_, "# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
  }
  void series(const char* name, const std::string& labels, const Value& value) {
    for (const ServiceSnapshot& service : services_)
      if (const double number = value(service); !std::isnan(number))
        line(name, label(service, name) + labels, number);
  }
  void each(const char* name, const char* type, const char* help, const Value& value) {
    family(name, type, help);
    series(name, "", value);
  }
  using SegmentValue = std::function<double(const SegmentTotals&)>;
  void each_segment(const char* name, const char* type, const char* help,
                    const SegmentValue& value) {
    family(name, type, help);
    for (const ServiceSnapshot& service : services_)
      for (const auto& [device, totals] : service.segments)
        line(name, label(service, name) + fmt::format(",device=\"{}\"", metric_label(device)),
             value(totals));
  }
  using KeyValue = std::function<double(const KeyUsage&)>;
  void each_key(const char* name, const char* help, const KeyValue& value) {
    family(name, "counter", help);
    for (const ServiceSnapshot& service : services_)
      for (const auto& [key, usage] : service.usage)
        line(name, label(service, name) + fmt::format(",key=\"{}\"", metric_label(key)),
             value(usage));
  }
  std::string take() { return std::move(out_); }

 private:
  // Triton's families name the model and its version.
  static std::string label(const ServiceSnapshot& service, std::string_view name) {
    return name.starts_with("nv_")
               ? fmt::format("model=\"{}\",version=\"1\"", metric_label(service.terms.name))
               : fmt::format("service=\"{}\"", metric_label(service.terms.name));
  }
  void line(const char* name, const std::string& labels, double value) {
    append(out_, "{}{{{}}} {}\n", name, labels, value);
  }

  const std::vector<ServiceSnapshot>& services_;
  std::string out_;
};

using Snapshot = ServiceSnapshot;

void tritons(Text& text) {
  text.each("nv_inference_request_success", "counter", "Requests that were answered",
            [](const Snapshot& s) { return s.counters.completed; });
  text.each("nv_inference_request_failure", "counter",
            "Requests that were not: refused, failed, expired or cancelled",
            [](const Snapshot& s) { return s.counters.offered - s.counters.completed; });
  text.each("nv_inference_count", "counter", "Rows that were inferred",
            [](const Snapshot& s) { return s.counters.items; });
  text.each("nv_inference_exec_count", "counter", "Batches that were run",
            [](const Snapshot& s) { return s.counters.batches; });
  text.each("nv_inference_request_duration_us", "counter", "Summed time from head to answer",
            [](const Snapshot& s) { return micros(s.totals.success_ns); });
  text.each("nv_inference_queue_duration_us", "counter", "Summed time that rows waited",
            [](const Snapshot& s) { return micros(s.counters.queued); });
  text.each("nv_inference_compute_infer_duration_us", "counter", "Summed execution of batches",
            [](const Snapshot& s) { return micros(s.totals.execution_ns); });
}

void objectives(Text& text) {
  text.each("partita_slo_seconds", "gauge", "The latency objective",
            [](const Snapshot& s) { return slo_of(s.terms).value / 1000; });
  text.each(
      "partita_slo_percentile", "gauge", "So many percent of the answers are to be in time",
      [](const Snapshot& s) { return s.terms.percentile > 0 ? s.terms.percentile : kNotSaid; });
  text.each("partita_requests_offered_total", "counter", "Requests whose head arrived",
            [](const Snapshot& s) { return s.counters.offered; });
  text.each("partita_requests_in_slo_total", "counter", "Requests answered in time",
            [](const Snapshot& s) { return s.counters.in_slo; });
  constexpr const char* kRefused = "partita_requests_refused_total";
  text.family(kRefused, "counter", "Requests refused at once, and why");
  text.series(kRefused, ",reason=\"queue_full\"",
              [](const Snapshot& s) { return s.counters.refused_full; });
  text.series(kRefused, ",reason=\"would_be_late\"",
              [](const Snapshot& s) { return s.counters.refused_miss; });
  text.series(kRefused, ",reason=\"no_worker\"",
              [](const Snapshot& s) { return s.counters.refused_worker; });
  text.series(kRefused, ",reason=\"slowed\"",
              [](const Snapshot& s) { return s.counters.refused_slowed; });
  text.series(kRefused, ",reason=\"share\"",
              [](const Snapshot& s) { return s.counters.refused_share; });
  constexpr const char* kEnded = "partita_requests_unanswered_total";
  text.family(kEnded, "counter", "Requests let in and not answered, and why");
  text.series(kEnded, ",reason=\"failed\"", [](const Snapshot& s) { return s.counters.failed; });
  text.series(kEnded, ",reason=\"expired\"", [](const Snapshot& s) { return s.counters.expired; });
  text.series(kEnded, ",reason=\"cancelled\"",
              [](const Snapshot& s) { return s.counters.cancelled; });
  text.series(kEnded, ",reason=\"harmful\"", [](const Snapshot& s) { return s.counters.harmful; });
  text.each("partita_rows_requeued_total", "counter",
            "Rows that ran again: their worker died or hung",
            [](const Snapshot& s) { return s.counters.requeued; });
  text.each("partita_rows_rerun_total", "counter",
            "Rows that ran again, alone: a batch failed that others were in",
            [](const Snapshot& s) { return s.counters.rerun; });
  constexpr const char* kLatency = "partita_request_latency_seconds";
  text.family(kLatency, "gauge", "Latency of the answers of the last half minute");
  text.series(kLatency, ",quantile=\"0.5\"", [](const Snapshot& s) { return seconds(s.p50); });
  text.series(kLatency, ",quantile=\"0.99\"", [](const Snapshot& s) { return seconds(s.p99); });
}

void pools(Text& text) {
  text.each("partita_queue_rows", "gauge", "Rows that wait",
            [](const Snapshot& s) { return s.queued; });
  text.each("partita_workers_ready", "gauge", "Workers that take batches",
            [](const Snapshot& s) { return s.ready_workers; });
  text.each("partita_rate_rps", "gauge", "Requests per second that come",
            [](const Snapshot& s) { return s.rate_rps; });
  text.each("partita_planned_rps", "gauge", "Requests per second that were planned for",
            [](const Snapshot& s) { return s.terms.rate.value; });
  text.each("partita_capacity_rps", "gauge", "Rows per second of full batches on ready workers",
            [](const Snapshot& s) { return s.capacity_rps; });
  text.each("partita_slots", "gauge", "Places for rows in shared memory",
            [](const Snapshot& s) { return static_cast<double>(s.slots); });
  text.each("partita_slots_free", "gauge", "Of them, free",
            [](const Snapshot& s) { return static_cast<double>(s.free_slots); });
  text.each("partita_open_values_total", "counter", "Values of inputs whose sizes are open",
            [](const Snapshot& s) { return static_cast<double>(s.totals.values); });
  text.each("partita_padding_values_total", "counter", "Values of padding that ran beside them",
            [](const Snapshot& s) { return static_cast<double>(s.totals.padding); });
  text.each("partita_sequences", "gauge", "Sequences under way",
            [](const Snapshot& s) { return static_cast<double>(s.sequences); });
  text.each("partita_sequences_lost_total", "counter", "Sequences that ended with their worker",
            [](const Snapshot& s) { return s.moves.lost; });
  text.each("partita_sequences_moved_total", "counter",
            "Sequences that went on with another worker",
            [](const Snapshot& s) { return s.moves.moved; });
  const std::string late = "partita_pace_lateness_seconds";
  text.family(late.c_str(), "histogram", "How late paced dispatches were");
  for (std::size_t at = 0; at < kLatenessBounds.size(); ++at) {
    const Nanos bound = kLatenessBounds[at];
    text.series(
        (late + "_bucket").c_str(),
        bound == plan::kForever ? ",le=\"+Inf\"" : fmt::format(",le=\"{}\"", seconds(bound)),
        [at](const Snapshot& s) { return s.counters.wakes_within[at]; });
  }
  text.series((late + "_sum").c_str(), "",
              [](const Snapshot& s) { return seconds(s.counters.lateness); });
  text.series((late + "_count").c_str(), "", [](const Snapshot& s) { return s.counters.wakes; });
  text.each_segment("partita_segment_workers_ready", "gauge", "Workers of a device that are ready",
                    [](const SegmentTotals& s) { return s.ready_workers; });
  text.each_segment("partita_segment_batches_total", "counter", "Batches on a device",
                    [](const SegmentTotals& s) { return s.batches; });
  text.each_segment("partita_segment_rows_total", "counter", "Rows on a device",
                    [](const SegmentTotals& s) { return s.items; });
  text.each_segment("partita_segment_busy_seconds_total", "counter", "Summed execution on a device",
                    [](const SegmentTotals& s) { return seconds(s.busy); });
}

// A number of sets of models alone.
Text::Value of_sets(const std::function<double(const SetTotals&)>& value) {
  return [value](const Snapshot& s) { return s.terms.models ? value(s.totals.set) : kNotSaid; };
}

void sets(Text& text) {
  const auto count = [&](const char* name, const char* help, long SetTotals::*number) {
    text.each(name, "counter", help,
              of_sets([number](const SetTotals& s) { return static_cast<double>(s.*number); }));
  };
  count("partita_set_hits_total", "Rows whose model was loaded", &SetTotals::warm);
  count("partita_set_loads_total", "Models that were loaded for a request", &SetTotals::loads);
  count("partita_set_load_failures_total", "Models that could not be", &SetTotals::failures);
  count("partita_set_evictions_total", "Models that made room", &SetTotals::evictions);
  text.each("partita_set_load_seconds_total", "counter", "Summed time of loads",
            of_sets([](const SetTotals& s) { return seconds(s.load_ns); }));
  count("partita_set_cold_in_time_total", "Cold starts within what is promised of them",
        &SetTotals::cold_in_time);
  const std::string cold = "partita_set_cold_start_seconds";
  text.family(cold.c_str(), "histogram", "Requests that waited for their model, head to answer");
  for (std::size_t at = 0; at < kColdBounds.size(); ++at)
    text.series(
        (cold + "_bucket").c_str(),
        kColdBounds[at] == plan::kForever ? ",le=\"+Inf\""
                                          : fmt::format(",le=\"{}\"", seconds(kColdBounds[at])),
        of_sets([at](const SetTotals& s) { return static_cast<double>(s.cold_within[at]); }));
  text.series((cold + "_sum").c_str(), "",
              of_sets([](const SetTotals& s) { return seconds(s.cold_ns); }));
  text.series((cold + "_count").c_str(), "",
              of_sets([](const SetTotals& s) { return static_cast<double>(s.colds); }));
  text.each_segment("partita_segment_models_held", "gauge", "Models of a set on a device, of late",
                    [](const SegmentTotals& s) { return s.held; });
}

// A number of services that have a cache alone.
Text::Value of_caches(const std::function<double(const CacheTotals&)>& value) {
  return [value](const Snapshot& s) { return s.cache ? value(*s.cache) : kNotSaid; };
}

void caches(Text& text) {
  text.each("nv_cache_num_hits_per_model", "counter", "Requests whose answer was kept",
            of_caches([](const CacheTotals& s) { return s.hits; }));
  text.each("nv_cache_num_misses_per_model", "counter", "Requests that ran for want of it",
            of_caches([](const CacheTotals& s) { return s.misses; }));
  text.each("nv_cache_hit_duration_per_model", "counter", "Summed time of finding, microseconds",
            of_caches([](const CacheTotals& s) { return micros(s.hit_ns); }));
  text.each("nv_cache_miss_duration_per_model", "counter",
            "Summed time of looking in vain, microseconds",
            of_caches([](const CacheTotals& s) { return micros(s.miss_ns); }));
  text.each("partita_cache_merged_total", "counter",
            "Requests that had the answer of an equal one that ran",
            of_caches([](const CacheTotals& s) { return s.merged; }));
  text.each("partita_cache_evictions_total", "counter", "Answers that made room for others",
            of_caches([](const CacheTotals& s) { return s.evictions; }));
  text.each("partita_cache_answers", "gauge", "Answers that are kept",
            of_caches([](const CacheTotals& s) { return static_cast<double>(s.answers); }));
  text.each("partita_cache_bytes", "gauge", "Bytes of them",
            of_caches([](const CacheTotals& s) { return static_cast<double>(s.bytes); }));
  text.each("partita_cache_most_bytes", "gauge", "Their bound",
            of_caches([](const CacheTotals& s) { return static_cast<double>(s.most_bytes); }));
}

void steps(Text& text) {
  const auto of_pipelines = [](long StepTensors::*rows) {
    return [rows](const Snapshot& s) -> double {
      return s.between ? static_cast<double>((*s.between).*rows) : kNotSaid;
    };
  };
  text.each("partita_step_tensors_in_common_total", "counter",
            "Rows of tensors that were there for a pipeline's next step",
            of_pipelines(&StepTensors::in_common));
  text.each("partita_step_tensors_copied_total", "counter", "Those that were copied for it",
            of_pipelines(&StepTensors::copied));
}

void keys(Text& text) {
  text.each_key("partita_key_requests_total", "Requests of a key that were answered",
                [](const KeyUsage& key) { return key.answered; });
  text.each_key("partita_key_rows_total", "Rows of a key that were let in",
                [](const KeyUsage& key) { return key.rows; });
  text.each_key("partita_key_bytes_total", "Bytes of a key's requests that were let in",
                [](const KeyUsage& key) { return static_cast<double>(key.bytes); });
  text.each_key("partita_key_over_limit_total", "Requests refused for a key's limits",
                [](const KeyUsage& key) { return key.over_limit; });
  text.each_key("partita_key_over_share_total", "Requests refused for the shares of other keys",
                [](const KeyUsage& key) { return key.over_share; });
}

}  // namespace

void SetTotals::add(const SetTally& tally, std::size_t rows) {
  const long cold = static_cast<long>(tally.loads) + tally.failures;
  warm += std::max(0L, static_cast<long>(rows) - cold);
  loads += tally.loads;
  failures += tally.failures;
  evictions += tally.evictions;
  load_ns += tally.nanos;
}

Millis promised_cold(const plan::Terms& terms) {
  return terms.models && terms.models->cold.value > 0 ? terms.models->cold : slo_of(terms);
}

void SetTotals::cold(const plan::Terms& terms, Nanos latency) {
  const Millis promised = promised_cold(terms);
  ++colds;
  cold_ns += latency;
  cold_in_time += static_cast<double>(latency) <= promised.value * 1e6;
  for (std::size_t at = 0; at < kColdBounds.size(); ++at)
    cold_within[at] += latency <= kColdBounds[at];
}

std::string prometheus_text(const std::vector<ServiceSnapshot>& services) {
  Text text(services);
  tritons(text);
  objectives(text);
  pools(text);
  if (std::ranges::any_of(services, [](const Snapshot& s) { return s.terms.models.has_value(); }))
    sets(text);
  if (std::ranges::any_of(services, [](const Snapshot& s) { return s.cache.has_value(); }))
    caches(text);
  if (std::ranges::any_of(services, [](const Snapshot& s) { return s.between.has_value(); }))
    steps(text);
  keys(text);
  return text.take();
}

ServiceStatistics statistics_of(const ServiceSnapshot& service) {
  const auto count = [](long value) { return static_cast<std::uint64_t>(value); };
  const ServiceCounters& c = service.counters;
  const CacheTotals cache = service.cache.value_or(CacheTotals{});
  std::optional<KeptAnswers> kept;
  if (service.cache) kept = *service.cache;
  return {.success_count = count(c.completed),
          .success_ns = count(service.totals.success_ns),
          .fail_count = count(c.failed + c.expired + c.harmful),
          .fail_ns = count(service.totals.fail_ns),
          .queue_count = count(c.items),
          .queue_ns = count(c.queued),
          .compute_count = count(c.items),
          .compute_ns = count(service.totals.execution_ns),
          .inference_count = count(c.items),
          .execution_count = count(c.batches),
          .last_inference_ms = service.totals.last_inference_ms,
          .hit_count = count(cache.hits),
          .hit_ns = count(cache.hit_ns),
          .miss_count = count(cache.misses),
          .miss_ns = count(cache.miss_ns),
          .kept = std::move(kept),
          .pipeline = service.terms.pipeline};
}

}  // namespace partita::serve
