#include "llm/engine/engines.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/parse_number.h"
#include "llm/engine/tails.h"
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
  const std::vector<Point> points = closed_loops(measured.points);
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
  const Result<LearnedEngine> learned =
      learn_engine(closed_loops(measured.points), spec_of(measured));
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
  const Tails tails = tails_of(*learned, measured.points);
  engine.ttft_tail = tails.ttft;
  engine.tpot_tail = tails.tpot;
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

std::optional<TailErrors> tail_errors(const Measured& measured) {
  if (!has_percentiles(measured.points)) return std::nullopt;
  const Result<LearnedEngine> learned =
      learn_engine(closed_loops(measured.points), spec_of(measured));
  return learned ? tails_of(*learned, measured.points).errors : std::nullopt;
}

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
  return group && closed_loops(measured.points).size() >= kLeastEnginePoints &&
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
    &profile::StepCost::prompt_token,   &profile::StepCost::prompt_context,
    &profile::StepCost::mixed,          &profile::StepCost::crowded};

// Between measured numbers of units every cost is straight over 1/units: what computes takes so
// much longer on fewer, what waits for memory as long. Where it is crowded, as either says.
profile::StepCost cost_on(const EnginesByUnits& measured, int units) {
  const auto above = measured.lower_bound(units);
  if (above->first == units) return above->second.spec.cost;
  const auto below = std::prev(above);
  const double part =
      (1.0 / below->first - 1.0 / units) / (1.0 / below->first - 1.0 / above->first);
  profile::StepCost cost;
  for (const auto one : kStepCosts)
    cost.*one = (1 - part) * below->second.spec.cost.*one + part * above->second.spec.cost.*one;
  cost.crowded_from = below->second.spec.cost.crowded_from;
  if (const StepCost& more = above->second.spec.cost; more.crowded > 0)
    cost.crowded_from = below->second.spec.cost.crowded > 0
                            ? std::min(cost.crowded_from, more.crowded_from)
                            : more.crowded_from;
  if (cost.crowded > 0) {  // not beside a root, which is at most half of 1 and the number
    cost.step += cost.root_sequences / 2;
    cost.sequence += cost.root_sequences / 2;
    cost.root_sequences = 0;
  }
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

namespace {

constexpr double kBytesPerMib = 1 << 20;
// What a model is called by is rounded, and nothing that is served has fewer bits a weight.
constexpr double kNameRounds = 0.9, kLeastBytes = 0.5;

// MiB of the weights that a name tells at the least: "Llama-3.1-70B", of several the first that is
// followed by B; none: it tells nothing.
std::optional<double> least_weights_mib(const std::string& name) {
  const auto digit = [&](std::size_t i) { return name[i] >= '0' && name[i] <= '9'; };
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (!digit(i) || (i > 0 && name[i - 1] != '-' && name[i - 1] != '_' && name[i - 1] != '/'))
      continue;
    std::string_view rest = std::string_view(name).substr(i);
    const auto billions = take_number<double>(rest);
    const bool ends =
        rest.size() == 1 || (rest.size() > 1 && !std::isalnum(static_cast<unsigned char>(rest[1])));
    if (billions && !rest.empty() && (rest[0] == 'B' || rest[0] == 'b') && ends)
      return kNameRounds * kLeastBytes * *billions * 1e9 / kBytesPerMib;
  }
  return std::nullopt;
}

// MiB that a group of such GPUs, or instances, has; none: not known.
std::optional<double> room_of(const Configuration& c, const OfGpu& gpu) {
  if (c.profile.empty())
    return gpu.memory_mib ? std::optional(*gpu.memory_mib * gpus_of(c)) : std::nullopt;
  const auto slice = gpu.slices_mib.find(c.profile);
  return slice == gpu.slices_mib.end() ? std::nullopt : std::optional(slice->second);
}

// Every copy of attention has a cache of its own, and dense weights are copied too; at least once
// they have to be there.
std::optional<double> weights_mib(const Configuration& c) {
  return c.weights_mib ? std::optional<double>(*c.weights_mib) : least_weights_mib(c.model);
}

// Tokens of KV cache for which there is room beside the weights; none: not known.
std::optional<double> most_cache_tokens(const Configuration& c, const OfGpu& gpu) {
  const std::optional<double> room = room_of(c, gpu), weights = weights_mib(c);
  if (!room || !weights || !c.kv_token_bytes) return std::nullopt;
  return std::max(*room - *weights, 0.0) * kBytesPerMib / *c.kv_token_bytes;
}

// What nobody says of an engine on an instance; "": all is said, or nobody knows the instance.
std::string unsaid_of(const Configuration& c, const OfGpu& gpu) {
  if (c.profile.empty() || !room_of(c, gpu)) return "";
  std::string missing = !c.weights_mib ? "weights_mib" : "";
  if (!c.kv_tokens && !c.kv_token_bytes)
    missing += std::string(missing.empty() ? "" : " and ") + "kv_tokens";
  if (missing.empty()) return "";
  return fmt::format(
      "{}: whether it fits with more than was measured is not checked: its points do "
      "not say {} (--told {}=...)",
      to_string(c), missing, missing.substr(0, missing.find(' ')));
}

// The cache is no larger than there is room for; a sentence: not even what was measured fits.
std::string limit_cache(const Measured& measured, const OfGpu& gpu, profile::TokenEngine& engine) {
  const auto most = most_cache_tokens(measured.configuration, gpu);
  if (!most) return "";
  int longest = 0;
  for (const Point& point : measured.points)
    longest = std::max(longest, point.shape.tokens_in + point.shape.tokens_out);
  if (*most < longest)
    return fmt::format(
        "{} is left out: beside its weights there is room for {:.0f} tokens of KV "
        "cache, and a request of its points has {}",
        to_string(measured.configuration), *most, longest);
  engine.spec.blocks =
      std::min(engine.spec.blocks, static_cast<std::int64_t>(*most) / profile::kBlockTokens);
  return "";
}

}  // namespace

