#include "base/named_list.h"

#include "base/split.h"
#include "base/unicode.h"

namespace partita {

Result<NamedList> parse_named_list(const std::string& flag, const std::string& text,
                                   const std::string& item) {
  const std::size_t equals = text.find('=');
  NamedList list{text.substr(0, equals), {}};
  if (equals == text.npos || !name_fault(list.name).empty())
    return bad_input(flag, "'" + text + "' is not NAME=" + item + "," + item);
  list.items = split(text.substr(equals + 1), ',');
  for (const std::string& one : list.items)
    if (one.empty()) return bad_input(flag, "'" + text + "' has an empty " + item);
  return list;
}

}  // namespace partita
