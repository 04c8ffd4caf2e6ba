#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/fields.h"
#include "forms/buckets_reader.h"
#include "forms/ensemble_reader.h"
#include "forms/models_reader.h"
#include "forms/pipeline_form.h"
#include "forms/priorities_form.h"
#include "forms/serving_forms.h"
#include "forms/terms_form.h"
#include "forms/tokens_reader.h"
#include "forms/traffic_reader.h"
#include "profile/buckets.h"

namespace partita::forms {
namespace {

constexpr int kMaxReplicas = 100'000;

// anti_affinity: true, false, or a list of services; the service itself in the list means true.
void read_anti_affinity(Fields& fields, const Node& node, Service& service) {
  if (node.kind == Node::Kind::boolean) {
    service.spread = node.boolean;
    return;
  }
  if (node.kind != Node::Kind::list)
    fields.refuse(node, "'anti_affinity' must be true, false or a list of service names");
  for (const Node& item : node.items) {
    std::string name = fields.name_of(item, "a name in 'anti_affinity'");
    if (name == service.name) {
      service.spread = true;
    } else if (std::find(service.avoid.begin(), service.avoid.end(), name) != service.avoid.end()) {
      fields.refuse(item, fmt::format("'anti_affinity' names '{}' twice", name));
    } else {
      service.avoid.push_back(std::move(name));
    }
  }
}

std::vector<std::string_view> with_traffic(std::vector<std::string_view> keys) {
  keys.insert(keys.end(), std::begin(kTrafficKeys), std::end(kTrafficKeys));
  keys.insert(keys.end(), std::begin(kBucketKeys), std::end(kBucketKeys));
  return keys;
}

// The rates of the day, of which those that are shares take the service's rate.
std::vector<plan::RateAt> rates_of(Fields& fields, const std::vector<RateKey>& keys, Rps rate) {
  std::vector<plan::RateAt> rates;
  for (const RateKey& key : keys) {
    const Rps value{key.share ? key.value * rate.value : key.value};
    if (!(value.value > 0 && value.value <= kMaxQuantity))
      fields.refuse("rates", fmt::format("'rates' gives {:g} req/s, must be above 0 and at most "
                                         "{:g}",
                                         value.value, kMaxQuantity));
    rates.push_back({key.minute, value});
  }
  return rates;
}

// rate_rps may be left out where the traffic says it: the highest of `rates`, or a trace's mean,
// which whoever loads the trace puts in place of the 0 here.
void read_rate_and_traffic(Fields& fields, Service& service, const TrafficKeys& common) {
  const TrafficKeys own = read_traffic(fields);
  const auto rates = own.rates ? own.rates : common.rates;
  const auto arrivals = own.arrivals ? own.arrivals : common.arrivals;
  service.traffic.headroom = own.headroom.value_or(common.headroom.value_or(0));
  if (arrivals) service.traffic.arrivals = *arrivals;
  const bool shares = rates && std::ranges::any_of(*rates, &RateKey::share);
  const bool by_rates = rates && !shares;
  const bool by_trace =
      !rates && std::holds_alternative<plan::TraceArrivals>(service.traffic.arrivals);
  if (fields.has("rate_rps") || !(by_rates || by_trace))
    service.rate = Rps{fields.number("rate_rps", kPositive)};
  if (!rates || fields.error()) return;
  service.traffic.rates = rates_of(fields, *rates, service.rate);
  if (fields.has("rate_rps")) return;
  for (const plan::RateAt& entry : service.traffic.rates)
    service.rate = std::max(service.rate, entry.rate);
}

// One that answers as a whole.
void read_slo(Fields& fields, Service& service) {
  for (const std::string_view key : {"slo", "tokens", "prefix"})
    if (fields.has(key))
      fields.refuse(key, fmt::format("'{}' is for services of kind llm: add kind: llm", key));
  service.slo = Millis{fields.number("slo_ms", kPositive)};
  if (fields.has("percentile")) service.percentile = read_percentile(fields);
}

void read_cache(Fields& fields, Service& service) {
  for (const std::string_view key : {"kind", "models"})
    if (fields.has(key))
      return fields.refuse("cache", fmt::format("'cache' does not go together with '{}'", key));
  Fields own = fields.object("cache");
  own.only({"memory_mib", "ttl_s", "shared"});
  service.cache.emplace();
  form::read(own, [&](Form& f, std::size_t) { describe_cache(f, *service.cache); });
}

// A pipeline that Triton's configuration of an ensemble describes.
void read_ensemble(Fields& fields, plan::PipelineTerms& pipeline, const FileText& files) {
  fields.only({"config"});
  const std::string file = fields.text("config");
  if (fields.error()) return;
  if (!files) return fields.refuse("config", "'pipeline' cannot name a file here: write its steps");
  const Result<std::string> text = files(file);
  auto read = text ? parse_ensemble(file, *text) : failed(text.error());
  if (!read) return fields.refuse("config", fmt::format("'pipeline': {}", to_string(read.error())));
  pipeline = *std::move(read);
}

// One that goes through others.
Service read_pipeline(Fields& fields, Service service, const TrafficKeys& common,
                      const FileText& files) {
  read_slo(fields, service);
  read_rate_and_traffic(fields, service, common);
  if (!fields.error() && !plan::is_poisson(service.traffic.arrivals))
    fields.refuse(fields.node(),
                  "'pipeline' is planned for Poisson arrivals alone; where the file "
                  "has others for all services, it needs arrivals: poisson");
  Fields inside = fields.object("pipeline");
  service.pipeline.emplace();
  if (inside.has("config"))
    read_ensemble(inside, *service.pipeline, files);
  else
    form::read(inside, [&](Form& f, std::size_t) { describe_pipeline(f, *service.pipeline); });
  for (const plan::PipelineStep& step : service.pipeline->steps)
    if (step.share.value > 0)
      fields.refuse("pipeline", "shares of the SLO are for the planner to choose: no share_ms");
  return service;
}

// One, or one of each of its buckets.
std::vector<Service> read_service(Fields fields, const TrafficKeys& common, const FileText& files) {
  const bool pipeline = fields.has("pipeline");
  if (pipeline && fields.has("cache"))
    fields.refuse("cache", "'cache' is not for a pipeline: give one to its steps");
  if (pipeline)
    fields.only({"name", "rate_rps", "slo_ms", "percentile", "headroom", "arrivals", "rates",
                 "pipeline", "priority"});
  else
    fields.only(with_traffic({"name", "kind", "model", "pipeline", "rate_rps", "slo_ms",
                              "percentile", "slo", "tokens", "prefix", "min_replicas",
                              "anti_affinity", "models", "cache", "priority"}));
  Service service;
  service.line = fields.node().line;
  service.name = fields.name("name");
  if (fields.has("priority")) service.priority = fields.integer("priority", kPriorities);
  if (pipeline) return {read_pipeline(fields, std::move(service), common, files)};
  service.model = fields.name("model");
  read_rate_and_traffic(fields, service, common);
  if (fields.has("kind")) fields.exactly("kind", "llm");
  if (fields.has("kind"))
    read_tokens(fields, service);
  else
    read_slo(fields, service);
  if (fields.has("min_replicas"))
    service.min_replicas = fields.integer("min_replicas", {.low = 1, .high = kMaxReplicas});
  if (const Node* rule = fields.node().find("anti_affinity"))
    read_anti_affinity(fields, *rule, service);
  if (fields.has("cache")) read_cache(fields, service);
  if (!fields.has("models")) return in_buckets(fields, std::move(service), files);
  for (const std::string_view key : {"kind", "lengths", "buckets"})
    if (fields.has(key))
      fields.refuse(key, fmt::format("'{}' does not go together with 'models'", key));
  if (!fields.error()) read_models(fields, service, files);
  return {std::move(service)};
}

// Who keeps away from a service keeps away from all its buckets.
void avoid_buckets(std::vector<Service>& services) {
  std::map<std::string, std::vector<std::string>> buckets;
  for (const Service& service : services)
    if (const auto named = profile::bucket_name(service.name); named.bucket > 0)
      buckets[named.name].push_back(service.name);
  for (Service& service : services) {
    std::vector<std::string> avoid;
    for (const std::string& other : service.avoid) {
      const auto found = buckets.find(other);
      if (found == buckets.end())
        avoid.push_back(other);
      else
        avoid.insert(avoid.end(), found->second.begin(), found->second.end());
    }
    service.avoid = std::move(avoid);
  }
}

const std::vector<plan::SetModel> kNoModels;

// Names are unique, also those of models in sets, and anti_affinity names services of this file.
Result<void> check_names(const Document& document, const std::vector<Service>& services) {
  std::map<std::string_view, int> line_of;
  for (const Service& service : services) {
    const auto [at, fresh] = line_of.emplace(service.name, service.line);
    if (!fresh)
      return bad_input(
          fmt::format("{}:{}", document.file, service.line),
          fmt::format("service '{}' is already defined in line {}", service.name, at->second));
  }
  for (const Service& service : services) {
    for (const std::string& other : service.avoid) {
      if (!line_of.contains(other))
        return bad_input(
            fmt::format("{}:{}", document.file, service.line),
            fmt::format(
                "'anti_affinity' of service '{}' names '{}', which is not a service of this file",
                service.name, other));
    }
  }
  for (const Service& service : services) {
    for (const plan::SetModel& model : service.models ? service.models->models : kNoModels) {
      const auto [at, fresh] = line_of.emplace(model.name, service.line);
      if (!fresh)
        return bad_input(fmt::format("{}:{}", document.file, service.line),
                         fmt::format("model '{}' of service '{}' is already defined in line {}",
                                     model.name, service.name, at->second));
    }
  }
  return {};
}

}  // namespace

Result<ServicesFile> parse_services_file(const std::string& file, std::string_view text,
                                         const FileText& files) {
  auto document = TRY(parse_document(file, text));
  if (document.root.kind == Node::Kind::list) {  // the list alone
    Node root;
    root.kind = Node::Kind::object;
    root.line = document.root.line;
    root.members.push_back({"services", std::exchange(document.root, {})});
    document.root = std::move(root);
  }
  Fields fields(document);
  fields.only(with_traffic({"api_version", "kind", "services", "survive"}));
  if (fields.has("api_version")) fields.exactly("api_version", "partita/v1");
  if (fields.has("kind")) fields.exactly("kind", "Services");
  ServicesFile read;
  if (fields.has("survive")) {
    fields.exactly("survive", "gpu");
    read.survive = 1;
  }
  const TrafficKeys common = read_traffic(fields);
  const std::vector<Node>& items = fields.list("services", kMaxServices);
  if (items.empty()) fields.refuse("services", "'services' is empty");

  read.services.reserve(items.size());
  for (const Node& item : items) {
    for (Service& service : read_service({fields, item}, common, files))
      read.services.push_back(std::move(service));
    if (fields.error()) break;
  }
  if (fields.error()) return failed(*fields.error());
  avoid_buckets(read.services);
  TRY(check_names(document, read.services));
  if (const auto refused = add_members(read.services))
    return bad_input(fmt::format("{}:{}", document.file, refused->line), refused->message);
  return read;
}

Result<std::vector<Service>> parse_services(const std::string& file, std::string_view text,
                                            const FileText& files) {
  auto read = TRY(parse_services_file(file, text, files));
  return std::move(read.services);
}

}  // namespace partita::forms
