#include "forms/terms_form.h"

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

void describe_rate_at(Form& f, plan::RateAt& entry) {
  f.integer("minute", entry.minute, kKeptMinutes, "of the day");
  f.number("rate_rps", entry.rate.value, kNotNegative, "from then on");
}

}  // namespace

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
