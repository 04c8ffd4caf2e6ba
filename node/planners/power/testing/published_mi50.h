// A response table of an MI50 modelled from REEF's published kernel times, as `partita power table`
// makes it. For tests and measurements; reads files of the checkout.
#pragma once

#include <string>
#include <vector>

#include "base/check.h"
#include "base/source_text.h"
#include "planners/power/modelled.h"
#include "profile/kernel_profile.h"

namespace partita::power {

inline constexpr const char* kPublishedModels[] = {"alexnet",   "bert",      "densenet",
                                                   "inception", "mobilenet", "resnet",
                                                   "resnet152", "resnet18",  "vgg"};

inline plan::ResponseTable published_mi50(int unit_step) {
  std::vector<profile::ModelKernels> models;
  for (const std::string model : kPublishedModels) {
    const std::string file = "data/published/reef/" + model + ".csv";
    auto kernels = profile::parse_kernel_csv(file, source_text(file), 60);
    CHECK(kernels.has_value());
    kernels->model = model;
    models.push_back(*std::move(kernels));
  }
  ClockModel model;
  model.unit_step = unit_step;
  return modelled_table("MI50", {15, 15, 15, 15}, models, model);
}

}  // namespace partita::power
