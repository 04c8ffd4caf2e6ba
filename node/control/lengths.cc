#include "control/lengths.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <variant>

#include "act/recent_requests.h"
#include "base/hash.h"
#include "control/factor.h"

namespace partita::control {
namespace {

constexpr double kDecay = 0.98;      // a minute
constexpr double kFewest = 300;      // answers, before their mean is believed

struct Means {
  double in = 1, out = 1;
  bool operator==(const Means&) const = default;
};

// By the services file; nothing: it says none that could be corrected.
std::optional<Means> told(const plan::Service& service) {
  if (!service.tokens) return {};
  const auto* trace = std::get_if<plan::TokenTrace>(&service.tokens->lengths);
  if (trace != nullptr && trace->requests == nullptr) return {};
  const plan::MeanLength mean = plan::mean_of(*service.tokens);
  const double share = service.tokens->prefix_share;
  const double with_prefix = std::max(mean.in, service.tokens->prefix_tokens + 1.0);
  return Means{(1 - share) * mean.in + share * with_prefix, mean.out};
}

int whole(double tokens) {
  return static_cast<int>(std::lround(std::clamp(tokens, 1.0, double{plan::kMostTokens})));
}

plan::Tokens times(plan::Tokens tokens, double factor) {
  if (auto* law = std::get_if<plan::LognormalTokens>(&tokens)) {
    law->mean = std::clamp(law->mean * factor, 1.0, double{plan::kMostTokens});
  } else if (auto* list = std::get_if<plan::ListedTokens>(&tokens)) {
    for (int& one : *list) one = whole(one * factor);
  } else {
    tokens = whole(std::get<int>(tokens) * factor);
  }
  return tokens;
}

std::string sentence(const LengthKept& kept, const Means& mean) {
  return fmt::format(
      "requests of {} have {:.0f} tokens and their answers {:.0f} on average, where the services "
      "file says {:.0f} and {:.0f}: plans go by what was measured",
      kept.service, mean.in, mean.out, kept.told_in, kept.told_out);
}

}  // namespace

LengthKept* Lengths::find(const std::string& service) {
  const auto found = std::ranges::find(kept_, service, &LengthKept::service);
  return found == kept_.end() ? nullptr : &*found;
}

void Lengths::begin(const std::vector<plan::Service>& services) {
  std::vector<LengthKept> now;
  for (const plan::Service& one : services) {
    const auto means = told(one);
    if (!means) continue;
    const LengthKept* before = find(one.name);
    const bool same = before != nullptr && Means{before->told_in, before->told_out} == *means;
    now.push_back(same ? *before : LengthKept{one.name, means->in, means->out});
    if (!same) sums_.erase(one.name);
  }
  std::ranges::sort(now, {}, &LengthKept::service);
  kept_ = std::move(now);
}

void Lengths::see(const ServersSeen& servers, Report& report) {
  for (const ServiceLoad& load : servers.loads) {
    LengthKept* kept = find(load.service);
    if (kept == nullptr || !load.tokens || !(load.tokens->mean_out > 0)) continue;
    const double answers =
        actuate::kTrafficStretch * load.tokens->out_per_s / load.tokens->mean_out;
    Sums& sums = sums_[load.service];
    sums.answers = kDecay * sums.answers + answers;
    sums.in = kDecay * sums.in + answers * load.tokens->mean_in;
    sums.out = kDecay * sums.out + answers * load.tokens->mean_out;
    if (sums.answers < kFewest || !(sums.in > 0)) continue;
    const Means mean{sums.in / sums.answers, sums.out / sums.answers};
    const double in = followed_factor(kept->in, mean.in / kept->told_in, sums.answers);
    const double out = followed_factor(kept->out, mean.out / kept->told_out, sums.answers);
    if (in == kept->in && out == kept->out) continue;
    kept->in = in;
    kept->out = out;
    const std::string key = "lengths/" + load.service;
    report.untell(key);
    report.tell(NoticeKind::other, key, load.service, sentence(*kept, mean));
  }
}

DesiredNow Lengths::corrected(DesiredNow wanted) const {
  std::string off;
  for (plan::Service& one : wanted.services) {
    const auto kept = std::ranges::find(kept_, one.name, &LengthKept::service);
    if (!one.tokens || kept == kept_.end() || (kept->in == 1 && kept->out == 1)) continue;
    off += fmt::format("/{} {} {}", one.name, kept->in, kept->out);
    if (auto* pair = std::get_if<plan::TokenPair>(&one.tokens->lengths)) {
      pair->in = times(std::move(pair->in), kept->in);
      pair->out = times(std::move(pair->out), kept->out);
    } else if (auto* trace = std::get_if<plan::TokenTrace>(&one.tokens->lengths)) {
      trace->in_times *= kept->in;
      trace->out_times *= kept->out;
    }
  }
  if (off.empty()) return wanted;
  wanted.key = fmt::format("{:016x}", text_hash(wanted.key + off));
  wanted.who = "their requests, which are longer or shorter than was planned for";
  return wanted;
}

}  // namespace partita::control
