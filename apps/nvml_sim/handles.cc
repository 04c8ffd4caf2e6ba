#include "handles.h"

namespace partita::nvml_sim {
namespace {

constexpr std::uintptr_t kStep = 16;  // aligned as an address would be

}  // namespace

std::uintptr_t Handles::number(const Entity& entity) {
  const std::lock_guard guard(mutex_);
  const auto [at, made] = numbers_.try_emplace(entity, next_);
  if (made) {
    entities_.emplace(next_, entity);
    next_ += kStep;
  }
  return at->second;
}

std::optional<Entity> Handles::entity(std::uintptr_t number) const {
  const std::lock_guard guard(mutex_);
  const auto at = entities_.find(number);
  if (at == entities_.end()) return std::nullopt;
  return at->second;
}

void Handles::forget(const Entity& entity) {
  const std::lock_guard guard(mutex_);
  const auto at = numbers_.find(entity);
  if (at == numbers_.end()) return;
  entities_.erase(at->second);
  numbers_.erase(at);
}

}  // namespace partita::nvml_sim
