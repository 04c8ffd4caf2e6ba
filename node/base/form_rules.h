// What many documents have alike.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"

namespace partita {

// A kind of documents that hold a T, as `describe` says; of the function `self` that gives it.
template <class T, void (*describe)(Form&, T&), DocumentKind (*self)()>
DocumentKind document_kind(std::string_view name, std::string_view about) {
  return {name, about, [] {
            const DocumentKind kind = self();
            return schema_form<T>(kind.name, kind.about, describe);
          }};
}

// Refuses a list in which something stands twice under its name: "service 'chat' is listed twice".
template <class T, class Name>
void refuse_twice(Fields& in, std::string_view key, const std::vector<T>& all, Name name,
                  std::string_view what) {
  std::set<std::string> names;
  for (const T& one : all)
    if (const std::string& given = std::invoke(name, one); !names.insert(given).second)
      in.refuse(key, fmt::format("{} '{}' is listed twice", what, given));
}

}  // namespace partita
