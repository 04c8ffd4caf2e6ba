#include "serve/engines/engine_set.h"

#include <algorithm>
#include <utility>

namespace partita::serve {
namespace {

// What is planned at an address is known (plan::engine_of); what is elsewhere is any of its model.
bool may_be(const profile::TokenEngine& engine, const EngineAddress& address) {
  if (address.device.empty()) return true;
  return engine.mig_profile == address.profile && engine.gpus == address.gpus &&
         (address.configuration.empty() || address.configuration == engine.name.configuration);
}

}  // namespace

EngineReplica::Known EngineSet::known(const std::string& model, const EngineAddress& address) {
  EngineReplica::Known known;
  auto& factors = factors_[{address.profile, address.gpus, address.configuration}];
  if (factors == nullptr) factors = std::make_shared<EngineFactors>();
  known.factors = factors;
  const auto found = desk_.options.engines.find(model);
  if (found == desk_.options.engines.end()) return known;
  for (const profile::TokenEngine& one : found->second)
    if (may_be(one, address)) known.engines.push_back(&one);
  return known;
}

void EngineSet::serve(const plan::Terms& terms, const std::vector<EngineAddress>& wanted) {
  List before = std::exchange(here_, {});
  for (const EngineAddress& address : wanted) {
    const auto kept = std::ranges::find_if(
        before, [&](const auto& one) { return one != nullptr && one->address == address; });
    if (kept != before.end())
      here_.push_back(std::move(*kept));
    else
      add(terms, address);
  }
  for (auto& gone : before) {
    if (gone == nullptr) continue;
    gone->leave();
    leaving_.push_back(std::move(gone));
  }
}

void EngineSet::add(const plan::Terms& terms, const EngineAddress& address) {
  auto made =
      EngineReplica::make(desk_.loop, address, desk_.options.tls, known(terms.model, address));
  if (!made) {
    if (desk_.say) desk_.say(terms.name + ": " + to_string(made.error()));
    return;
  }
  EngineReplica& replica = **made;
  replica.listen({.changed =
                      [this, &replica, name = terms.name] {
                        if (desk_.say)
                          desk_.say(name + ": " + replica.address.url + " is " + replica.state());
                        if (!replica.ready()) lost(replica, false);
                        changed_();
                        if (desk_.changed) desk_.changed();
                      },
                  .dead = [this, &replica] { lost(replica, true); }});
  here_.push_back(*std::move(made));
}

// What it has and nobody has seen anything of goes elsewhere; once it is dead, the rest ends.
void EngineSet::lost(EngineReplica& replica, bool dead) {
  const auto other = [&](const auto& one) { return one.get() != &replica && one->ready(); };
  const bool elsewhere = std::ranges::any_of(here_, other);
  const std::vector<EngineCall*> calls = replica.calls;
  for (EngineCall* call : calls)
    if (std::ranges::count(replica.calls, call) > 0 && (dead || (elsewhere && call->moves())))
      call->engine_lost("it does not answer");
}

void EngineSet::tick(std::int64_t now) {
  for (std::size_t i = 0; i < here_.size(); ++i) here_[i]->tick(now);
  for (const List* list : {&here_, &leaving_})
    for (const auto& one : *list)
      for (EngineCall* call : one->calls) call->assume_first_token(now);
  std::erase_if(leaving_, [](const auto& one) { return one->calls.empty(); });
}

bool EngineSet::ready() const {
  return std::ranges::any_of(here_, [](const auto& one) { return one->ready(); });
}

bool EngineSet::gone() const {
  return std::ranges::all_of(here_, [](const auto& one) { return one->gone(); });
}

int EngineSet::running() const {
  int sum = 0;
  for (const List* list : {&here_, &leaving_})
    for (const auto& one : *list) sum += one->guess.open();
  return sum;
}

double EngineSet::capacity_rps() const {
  double sum = 0;
  for (const auto& one : here_) sum += one->ready() ? one->address.throughput_rps : 0;
  return sum;
}

std::optional<double> EngineSet::kv_cache_usage() const {
  std::optional<double> most;
  for (const auto& one : here_)
    if (const auto usage = one->kv_cache_usage(Loop::now_ns()); usage && *usage >= most.value_or(0))
      most = usage;
  return most;
}

std::vector<EngineSnapshot> EngineSet::shown() const {
  std::vector<EngineSnapshot> all;
  for (const List* list : {&here_, &leaving_})
    for (const auto& one : *list)
      all.push_back({one->address.url, one->state(), one->guess.open(), one->guess.tokens_held(),
                     one->kv_cache_usage(Loop::now_ns())});
  return all;
}

}  // namespace partita::serve
