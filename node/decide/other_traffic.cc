#include "decide/other_traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/fields.h"
#include "base/nearest.h"
#include "base/parse_number.h"
#include "decide/input.h"
#include "decide/simulate.h"
#include "decide/traces.h"

namespace partita::decide {
namespace {

constexpr std::string_view kGamma = "gamma:";

// Per service the factor between the rate that is played and the one declared.
using Factors = std::map<std::string, double>;

struct WhatIf {
  std::string service;
  Rps rate;
};

Result<WhatIf> parse_what_if(const std::string& text, const plan::ServingProblem& problem) {
  const std::size_t equals = text.rfind('=');
  const auto rate = equals == text.npos
                        ? std::nullopt
                        : parse_number<double>(std::string_view(text).substr(equals + 1));
  if (!rate || !(*rate > 0 && *rate <= kMaxQuantity))
    return bad_input("--what-if",
                     fmt::format("'{}' is not SERVICE=RATE with a rate above 0 and at most {:g} "
                                 "requests per second",
                                 text, kMaxQuantity));
  const std::string name = text.substr(0, equals);
  std::vector<std::string> names;
  for (const plan::Service& service : problem.services) names.push_back(service.name);
  if (std::ranges::count(names, name) == 0)
    return bad_input("--what-if",
                     fmt::format("unknown service '{}'{}", name, did_you_mean(name, names)));
  return WhatIf{name, Rps{*rate}};
}

Result<Factors> factors_of(const plan::ServingProblem& problem, const OtherTraffic& other) {
  Factors factors;
  for (const plan::Service& service : problem.services) factors[service.name] = other.load;
  std::map<std::string, Rps> said;
  for (const std::string& text : other.what_if) {
    const WhatIf what_if = TRY(parse_what_if(text, problem));
    if (!said.emplace(what_if.service, what_if.rate).second)
      return bad_input("--what-if", fmt::format("'{}' is given twice", what_if.service));
  }
  for (const plan::Service& service : problem.services)
    if (const auto found = said.find(service.name); found != said.end())
      factors[service.name] = found->second / service.rate;
  return factors;
}

bool has_times_of_services(std::string_view text) {
  const std::string_view header = text.substr(0, text.find('\n'));
  return header.find("time_s") != header.npos && header.find("service") != header.npos;
}

// A file of arrivals: times of several services, or a trace that each plays.
Result<PlayedTraffic> play_file(Files& files, PlayedTraffic played, const std::string& file,
                                const Factors& factors) {
  const std::string text = TRY(read_input(files, "--arrivals", file));
  if (has_times_of_services(text)) {
    std::vector<sim::Trace> traces = TRY(sim::parse_trace(file, text));
    TRY(check_traces("--arrivals", traces, played.problem));
    for (sim::Trace& trace : traces)
      for (double& time : trace.times_s) time /= factors.at(trace.service);
    played.options.arrivals = sim::ArrivalKind::trace;
    played.options.traces = std::move(traces);
    return played;
  }
  for (plan::Service& service : played.problem.services)
    service.traffic.arrivals = plan::TraceArrivals{file, "", nullptr};
  played.problem.services = TRY(with_traces(files, "", std::move(played.problem.services)));
  return played;
}

}  // namespace

Result<PlayedTraffic> play(Files& files, plan::ServingProblem problem, const OtherTraffic& other,
                           sim::ServingOptions options) {
  const Factors factors = TRY(factors_of(problem, other));
  PlayedTraffic played{std::move(problem), std::move(options)};
  for (plan::Service& service : played.problem.services)
    service.rate = factors.at(service.name) * service.rate;
  if (other.arrivals.empty()) return played;
  if (other.arrivals == "poisson") {
    played.options.arrivals = sim::ArrivalKind::poisson;
  } else if (other.arrivals == "uniform") {
    played.options.arrivals = sim::ArrivalKind::uniform;
  } else if (other.arrivals.starts_with(kGamma)) {
    const auto cv = parse_number<double>(std::string_view(other.arrivals).substr(kGamma.size()));
    if (!cv || !(*cv > 0 && *cv <= plan::kMaxCv))
      return bad_input("--arrivals", fmt::format("'{}' is not gamma:CV with a coefficient of "
                                                 "variation above 0 and at most {:g}",
                                                 other.arrivals, plan::kMaxCv));
    played.options.arrivals = sim::ArrivalKind::gamma;
    played.options.cv = *cv;
  } else {
    return play_file(files, std::move(played), other.arrivals, factors);
  }
  return played;
}

}  // namespace partita::decide
