// The kinds of documents of this module, each with its JSON Schema.
#pragma once

#include <vector>

#include "base/form.h"

namespace partita::forms {

std::vector<DocumentKind> document_kinds();

}  // namespace partita::forms
