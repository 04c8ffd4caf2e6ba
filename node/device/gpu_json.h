// One GPU as JSON, which the documents NodeState and Recording share. Internal to the forms.
#pragma once

#include "base/form.h"
#include "device/node_forms.h"

namespace partita::device {

void describe_compute(Form& f, ComputeInstance& compute);

// The fields of a GPU with what runs on its instances, which a reader adds to `occupants`. What is
// missing is what the catalogue says.
struct GpuForm {
  const hw::Catalogue& catalogue;
  Occupants& occupants;
  void operator()(Form& f, GpuState& gpu) const;
};

}  // namespace partita::device
