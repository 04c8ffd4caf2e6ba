// The fields of a sample, for documents that hold some (log.h has the lines). One list writes and
// reads them; see base/form.h.
#pragma once

#include "base/form.h"
#include "hw/telemetry/sample.h"

namespace partita::telemetry {

void describe_gpu(Form& form, GpuSample& gpu);
void describe_sample(Form& form, Sample& sample);

}  // namespace partita::telemetry
