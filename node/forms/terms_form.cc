#include "forms/terms_form.h"

#include <tuple>

#include "forms/pipeline_form.h"
#include "forms/priorities_form.h"
#include "forms/traffic_reader.h"

namespace partita::forms {
namespace {

constexpr Range kKeptPercentiles{.high = 100};
constexpr Range kKeptReplicas{.low = 1, .high = 1e9};
constexpr Range kKeptMinutes{.high = plan::kMinutesOfDay - 1};
constexpr std::size_t kMostAvoided = 1'000'000;

// In the order of plan::Arrivals.
enum class Law { poisson, uniform, gamma, burst, mmpp, trace };

struct WrittenArrivals {
  Law law = Law::poisson;
  double cv = 1;
  plan::OnOff on_off = {};
  plan::TraceArrivals trace = {};
};

struct Written {
  WrittenArrivals operator()(const plan::PoissonArrivals&) const { return {}; }
  WrittenArrivals operator()(const plan::EvenArrivals&) const { return {.law = Law::uniform}; }
  WrittenArrivals operator()(const plan::GammaArrivals& gamma) const {
    return {.law = Law::gamma, .cv = gamma.cv};
  }
  WrittenArrivals operator()(const plan::BurstArrivals& burst) const {
    return {.law = Law::burst, .on_off = burst.on_off};
  }
  WrittenArrivals operator()(const plan::MmppArrivals& mmpp) const {
    return {.law = Law::mmpp, .on_off = mmpp.on_off};
  }
  WrittenArrivals operator()(const plan::TraceArrivals& trace) const {
    return {.law = Law::trace, .trace = trace};
  }
};

plan::Arrivals arrivals_of(WrittenArrivals written) {
  switch (written.law) {
    case Law::poisson:
      break;
    case Law::uniform:
      return plan::EvenArrivals{};
    case Law::gamma:
      return plan::GammaArrivals{written.cv};
    case Law::burst:
      return plan::BurstArrivals{written.on_off};
    case Law::mmpp:
      return plan::MmppArrivals{written.on_off};
    case Law::trace:
      return std::move(written.trace);
  }
  return plan::PoissonArrivals{};
}

// A field that one of the laws must have and the others have not.
Form& of_law(Form& f, bool its) { return f.reading() && its ? f : f.optional(its); }

void describe_arrivals(Form& f, WrittenArrivals& written) {
  f.word("law", written.law, {"poisson", "uniform", "gamma", "burst", "mmpp", "trace"},
         "how requests arrive");
  const bool gamma = written.law == Law::gamma, trace = written.law == Law::trace;
  const bool on_off = written.law == Law::burst || written.law == Law::mmpp;
  of_law(f, gamma).number("cv", written.cv, {.high = plan::kMaxCv, .above = true},
                          "gamma: the gaps' coefficient of variation");
  of_law(f, on_off).number("peak", written.on_off.peak, {.low = 1, .high = kMaxPeak},
                           "burst, mmpp: times the mean rate");
  const Range seconds{.low = kMinBurstSeconds, .high = kMaxBurstSeconds};
  of_law(f, on_off).number("seconds", written.on_off.seconds, seconds, "burst, mmpp: so long");
  of_law(f, on_off).number("every", written.on_off.every, seconds, "burst, mmpp: so often");
  of_law(f, trace).text("file", written.trace.file, "trace: as the services file names it");
  f.optional(trace && !written.trace.row.empty())
      .text("row", written.trace.row, "trace: its row; missing: the service's name");
}

// How many tokens there are: one number, a mean with its spread, or a list.
struct WrittenLengths {
  std::vector<int> listed;
  double mean = 1, cv = 0;
};

void describe_lengths(Form& f, plan::Tokens& tokens) {
  WrittenLengths written;
  const auto* list = std::get_if<plan::ListedTokens>(&tokens);
  if (list) written.listed = *list;
  if (const auto* law = std::get_if<plan::LognormalTokens>(&tokens)) written.cv = law->cv;
  if (!list && !f.reading()) written.mean = plan::mean_of(tokens);
  f.optional(list == nullptr)
      .number("mean", written.mean, {.low = 1, .high = plan::kMostTokens}, "of all requests");
  f.optional(std::holds_alternative<plan::LognormalTokens>(tokens))
      .number("cv", written.cv, {.high = plan::kMostTokenCv},
              "lognormal: the coefficient of variation; missing: all have the mean");
  f.optional(list != nullptr)
      .integers("listed", written.listed, {.low = 1, .high = plan::kMostTokens}, {},
                "one of them, each as likely as the others");
  if (!f.reading()) return;
  if (f.reading()->has("listed") && !written.listed.empty())
    tokens = written.listed;
  else if (f.reading()->has("cv"))
    tokens = plan::LognormalTokens{written.mean, written.cv};
  else
    tokens = static_cast<int>(written.mean);
}

void describe_tokens(Form& f, plan::TokenTerms& tokens) {
  f.optional(tokens.ttft.value > 0)
      .number("ttft_ms", tokens.ttft.value, kNotNegative, "to the first token; missing: any time");
  f.optional(tokens.tpot.value > 0)
      .number("tpot_ms", tokens.tpot.value, kNotNegative,
              "per token after it, on average over an answer; missing: any time");
  plan::TokenPair pair;
  plan::TokenTrace trace;
  if (const auto* known = std::get_if<plan::TokenPair>(&tokens.lengths)) pair = *known;
  if (const auto* known = std::get_if<plan::TokenTrace>(&tokens.lengths)) trace = *known;
  const bool traced = std::holds_alternative<plan::TokenTrace>(tokens.lengths);
  f.optional(!traced).object("in", pair.in, describe_lengths, "tokens of prompts");
  f.optional(!traced).object("out", pair.out, describe_lengths, "tokens of answers");
  f.optional(traced).text("trace", trace.file, "lengths of both, as the services file names it");
  const Range times{.low = 1 / plan::kMostTokenTimes, .high = plan::kMostTokenTimes};
  f.optional(trace.in_times != 1)
      .number("in_times", trace.in_times, times, "prompts are so many times as long; missing: 1");
  f.optional(trace.out_times != 1)
      .number("out_times", trace.out_times, times, "answers are so many times as long; missing: 1");
  f.optional(tokens.prefix_share > 0)
      .number("prefix_share", tokens.prefix_share, {.high = 1},
              "of requests that begin with the same tokens");
  f.optional(tokens.prefix_tokens > 0)
      .integer("prefix_tokens", tokens.prefix_tokens, {.high = plan::kMostTokens - 1},
               "that those begin with");
  if (!f.reading()) return;
  if (f.reading()->has("trace"))
    tokens.lengths = trace;
  else
    tokens.lengths = pair;
}

void describe_set_model(Form& f, plan::SetModel& model) {
  f.name("name", model.name, "by which requests ask for it");
  f.optional(model.weight != 1)
      .number("weight", model.weight, {.high = kMaxQuantity, .above = true},
              "of the requests, in proportion; missing: 1");
}

void describe_models(Form& f, plan::ModelSet& set) {
  f.list("list", set.models, describe_set_model, {.most = plan::kMostSetModels}, "by weight");
  f.number("memory_mib", set.memory.value, kPositive, "of one that is loaded");
  f.optional(set.reserve.value > 0)
      .number("reserve_mib", set.reserve.value, kNotNegative,
              "of the process with none; missing: 0");
  f.number("load_ms", set.load.value, kNotNegative, "to load one, at most");
  f.optional(set.cold.value > 0)
      .number("cold_ms", set.cold.value, kNotNegative,
              "of requests whose model is not loaded; missing: the SLO alone is promised");
}

void describe_rate_at(Form& f, plan::RateAt& entry) {
  f.integer("minute", entry.minute, kKeptMinutes, "of the day");
  f.number("rate_rps", entry.rate.value, kNotNegative, "from then on");
}

}  // namespace

void describe_cache(Form& f, plan::CacheTerms& cache) {
  f.number("memory_mib", cache.memory.value, {.low = 1, .high = plan::kMostCacheMib},
           "of a gateway, for the answers");
  f.optional(cache.ttl.value > 0)
      .number("ttl_s", cache.ttl.value, {.high = plan::kMostCacheSeconds, .above = true},
              "an answer is good; missing: without end");
  f.optional(cache.shared)
      .boolean("shared", cache.shared, "by all clients; missing: each finds its own");
}

void describe_further_terms(Form& f, plan::Terms& terms) {
  f.optional(terms.min_replicas != 1)
      .integer("min_replicas", terms.min_replicas, kKeptReplicas, "instances at least; missing: 1");
  f.optional(terms.spread).boolean("spread", terms.spread, "no two instances on one GPU");
  f.optional(!terms.avoid.empty())
      .names("avoid", terms.avoid, {.most = kMostAvoided}, "never on a GPU with one of these");
  plan::Traffic& traffic = terms.traffic;
  f.optional(traffic.headroom != 0)
      .number("headroom", traffic.headroom, {.high = kMaxHeadroom},
              "share of the rate that is planned for on top; missing: 0");
  WrittenArrivals arrivals = std::visit(Written{}, traffic.arrivals);
  f.optional(!plan::is_poisson(traffic.arrivals))
      .object("arrivals", arrivals, describe_arrivals, "how requests arrive; missing: Poisson");
  if (f.reading()) traffic.arrivals = arrivals_of(std::move(arrivals));
  f.optional(!traffic.rates.empty())
      .list("rates", traffic.rates, describe_rate_at, {.most = plan::kMinutesOfDay},
            "over the day; missing: the same all day");
  f.object("tokens", terms.tokens, describe_tokens,
           "of a language model, which answers token by token; missing: it is none");
  f.object("models", terms.models, describe_models,
           "many that share its instances; missing: it is one");
  f.object("pipeline", terms.pipeline, describe_pipeline,
           "services that its requests go through; missing: it is none");
  f.optional(terms.member)
      .boolean("member", terms.member, "only pipelines ask for it; its SLO is a share of theirs");
  f.object("cache", terms.cache, describe_cache,
           "of answers for who asks the same again; missing: the service has none");
  f.optional(terms.priority != 0)
      .integer("priority", terms.priority, kPriorities,
               "where not all have room the lower ones get less; missing: 0");
}

void describe_engine(Form& f, profile::EngineName& engine) {
  f.optional(!engine.empty())
      .text("engine", engine.configuration,
            "of a language model: how it was measured; batch is its concurrency");
  for (const auto& [key, word, about] :
       {std::tuple("engine_backend", &engine.backend,
                   "vllm, sglang, trtllm, ...; missing: not said"),
        std::tuple("engine_version", &engine.version, "of the engine; missing: not said"),
        std::tuple("precision", &engine.precision, "of its weights; missing: not said")})
    f.optional(!word->empty()).name(key, *word, about);
  for (const auto& [key, number, about] :
       {std::tuple("tp", &engine.tensor, "GPUs that share a layer; missing: not said"),
        std::tuple("pp", &engine.pipeline, "stages of layers; missing: not said"),
        std::tuple("attention_dp", &engine.data, "copies of attention; missing: not said")})
    f.optional(*number != 0).integer(key, *number, {.low = 1, .high = 1e6}, about);
}

void describe_terms(Form& f, plan::Terms& terms, TermsKept kept) {
  const bool whole = kept == TermsKept::whole;
  f.name("name", terms.name, "of the service");
  f.optional(!terms.model.empty()).name("model", terms.model, "that it runs; missing: not known");
  (whole ? f : f.optional(terms.rate.value > 0))
      .number("rate_rps", terms.rate.value, kNotNegative, "asked for; 0: not known");
  (whole ? f : f.optional(terms.slo.value > 0))
      .number("slo_ms", terms.slo.value, kNotNegative, "asked for; 0: not known");
  f.optional(terms.percentile > 0)
      .number("percentile", terms.percentile, kKeptPercentiles,
              "of the requests that shall keep the SLO; missing: not known");
  const Fields* const in = f.reading();
  if (in && !in->has("percentile")) terms.percentile = 0;
  describe_further_terms(f, terms);
  if (whole) return;  // a plan says it in its rule
  f.optional(terms.dispatch != plan::Dispatch::pooled)
      .word("dispatch", terms.dispatch, {"pooled", "paced", "shared-queue", "per-process"},
            "the server that the promise is made for; missing: pooled");
}

}  // namespace partita::forms
