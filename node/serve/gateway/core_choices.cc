// What was decided while a gateway ran: told to whoever keeps it, and taken up by the next one.
#include <fmt/format.h>

#include <utility>

#include "serve/gateway/core_impl.h"

namespace partita::serve {
namespace {

using State = actuate::TrialState;
static_assert(static_cast<int>(State::promoted) == static_cast<int>(Canary::State::promoted) &&
              static_cast<int>(State::taken_back) == static_cast<int>(Canary::State::taken_back));

bool same(const CanaryWish& a, const actuate::CanaryChoice& b) {
  return a.version == b.version && a.share == b.share && a.shadow == b.shadow;
}

actuate::ServiceChoice choice_of(const std::string& name, const LiveService& service) {
  actuate::ServiceChoice choice{.service = name, .unloaded = !service.loaded};
  if (service.trial)
    choice.canary =
        actuate::CanaryChoice{.version = service.trial->wish.version,
                              .share = service.trial->wish.share,
                              .shadow = service.trial->wish.shadow,
                              .by_flag = service.trial->by_flag,
                              .state = static_cast<State>(service.trial->canary.state()),
                              .why = service.trial->canary.why()};
  return choice;
}

}  // namespace

Choices::Choices(const CoreOptions& options) : options_(options), told_(options.choices) {
  for (const actuate::ServiceChoice& one : told_.services) before_.emplace(one.service, one);
}

std::string Choices::begin(LiveService& service) {
  const std::string& name = service.wanted.name;
  const auto flag = options_.canaries.find(name);
  const bool flagged = flag != options_.canaries.end();
  if (flagged && begin_trial(service, flag->second, options_.canary_watch).empty() && service.trial)
    service.trial->by_flag = true;
  const auto found = before_.find(name);
  if (found == before_.end()) return "";
  const actuate::ServiceChoice choice = std::move(found->second);
  before_.erase(found);
  service.loaded = !choice.unloaded;
  const std::string said =
      choice.unloaded ? fmt::format("'{}' was unloaded, and is until it is loaded", name) : "";
  if (!choice.canary) return said;
  const actuate::CanaryChoice& was = *choice.canary;
  if (flagged ? !same(flag->second, was) : was.by_flag) return said;
  if (!flagged) begin_trial(service, {was.version, was.share, was.shadow}, options_.canary_watch);
  if (!service.trial || was.state == State::on_trial) return said;
  service.trial->canary.was(static_cast<Canary::State>(was.state), was.why);
  return said.empty() ? verdict(service) : said + "; " + verdict(service);
}

void Choices::begin_pipeline(const std::string& name) {
  const auto found = before_.find(name);
  if (found == before_.end()) return;
  if (found->second.unloaded) unloaded_pipelines_.insert(name);
  before_.erase(found);
}

void Choices::load_pipeline(std::string_view name, bool load) {
  if (load)
    unloaded_pipelines_.erase(std::string(name));
  else
    unloaded_pipelines_.emplace(name);
}

void Choices::tell(const Services& services) {
  if (!options_.chosen) return;
  std::map<std::string, actuate::ServiceChoice, std::less<>> all = before_;
  for (const auto& [name, service] : services) {
    actuate::ServiceChoice one = choice_of(name, *service);
    if (one.unloaded || one.canary) all.insert_or_assign(name, std::move(one));
  }
  for (const std::string& name : unloaded_pipelines_)
    all.insert_or_assign(name, actuate::ServiceChoice{.service = name, .unloaded = true});
  actuate::GatewayChoices now;
  for (auto& [name, one] : all) now.services.push_back(std::move(one));
  if (now == told_) return;
  told_ = std::move(now);
  options_.chosen(told_);
}

}  // namespace partita::serve
