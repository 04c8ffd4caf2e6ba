#include "serve/worker/engine.h"

#include <fmt/format.h>

namespace partita::serve {

void Engine::too_long(const std::vector<std::size_t>& items, const TensorSpec& output) {
  for (const std::size_t item : items) {
    faults_.push_back({item, fmt::format("output '{}': more than {} bytes of text (--text-bytes)",
                                         output.name, output.text_bytes)});
  }
}

}  // namespace partita::serve
