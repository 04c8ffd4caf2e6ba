// tell: several fields of a Form that are told alone (form.h), as names and values in turn:
// tell(f, "name", one.name, "rate_rps", one.rate).
#pragma once

#include <string_view>

#include "base/form.h"

namespace partita {

template <class T, class... Rest>
void tell(Form& f, std::string_view key, const T& value, const Rest&... rest) {
  f.told(key, value);
  if constexpr (sizeof...(rest) > 0) tell(f, rest...);
}

}  // namespace partita
