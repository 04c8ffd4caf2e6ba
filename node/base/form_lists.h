// A field of a form that is a number, or lists of numbers in its place.
#pragma once

#include <string_view>
#include <vector>

#include "base/form.h"

namespace partita::form {

// Whole numbers, no list empty: what is not given is 0, or none.
void number_or_lists(Form& f, std::string_view key, int& number,
                     std::vector<std::vector<int>>& lists, Range range, std::string_view about);

}  // namespace partita::form
