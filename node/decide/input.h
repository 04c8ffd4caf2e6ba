// The catalogue of GPU models that people name, beside what base/input.h reads.
#pragma once

#include <string>

#include "base/input.h"
#include "hw/catalogue.h"

namespace partita::decide {

// The models in every *.json of --catalogue DIR; the compiled-in catalogue when `directory` is
// empty.
Result<hw::Catalogue> load_catalogue(Files& files, const std::string& directory);

}  // namespace partita::decide
