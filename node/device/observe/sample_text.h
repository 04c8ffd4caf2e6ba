// A sample as text: a table for people, and the metrics of Prometheus with the labels of DCGM's
// exporter. Pure.
#pragma once

#include <string>
#include <vector>

#include "hw/telemetry/sample.h"

namespace partita::observe {

// What each GPU drew since the sample before, where that is known; by index in the sample.
using MeanPowers = std::vector<std::optional<Watts>>;

// Two tables: GPUs, and their instances.
std::string sample_text(const telemetry::Sample& sample, const MeanPowers& means = {});

// One scrape. Names and labels: docs/energy.md.
std::string prometheus_text(const telemetry::Sample& sample);

}  // namespace partita::observe
