// The key `models` of a service: many models that share its instances. Internal to the forms.
#pragma once

#include "base/fields.h"
#include "forms/serving_forms.h"

namespace partita::forms {

// With `file`, a CSV with the columns model and, where they differ, weight, which `files` reads.
void read_models(Fields& fields, Service& service, const FileText& files);

}  // namespace partita::forms
