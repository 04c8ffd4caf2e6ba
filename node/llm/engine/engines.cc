#include "llm/engine/engines.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "llm/law.h"

namespace partita::llm {
namespace {

// As AIConfigurator names its systems (the published points).
constexpr std::pair<std::string_view, std::string_view> kShortNames[] = {
    {"h100_sxm", "H100-80GB-SXM5"}, {"h200_sxm", "H200-141GB"},   {"b200_sxm", "B200-180GB"},
    {"b300_sxm", "B300-269GB"},     {"gb200", "GB200-186GB"},     {"gb300", "GB300-278GB"},
    {"a100_sxm", "A100-80GB"},      {"gh200_sxm", "GH200-144GB"},
};

// KV cache that is known to fit: as the engine was told, else what waiting requests tell, else what
// the fullest point held.
double cache_tokens(const Measured& measured) {
  if (measured.configuration.kv_tokens) return *measured.configuration.kv_tokens;
  const std::vector<Point>& points = measured.points;
  double held = 0;
  for (const Point& point : points)
    held = std::max(held, point.concurrency * (point.shape.tokens_in + point.shape.tokens_out));
  if (points.size() < kLeastPoints || points.size() > kMostPoints) return held;
  const Result<TokenLaw> law = learn(points);
  return law ? std::min(held, law->cache.tokens) : held;
}

// Of which constants are to be learned.
profile::EngineSpec spec_of(const Measured& measured) {
  const std::vector<Point>& points = measured.points;
  double most = 1, longest = 1;
  for (const Point& point : points) {
    most = std::max(most, point.concurrency);
    longest = std::max(longest, 1.0 * point.shape.tokens_in + point.shape.tokens_out);
  }
  profile::EngineSpec spec;
  spec.sequences = static_cast<int>(std::clamp(most, 1.0, 1.0 * kMostInFlight));
  spec.step_tokens =
      std::max(measured.configuration.step_tokens.value_or(spec.step_tokens), spec.sequences);
  const double room = std::max(cache_tokens(measured), 2 * longest);  // one request has to fit
  spec.blocks = static_cast<std::int64_t>(std::ceil(room / kBlockTokens)) + spec.sequences;
  return spec;
}

struct Learned {
  profile::TokenEngine engine;
  bool prompts_told = true;
};

Result<Learned> learned_from(const Measured& measured) {
  const Result<LearnedEngine> learned = learn_engine(measured.points, spec_of(measured));
  if (!learned) return failed(learned.error());
  const Configuration& c = measured.configuration;
  profile::TokenEngine engine{
      .name = {to_string(c), c.backend, c.version, c.precision, c.tensor.value_or(0),
               c.pipeline.value_or(0), c.attention_data.value_or(0)},
      .mig_profile = c.profile,
      .gpus = gpus_of(c),
      .spec = learned->spec,
      .request_ms = learned->request.value,
      .request_token_ms = learned->prompt_token};
  const Shape first = measured.points.front().shape;
  engine.least_in = engine.most_in = first.tokens_in;
  engine.least_out = engine.most_out = first.tokens_out;
  for (const Point& point : measured.points) {
    engine.least_in = std::min(engine.least_in, point.shape.tokens_in);
    engine.most_in = std::max(engine.most_in, point.shape.tokens_in);
    engine.least_out = std::min(engine.least_out, point.shape.tokens_out);
    engine.most_out = std::max(engine.most_out, point.shape.tokens_out);
  }
  return Learned{std::move(engine), learned->prompts_told};
}

// What to measure of a configuration whose points do not tell what prompts cost.
std::string what_to_measure(const Measured& measured) {
  double least = kMostInFlight, most = 0;
  for (const Point& point : measured.points) {
    least = std::min(least, point.concurrency);
    most = std::max(most, point.concurrency);
  }
  return fmt::format(
      "{} is left out: its {} points, with {}, do not tell what a prompt costs (one twice as dear "
      "could have shown them); measure it with 1 request in flight, too, and prompts of two "
      "lengths",
      to_string(measured.configuration), measured.points.size(),
      least == most ? fmt::format("{:g} requests in flight all of them", least)
                    : fmt::format("{:g} to {:g} requests in flight", least, most));
}

}  // namespace

Result<profile::TokenEngine> engine_of(const Measured& measured) {
  Result<Learned> learned = learned_from(measured);
  if (!learned) return failed(learned.error());
  return std::move(learned->engine);
}

LearnedEngine learned_of(const profile::TokenEngine& engine, int in_flight) {
  LearnedEngine learned{engine.spec, Millis{engine.request_ms}, engine.request_token_ms};
  learned.spec.sequences = std::max(learned.spec.sequences, in_flight);
  learned.spec.step_tokens = std::max(learned.spec.step_tokens, learned.spec.sequences);
  return learned;
}

namespace {

bool is_usable(const Measured& measured) {
  const int gpus = gpus_of(measured.configuration);
  const bool group = gpus <= profile::kMostGroupedGpus && std::has_single_bit(1U * gpus);
  return group && measured.points.size() >= kLeastEnginePoints &&
         (gpus == 1 || measured.configuration.profile.empty()) &&
         (!measured.configuration.units || (gpus == 1 && measured.configuration.profile.empty())) &&
         std::ranges::all_of(measured.points,
                             [](const Point& p) { return p.concurrency <= kMostInFlight; });
}

}  // namespace

std::vector<profile::TokenEngine> apart_of(const profile::TokenEngine& one, double move_token_ms) {
  std::vector<profile::TokenEngine> engines;
  if (!one.mig_profile.empty()) return engines;
  for (int all = 2; all * one.gpus <= profile::kMostGroupedGpus; all *= 2)
    for (int prefills = std::max(1, all / 4); prefills < all; prefills += std::max(1, all / 4)) {
      profile::TokenEngine& apart = engines.emplace_back(one);
      apart.gpus = all * one.gpus;
      apart.prefills = prefills;
      apart.decodes = all - prefills;
      apart.move_token_ms = move_token_ms;
      apart.name.configuration +=
          fmt::format(", {} of {} engines for prefill alone", prefills, all);
    }
  return engines;
}

namespace {

constexpr int kParts = 8;  // of a GPU's units

constexpr double profile::StepCost::*kStepCosts[] = {
    &profile::StepCost::step,           &profile::StepCost::sequence,
    &profile::StepCost::root_sequences, &profile::StepCost::cached_token,
    &profile::StepCost::prompt_token,   &profile::StepCost::prompt_context};

// Between measured numbers of units every cost is straight over 1/units: what computes takes so
// much longer on fewer, what waits for memory as long.
profile::StepCost cost_on(const EnginesByUnits& measured, int units) {
  const auto above = measured.lower_bound(units);
  if (above->first == units) return above->second.spec.cost;
  const auto below = std::prev(above);
  const double part =
      (1.0 / below->first - 1.0 / units) / (1.0 / below->first - 1.0 / above->first);
  profile::StepCost cost;
  for (const auto one : kStepCosts)
    cost.*one = (1 - part) * below->second.spec.cost.*one + part * above->second.spec.cost.*one;
  return cost;
}

}  // namespace

std::vector<profile::TokenEngine> beside_of(const EnginesByUnits& measured, int units) {
  std::vector<profile::TokenEngine> engines;
  if (measured.size() < 2) return engines;
  const int least = measured.begin()->first, most = measured.rbegin()->first;
  const profile::TokenEngine& largest = measured.rbegin()->second;
  for (int part = 1; part < kParts; ++part) {
    const int prefill = units * part / kParts, decode = units - prefill;
    if (std::min(prefill, decode) < least || std::max(prefill, decode) > most) continue;
    profile::TokenEngine& one = engines.emplace_back(largest);
    one.prefills = one.decodes = 1;
    one.move_token_ms = 0;
    one.prefill_units = prefill;
    one.decode_units = decode;
    one.prompt_spec = one.spec;
    one.prompt_spec.cost = cost_on(measured, prefill);
    one.spec.cost = cost_on(measured, decode);
    one.prompt_spec.blocks = one.spec.blocks / 4;
    one.spec.blocks -= one.prompt_spec.blocks;
    one.name.configuration +=
        fmt::format(", prefill on {} and decode on {} of {} SMs", prefill, decode, units);
  }
  return engines;
}

bool is_on(const std::string& system, const std::string& gpu_model) {
  return system == gpu_model ||
         std::ranges::count(kShortNames,
                            std::pair<std::string_view, std::string_view>{system, gpu_model}) > 0;
}

int gpus_of(const Configuration& c) {
  return std::max(1, c.tensor.value_or(1)) * std::max(1, c.pipeline.value_or(1)) *
         std::max(1, c.attention_data.value_or(1));
}

Result<EngineTable> engines_of(const std::vector<Measured>& all, const std::string& gpu_model,
                               const std::set<std::string>& models, int units) {
  EngineTable found;
  profile::TokenTable& table = found.engines;
  std::map<Configuration, EnginesByUnits> shares;  // by what is otherwise alike
  for (const Measured& measured : all) {
    const Configuration& configuration = measured.configuration;
    if (!is_on(configuration.system, gpu_model) || !models.contains(configuration.model) ||
        !is_usable(measured))
      continue;
    const Result<Learned> learned = learned_from(measured);
    if (!learned) return bad_input(to_string(configuration), learned.error().message);
    if (!learned->prompts_told) {
      found.left_out.emplace(configuration.model, what_to_measure(measured));
      continue;
    }
    const profile::TokenEngine* const engine = &learned->engine;
    Configuration alike = configuration;
    alike.units.reset();
    if (gpus_of(alike) == 1 && alike.profile.empty())
      shares[alike][configuration.units.value_or(units)] = *engine;
    if (configuration.units && *configuration.units < units) continue;
    std::vector<profile::TokenEngine>& engines = table[configuration.model];
    engines.push_back(*engine);
    if (!configuration.kv_move_ns) continue;
    const auto apart = apart_of(*engine, *configuration.kv_move_ns / 1e6);
    engines.insert(engines.end(), apart.begin(), apart.end());
  }
  for (const auto& [configuration, by_units] : shares) {
    const auto beside = beside_of(by_units, units);
    if (beside.empty()) continue;
    std::vector<profile::TokenEngine>& engines = table[configuration.model];
    engines.insert(engines.end(), beside.begin(), beside.end());
  }
  return found;
}

}  // namespace partita::llm
