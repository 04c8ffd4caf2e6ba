#include "model/energy/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/append.h"
#include "base/check.h"

namespace partita::energy {
namespace {

constexpr double kHalf = 0.5;  // weight below which a row is an outlier

numeric::DenseRows matrix_of(const CounterTable& table) {
  const int rows = static_cast<int>(table.rows.size());
  numeric::DenseRows x = numeric::dense_rows(rows, static_cast<int>(table.components.size()));
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < x.columns; ++c)
      x.at(r, c) = table.rows[static_cast<std::size_t>(r)].accesses[static_cast<std::size_t>(c)];
  return x;
}

std::vector<double> measured_of(const CounterTable& table) {
  std::vector<double> y;
  for (const CounterRow& row : table.rows) y.push_back(row.measured);
  return y;
}

bool believes(const FitOptions& options) {
  return options.prior_for_all > 0 || !options.prior.empty();
}

// A component of which nothing is known could be all of every row: from 0 to the largest
// coefficient that no row contradicts.
numeric::Belief unknown(const numeric::DenseRows& x, const std::vector<double>& y, int column) {
  double most = 0;
  for (int r = 0; r < x.rows; ++r)
    if (x.at(r, column) > 0)
      most = std::max(most, y[static_cast<std::size_t>(r)] / x.at(r, column));
  return {0, most > 0 ? most : 1};
}

std::vector<numeric::Belief> beliefs_of(const CounterTable& table, const numeric::DenseRows& x,
                                        const std::vector<double>& y, const FitOptions& options) {
  std::vector<numeric::Belief> beliefs;
  if (!believes(options)) return beliefs;
  for (int c = 0; c < x.columns; ++c) {
    double mean = options.prior_for_all;
    for (const ComponentCost& cost : options.prior)
      if (cost.name == table.components[static_cast<std::size_t>(c)].name) mean = cost.joules;
    beliefs.push_back(mean > 0 ? numeric::Belief{mean, mean * options.deviation}
                               : unknown(x, y, c));
  }
  return beliefs;
}

Result<void> check_identifiable(const CounterTable& table, const numeric::DenseRows& x) {
  const auto name = [&](int c) {
    return "'" + table.components[static_cast<std::size_t>(c)].name + "'";
  };
  if (const auto found = numeric::dependence(x)) {
    if (found->others.empty())
      return bad_input(table.file, fmt::format("component {} is 0 in every row: nothing tells what "
                                               "it costs; leave it out, add a row that uses it, or "
                                               "give a prior",
                                               name(found->column)));
    std::vector<std::string> others;
    for (const int other : found->others) others.push_back(name(other));
    return bad_input(
        table.file,
        fmt::format(
            "component {} cannot be told from {}: in every row it is made up of them in the "
            "same way; join them, add rows where they differ, or give a prior",
            name(found->column), joined(others, ", ")));
  }
  if (x.rows > x.columns) return {};
  return bad_input(table.file, fmt::format("{} rows for {} components: at least {} are needed, or "
                                           "a prior",
                                           x.rows, x.columns, x.columns + 1));
}

// Share of the variance that is explained.
double r2_of(const std::vector<double>& measured, const std::vector<double>& predicted) {
  double mean = 0, left = 0, all = 0;
  for (const double y : measured) mean += y / static_cast<double>(measured.size());
  for (std::size_t i = 0; i < measured.size(); ++i) {
    left += std::pow(measured[i] - predicted[i], 2);
    all += std::pow(measured[i] - mean, 2);
  }
  return all > 0 ? 1 - left / all : 0;
}

struct Prepared {
  numeric::DenseRows x;
  std::vector<double> y;
  numeric::RobustOptions options;
};

Prepared prepare(const CounterTable& table, const FitOptions& options) {
  Prepared p{matrix_of(table), measured_of(table), {options.loss, options.relative, {}}};
  p.options.beliefs = beliefs_of(table, p.x, p.y, options);
  return p;
}

void add_notes(const CounterTable& table, const numeric::RobustFit& fitted, EnergyModel& model) {
  if (!fitted.converged)
    model.notes.push_back(
        fmt::format("the regression had not settled after {} steps", fitted.iterations));
  if (!table.left_out.empty())
    model.notes.push_back(fmt::format("columns in no component: {}", joined(table.left_out, ", ")));
  for (const ComponentCost& cost : model.components)
    if (cost.joules == 0)
      model.notes.push_back(fmt::format(
          "component '{}' came out as 0: the rows do not show that it costs anything", cost.name));
}

void summarise(const std::vector<Validation::Row>& rows, Validation& out) {
  std::vector<double> measured, predicted;
  for (const Validation::Row& row : rows) {
    const double error = row.predicted / row.measured - 1;
    out.mape += std::abs(error) / static_cast<double>(rows.size());
    out.bias += error / static_cast<double>(rows.size());
    if (std::abs(error) > out.worst) {
      out.worst = std::abs(error);
      out.worst_row = row.name;
    }
    measured.push_back(row.measured);
    predicted.push_back(row.predicted);
  }
  out.r2 = r2_of(measured, predicted);
}

double idle_of(const CounterTable& table, const CounterRow& row, double idle_w) {
  return table.watts ? idle_w : idle_w * row.time_s.value_or(0);
}

}  // namespace

