#include "serve/engines/engine_pool.h"

#include <algorithm>

namespace partita::serve {
namespace {

constexpr std::int64_t kTick = 50'000'000;

}  // namespace

EnginePool::EnginePool(Loop& loop, EngineOptions options,
                       std::function<void(const std::string&)> say)
    : options_(std::move(options)),
      desk_{.loop = loop, .options = options_, .say = std::move(say)},
      timer_(loop, [this](std::int64_t due) {
        const std::int64_t now = Loop::now_ns();
        tick(now);
        timer_.at((std::max(due, now) / kTick + 1) * kTick);  // with Host's looks
      }) {}

EnginePool::~EnginePool() = default;

void EnginePool::serve(const std::vector<TokenService>& services) {
  for (auto it = services_.begin(); it != services_.end();) {
    if (std::ranges::count(services, it->first, &TokenService::name) > 0) {
      ++it;
      continue;
    }
    it->second->serve(TokenService{it->second->terms()});
    ending_.push_back(std::move(it->second));
    it = services_.erase(it);
  }
  for (const TokenService& wanted : services) {
    auto& one = services_[wanted.name];
    if (one == nullptr)
      one = std::make_unique<EngineService>(desk_, wanted);
    else
      one->serve(wanted);
  }
  if (!services_.empty() && !timer_.pending()) timer_.at(Loop::now_ns());
}

EngineService* EnginePool::find(std::string_view service) const {
  const auto found = services_.find(service);
  return found == services_.end() ? nullptr : found->second.get();
}

std::vector<std::pair<std::string, const EngineReplica*>> EnginePool::leaving() const {
  std::vector<std::pair<std::string, const EngineReplica*>> all;
  const auto add = [&](const EngineService& service) {
    for (const auto& one : service.engines().leaving())
      all.emplace_back(service.terms().name, one.get());
  };
  for (const auto& [name, service] : services_) add(*service);
  for (const auto& service : ending_) add(*service);
  return all;
}

bool EnginePool::ready() const {
  return std::ranges::all_of(services_,
                             [](const auto& one) { return one.second->engines().ready(); });
}

bool EnginePool::idle() const {
  return std::ranges::all_of(services_, [](const auto& one) { return one.second->idle(); }) &&
         std::ranges::all_of(ending_, [](const auto& one) { return one->idle(); });
}

void EnginePool::close_doors() { desk_.closed = true; }

std::int64_t EnginePool::key_begun(const std::string& key, const KeyLimits& limits,
                                   const KeyAsk& asked) {
  return desk_.keys[key].ask(limits, asked, Loop::now_ns());
}

void EnginePool::key_ended(const std::string& key, double more_tokens) {
  desk_.keys[key].ended(more_tokens);
}

double EnginePool::usual_out(const std::string& service) const {
  if (const EngineService* const here = find(service)) return here->mean_out.tokens;
  const auto found = elsewhere_.find(service);
  return found == elsewhere_.end() ? MeanOut{}.tokens : found->second.tokens;
}

void EnginePool::answered_elsewhere(const std::string& service, double tokens_of_one) {
  elsewhere_[service].add(tokens_of_one);
}

void EnginePool::tick(std::int64_t now) {
  for (const auto& [name, service] : services_) service->tick(now);
  for (const auto& service : ending_) service->tick(now);
  std::erase_if(ending_, [](const auto& one) { return one->idle(); });
}

std::string EnginePool::metrics() const {
  std::vector<TokenSnapshot> shown;
  for (const auto& [name, service] : services_) shown.push_back(service->snapshot());
  return token_metrics_text(shown);
}

}  // namespace partita::serve
