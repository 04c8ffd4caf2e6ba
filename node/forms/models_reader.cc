#include "forms/models_reader.h"

#include <fmt/format.h>

#include <set>

#include "profile/csv.h"

namespace partita::forms {
namespace {

constexpr Range kWeights{.above = true};

plan::SetModel read_model(Fields& fields, const Node& item) {
  if (item.kind != Node::Kind::object) return {fields.name_of(item, "a name in 'list'")};
  Fields one(fields, item);
  one.only({"name", "weight"});
  plan::SetModel model{one.name("name")};
  if (one.has("weight")) model.weight = one.number("weight", kWeights);
  return model;
}

Result<std::vector<plan::SetModel>> of_csv(const std::string& file, std::string_view text) {
  const auto csv = TRY(profile::parse_csv(file, text));
  TRY(require_columns(csv, {"model"}, {"weight"}));
  const int name = csv.column("model"), weight = csv.column("weight");
  std::vector<plan::SetModel> models;
  for (const profile::CsvRow& row : csv.rows) {
    const auto own =
        TRY(weight < 0 ? Result<double>(1) : csv_number(csv, row, weight, {0, kMaxQuantity}));
    if (own == 0) return bad_input(csv.at(row), "'weight' must be above 0");
    models.push_back({row.cells[static_cast<std::size_t>(name)], own});
  }
  return models;
}

std::vector<plan::SetModel> read_file(Fields& fields, const FileText& files) {
  const std::string file = fields.text("file");
  if (fields.error()) return {};
  if (!files) {
    fields.refuse("file", "'models' cannot name a file here: list them");
    return {};
  }
  const Result<std::string> text = files(file);
  auto models = text ? of_csv(file, *text) : failed(text.error());
  if (models) return *std::move(models);
  fields.refuse("file", fmt::format("'models': {}", to_string(models.error())));
  return {};
}

std::vector<plan::SetModel> read_list(Fields& fields) {
  std::vector<plan::SetModel> models;
  for (const Node& item : fields.list("list", plan::kMostSetModels)) {
    models.push_back(read_model(fields, item));
    if (fields.error()) break;
  }
  return models;
}

void check(Fields& fields, const Service& service) {
  const plan::ModelSet& set = *service.models;
  if (set.models.empty() || set.models.size() > plan::kMostSetModels)
    return fields.refuse(fields.node(), fmt::format("'models' has {} of them, must be 1 to {}",
                                                    set.models.size(), plan::kMostSetModels));
  std::set<std::string_view> names;
  for (const plan::SetModel& one : set.models)
    if (one.name.empty() || !names.insert(one.name).second)
      return fields.refuse(fields.node(), one.name.empty()
                                              ? "'models' has one without a name"
                                              : fmt::format("'models' has '{}' twice", one.name));
  if (!plan::is_poisson(service.traffic.arrivals))
    fields.refuse(fields.node(), "'models' is planned for Poisson arrivals alone");
}

}  // namespace

void read_models(Fields& fields, Service& service, const FileText& files) {
  Fields own = fields.object("models");
  own.only({"list", "file", "memory_mib", "reserve_mib", "load_ms", "cold_ms"});
  plan::ModelSet& set = service.models.emplace();
  set.memory = Mib{own.number("memory_mib", kPositive)};
  if (own.has("reserve_mib")) set.reserve = Mib{own.number("reserve_mib", kNotNegative)};
  set.load = Millis{own.number("load_ms", kNotNegative)};
  if (own.has("cold_ms")) set.cold = Millis{own.number("cold_ms", kPositive)};
  if (own.has("list") == own.has("file"))
    own.refuse(own.node(), "'models' needs one of 'list' and 'file'");
  if (!own.error()) set.models = own.has("list") ? read_list(own) : read_file(own, files);
  if (!own.error()) check(own, service);
}

}  // namespace partita::forms
