#include "serve/gateway/keys.h"

namespace partita::serve {

Nanos Keys::ask(std::string_view name, const KeyLimits& limits, std::uint64_t bytes, Nanos now) {
  KeyLimits of_tensors = limits;
  of_tensors.requests = of_tensors.tokens = 0;
  return keys_.try_emplace(std::string(name))
      .first->second.ask(of_tensors, {.bytes = static_cast<double>(bytes)}, now);
}

void Keys::again(std::string_view name) {
  keys_.try_emplace(std::string(name)).first->second.again();
}

void Keys::ended(std::string_view name) {
  const auto found = keys_.find(name);
  if (found != keys_.end()) found->second.ended();
}

}  // namespace partita::serve
