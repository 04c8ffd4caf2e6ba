// What many documents have alike.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"

namespace partita {

// Words that stand in a type.
template <std::size_t size>
struct Words {
  consteval Words(const char (&said)[size]) { std::copy_n(said, size, text); }
  char text[size];
};

// A kind of documents that hold a T, as `describe` says.
template <class T, void (*describe)(Form&, T&), Words name, Words about>
DocumentKind document_kind() {
  return {name.text, about.text, [] { return schema_form<T>(name.text, about.text, describe); }};
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
