// "NAME=A,B" as people write it in a flag: a name and what belongs to it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace partita {

struct NamedList {
  std::string name;
  std::vector<std::string> items;  // at least one, none of them empty
};

// `item` is what the items are, in one word of capitals. The refusal names the flag.
Result<NamedList> parse_named_list(const std::string& flag, const std::string& text,
                                   const std::string& item);

}  // namespace partita