std::string too_large(const Configuration& c, const OfGpu& gpu) {
  const std::optional<double> room = room_of(c, gpu), weights = weights_mib(c);
  if (!room || !weights || *weights < *room) return "";
  return fmt::format("{} is left out: its weights have {}{:.0f} MiB{}, and {} {} MiB", to_string(c),
                     c.weights_mib ? "" : "at least ", *weights,
                     c.weights_mib ? "" : " by its name (--told weights_mib=N says it better)",
                     c.profile.empty()
                         ? fmt::format("{} {} have", gpus_of(c), gpus_of(c) == 1 ? "GPU" : "GPUs")
                         : "an instance of " + c.profile + " has",
                     static_cast<long>(*room));
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

Result<EngineTable> engines_of(const std::vector<Measured>& all, const OfGpu& gpu,
                               const std::set<std::string>& models) {
  const int units = gpu.units;
  EngineTable found;
  profile::TokenTable& table = found.engines;
  std::map<Configuration, EnginesByUnits> shares;  // by what is otherwise alike
  for (const Measured& measured : all) {
    const Configuration& configuration = measured.configuration;
    if (!is_on(configuration.system, gpu.model) || !models.contains(configuration.model) ||
        !is_usable(measured))
      continue;
    std::string why = too_large(configuration, gpu);
    Result<Learned> learned = why.empty() ? learned_from(measured) : Learned{};
    if (!learned) return bad_input(to_string(configuration), learned.error().message);
    if (why.empty() && !learned->prompts_told) why = what_to_measure(measured);
    if (why.empty()) why = limit_cache(measured, gpu, learned->engine);
    if (!why.empty()) {
      found.left_out.emplace(configuration.model, std::move(why));
      continue;
    }
    if (std::string unsaid = unsaid_of(configuration, gpu); !unsaid.empty())
      found.unsaid.emplace(configuration.model, std::move(unsaid));
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
