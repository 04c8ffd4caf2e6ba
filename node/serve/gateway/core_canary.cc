// Canaries: a share of a service's requests, or copies of them, with another version.
#include <fmt/format.h>

#include <cstring>

#include "base/index.h"
#include "serve/gateway/core_impl.h"

namespace partita::serve {
namespace {

// It gets no more than it can answer in time: what it has no room for stays where it was.
bool can_take(const LiveService& fresh, const LiveService& service, int items) {
  if (!fresh.loaded || !fresh.model || !fresh.slots || fresh.brain.pool().size() == 0) return false;
  if (fresh.model->sequences || fresh.streams() || !service.model ||
      fresh.model->inputs != service.model->inputs ||
      fresh.model->outputs != service.model->outputs)
    return false;
  const double depth = fresh.brain.depth();
  return (depth <= 0 || fresh.brain.queued() + items <= depth) && fresh.has_room({}, at(items));
}

}  // namespace

std::string verdict(const LiveService& service) {
  const Trial& trial = *service.trial;
  return fmt::format("the canary '{}' of '{}' is {}: {}", trial.service, service.wanted.name,
                     name_of(trial.canary.state()), trial.canary.why());
}

std::string begin_trial(LiveService& service, const CanaryWish& wish, Nanos watch) {
  service.trial.reset();
  if (wish.share == 0) return "";
  if (!(wish.share > 0 && wish.share <= 1)) return "a share is more than 0 and at most 100 %";
  if (service.model && (service.model->sequences || service.model->set || service.streams()))
    return "a model with state, or of streams, and a set of models has no canary";
  const CanarySettings settings{.share = wish.share,
                                .shadow = wish.shadow,
                                .slo = nanos_of(slo_of(service.wanted)),
                                .watch = watch};
  service.trial = std::make_unique<Trial>(
      Trial{Canary(settings, Loop::now_ns()), wish, service.wanted.name + "@" + wish.version});
  return "";
}

std::shared_ptr<LiveService> canary_for(LiveService& service, const Services& services,
                                        const RequestHead& head) {
  Trial& trial = *service.trial;
  const bool goes =
      !trial.wish.shadow && (head.again ? trial.given_back : trial.canary.takes_next());
  if (!goes) return nullptr;
  const auto found = services.find(trial.service);
  if (found == services.end()) return nullptr;
  return head.again || can_take(*found->second, service, head.items) ? found->second : nullptr;
}

std::string note_answer(const LiveRequest& asked, bool well, Nanos latency) {
  LiveService& service = asked.trial_of ? *asked.trial_of : *asked.service;
  if (!service.trial) return "";
  const Canary::State before = service.trial->canary.state();
  service.trial->canary.answered(asked.trial_of != nullptr, well, latency);
  return service.trial->canary.state() == before ? "" : verdict(service);
}

std::string look_at_trial(LiveService& service, Nanos now) {
  if (!service.trial) return "";
  const Canary::State before = service.trial->canary.state();
  return service.trial->canary.step(now) == before ? "" : verdict(service);
}

// Nobody waits for the copy: it is nobody's, and goes when it is answered.
void Core::Impl::copy_to_canary(const LiveRequest& asked) {
  LiveService& service = *asked.service;
  if (!service.trial->canary.takes_next()) return;
  const auto found = services.find(service.trial->service);
  if (found == services.end() || !can_take(*found->second, service, asked.wish.items)) return;
  const std::shared_ptr<LiveService> fresh = found->second;
  const Nanos now = Loop::now_ns();
  Wish wish{.items = asked.wish.items, .arrived = now};
  if (fresh->brain.admit(now, wish).refusal != Refusal::none) return;
  LiveRequest copy{.id = requests.next++, .service = fresh, .wish = wish, .slots = {}};
  copy.trial_of = asked.service;
  for (const std::uint32_t slot : asked.slots) {
    copy.slots.push_back(*fresh->slots->take());
    for (int tensor = 0; tensor < static_cast<int>(fresh->model->inputs.size()); ++tensor) {
      const std::span<char> from = service.slots->input(slot, tensor);
      std::memcpy(fresh->slots->input(copy.slots.back(), tensor).data(), from.data(), from.size());
    }
    write_slot_trace(fresh->slots->trace(copy.slots.back()), {}, {});
  }
  const RequestId id = copy.id;
  copy.state = LiveRequest::State::submitted;
  copy.completion.ended = [this, id](std::optional<Denial>) { release(id); };
  requests.by_id.emplace(id, std::move(copy));
  fresh->brain.enqueue(now, id, wish);
  step(fresh);
}

std::string Core::set_canary(std::string_view name, const CanaryWish& wish) {
  const auto service = impl_->find(name);
  if (!service) return fmt::format("there is no model '{}'", name);
  const std::string fresh = fmt::format("{}@{}", name, wish.version);
  if (wish.share > 0 && !impl_->find(fresh))
    return fmt::format("'{}' is not served: plan it as a service beside '{}'", fresh, name);
  std::string why = begin_trial(*service, wish, impl_->options.canary_watch);
  impl_->choices.tell(impl_->services);
  return why;
}

std::optional<CanaryView> Core::canary(std::string_view name) const {
  const auto service = impl_->find(name);
  if (!service || !service->trial) return std::nullopt;
  const Canary& canary = service->trial->canary;
  return CanaryView{.wish = service->trial->wish,
                    .state = std::string(name_of(canary.state())),
                    .why = canary.why(),
                    .answers = canary.fresh().answers,
                    .bad = canary.fresh().bad};
}

}  // namespace partita::serve
