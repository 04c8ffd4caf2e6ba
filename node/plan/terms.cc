#include "plan/terms.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <tuple>

#include "base/check.h"

namespace partita::plan {
namespace {

struct DispatchName {
  Dispatch dispatch;
  std::string_view name;
};
constexpr DispatchName kDispatchNames[] = {{Dispatch::pooled, "pooled"},
                                           {Dispatch::paced, "paced"},
                                           {Dispatch::shared_queue, "shared-queue"},
                                           {Dispatch::per_process, "per-process"}};

std::string list_text(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return "[" + text + "]";
}

std::string rates_text(const std::vector<RateAt>& rates) {
  std::vector<std::string> entries;
  for (const RateAt& entry : rates)
    entries.push_back(
        fmt::format("{:02}:{:02} {}", entry.minute / 60, entry.minute % 60, entry.rate.value));
  return list_text(entries);
}

class Differences {
 public:
  template <class T, class Text>
  void add(const char* term, const T& one, const T& other, Text text) {
    if (!(one == other)) found_.push_back({term, text(one), text(other)});
  }
  void number(const char* term, double one, double other) {
    add(term, one, other, [](double value) { return fmt::format("{}", value); });
  }
  std::vector<TermDifference> take() { return std::move(found_); }

 private:
  std::vector<TermDifference> found_;
};

}  // namespace

Result<Dispatch> parse_dispatch(const std::string& text) {
  for (const DispatchName& known : kDispatchNames)
    if (text == known.name) return known.dispatch;
  return bad_input("--dispatch",
                   fmt::format("'{}' is none of pooled, paced, shared-queue and per-process",
                               text.substr(0, 64)));
}

std::string to_string(Dispatch dispatch) {
  for (const DispatchName& known : kDispatchNames)
    if (dispatch == known.dispatch) return std::string(known.name);
  CHECK(false);
}

std::string to_string(const CacheTerms& cache) {
  std::string text = fmt::format("{} MiB", cache.memory.value);
  if (cache.ttl.value > 0) text += fmt::format(", {} s", cache.ttl.value);
  if (cache.shared) text += ", shared";
  return text;
}

bool Terms::operator==(const Terms& other) const {
  const auto key = [](const Terms& t) {
    return std::tie(t.name, t.model, t.rate, t.slo, t.percentile, t.min_replicas, t.spread, t.avoid,
                    t.traffic, t.tokens, t.models, t.pipeline, t.member, t.cache, t.priority,
                    t.dispatch);
  };
  return key(*this) == key(other);
}

bool all_said(const Terms& terms) {
  return (!terms.model.empty() || terms.pipeline) && terms.rate.value > 0 && terms.percentile > 0 &&
         (terms.slo.value > 0 || terms.tokens);
}

std::vector<TermDifference> differences(const Terms& one, const Terms& other) {
  const auto same = [](const std::string& text) { return text; };
  Differences found;
  found.add("name", one.name, other.name, same);
  found.add("model", one.model, other.model, same);
  found.number("rate_rps", one.rate.value, other.rate.value);
  found.number("slo_ms", one.slo.value, other.slo.value);
  found.number("percentile", one.percentile, other.percentile);
  found.number("min_replicas", one.min_replicas, other.min_replicas);
  found.add("spread", one.spread, other.spread,
            [](bool value) { return std::string(value ? "true" : "false"); });
  found.add("avoid", one.avoid, other.avoid, list_text);
  found.number("headroom", one.traffic.headroom, other.traffic.headroom);
  found.add("arrivals", one.traffic.arrivals, other.traffic.arrivals,
            [](const Arrivals& arrivals) { return to_string(arrivals); });
  found.add("rates", one.traffic.rates, other.traffic.rates, rates_text);
  found.add("tokens", one.tokens, other.tokens, [](const std::optional<TokenTerms>& tokens) {
    return tokens ? to_string(*tokens) : "none";
  });
  found.add("models", one.models, other.models, [](const std::optional<ModelSet>& models) {
    return models ? to_string(*models) : "one";
  });
  if (!one.pipeline || !other.pipeline || !same_graph(*one.pipeline, *other.pipeline))
    found.add("pipeline", one.pipeline, other.pipeline,
              [](const std::optional<PipelineTerms>& pipeline) {
                return pipeline ? to_string(*pipeline) : "none";
              });
  found.add("member", one.member, other.member,
            [](bool value) { return std::string(value ? "true" : "false"); });
  found.add("cache", one.cache, other.cache, [](const std::optional<CacheTerms>& cache) {
    return cache ? to_string(*cache) : "none";
  });
  found.number("priority", one.priority, other.priority);
  found.add("dispatch", one.dispatch, other.dispatch,
            [](Dispatch dispatch) { return to_string(dispatch); });
  return found.take();
}

Rps planning_rate(const Terms& terms) { return terms.rate * (1 + terms.traffic.headroom); }

}  // namespace partita::plan
