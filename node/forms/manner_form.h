// Of a planned instance, how a language model or a set of models is served on it.
#pragma once

#include "base/form.h"
#include "plan/serving.h"

namespace partita::forms {

// The engine, the group of GPUs, SMs for prefill and decode, and models that are held.
void describe_manner(Form& f, plan::PlannedInstance& instance);

}  // namespace partita::forms
