// What became different between two JSON documents, for streams: as a merge patch (RFC 7396) in
// which a list takes an object, too: its items by number, and `length` where it is another. Pure.
#pragma once

#include <optional>
#include <string>

#include "base/document.h"

namespace partita::api {

// A line of JSON; nothing where a patch cannot say it: a value that is null now, an
// object where a list was.
std::optional<std::string> changes_between(const Node& before, const Node& after);

}  // namespace partita::api