Result<EnergyModel> fit(const CounterTable& table, const FitOptions& options) {
  CHECK(!table.rows.empty() && options.deviation > 0);
  const Prepared p = prepare(table, options);
  if (!believes(options)) TRY(check_identifiable(table, p.x));
  const numeric::RobustFit fitted = numeric::robust_fit(p.x, p.y, p.options);
  EnergyModel model;
  for (std::size_t c = 0; c < table.components.size(); ++c)
    model.components.push_back(
        {table.components[c].name, fitted.coefficients[c], fitted.standard_errors[c]});
  model.columns = table.components;
  model.watts = table.watts;
  model.loss = options.loss;
  model.rows = static_cast<int>(table.rows.size());
  model.residual_scale = fitted.scale;
  model.condition = fitted.condition;
  std::vector<double> predicted;
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    predicted.push_back(predict(model, table.rows[r].accesses));
    const double residual = 1 - predicted[r] / p.y[r];
    model.mape += std::abs(residual) / static_cast<double>(table.rows.size());
    if (fitted.weights[r] < kHalf) model.outliers.push_back({table.rows[r].name, residual});
  }
  model.r2 = r2_of(p.y, predicted);
  add_notes(table, fitted, model);
  return model;
}

double predict(const EnergyModel& model, const std::vector<double>& accesses) {
  CHECK(accesses.size() == model.components.size());
  double sum = 0;
  for (std::size_t c = 0; c < accesses.size(); ++c) sum += model.components[c].joules * accesses[c];
  return sum;
}

double prediction_error(const EnergyModel& model, const std::vector<double>& accesses) {
  CHECK(accesses.size() == model.components.size());
  double sum = 0;
  for (std::size_t c = 0; c < accesses.size(); ++c)
    sum += std::pow(model.components[c].standard_error * accesses[c], 2);
  return std::sqrt(sum);
}

Result<Validation> leave_one_out(const CounterTable& table, const FitOptions& options,
                                 double idle_w) {
  if (table.rows.size() < 2) return bad_input(table.file, "one row: nothing is left to fit to");
  Validation out;
  const std::size_t rows = table.rows.size(), parts = rows <= kLeftOutAlone ? rows : kParts;
  out.parts = rows <= kLeftOutAlone ? 0 : static_cast<int>(parts);
  out.rows.resize(rows);
  for (std::size_t part = 0; part < parts; ++part) {
    CounterTable others = table;
    others.rows.clear();
    for (std::size_t i = 0; i < rows; ++i)
      if (i % parts != part) others.rows.push_back(table.rows[i]);
    const auto model = fit(others, options);
    if (!model)
      return bad_input(
          table.at(table.rows[part]),
          fmt::format("without row '{}'{}: {}", table.rows[part].name,
                      out.parts > 0 ? " and those of its part" : "", model.error().message));
    for (std::size_t i = part; i < rows; i += parts) {
      const CounterRow& row = table.rows[i];
      const double idle = idle_of(table, row, idle_w);
      out.rows[i] = {row.name, row.measured + idle, predict(*model, row.accesses) + idle};
    }
  }
  summarise(out.rows, out);
  return out;
}

Validation validate(const EnergyModel& model, const CounterTable& table) {
  Validation out;
  for (const CounterRow& row : table.rows) {
    const double idle = idle_of(table, row, model.idle_w);
    out.rows.push_back({row.name, row.measured + idle, predict(model, row.accesses) + idle});
  }
  summarise(out.rows, out);
  return out;
}

}  // namespace partita::energy
