// Documents of the energy model: kinds EnergyModel, EnergyPrediction, EnergyValidation and
// EnergyReport of docs/formats.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"
#include "model/energy/fit.h"
#include "model/energy/report.h"

namespace partita::energy {

// parse_model(f, model_json(m)) == m. Refused with FILE:LINE: names twice, negative energies,
// numbers that are not finite.
std::string model_json(const EnergyModel& model);
Result<EnergyModel> parse_model(const std::string& file, std::string_view text);

// What a model says of rows.
struct Prediction {
  struct Row {
    std::string name;
    double predicted = 0, error = 0;  // J or W; standard error of the coefficients
    std::optional<double> measured = {};
    // Joules per instruction (Eq. 5.3), where instructions are counted.
    std::optional<double> epi_j = {}, measured_epi_j = {};
    bool operator==(const Row&) const = default;
  };
  bool watts = false;
  std::vector<Row> rows;
  bool operator==(const Prediction&) const = default;
};
std::string prediction_json(const Prediction& prediction);

std::string validation_json(const Validation& validation);

std::string report_json(const EnergyReport& report);
Result<EnergyReport> parse_report(const std::string& file, std::string_view text);

std::vector<DocumentKind> document_kinds();

}  // namespace partita::energy
