#include "fleet/brain/part_services.h"

#include <algorithm>
#include <array>

#include "base/form.h"
#include "base/json_writer.h"

namespace partita::fleet {
namespace {

constexpr std::array<std::string_view, 4> kOfTheNode{"rate_rps", "rates", "min_replicas",
                                                     "anti_affinity"};

std::string json_of(const Node& node) { return JsonWriter().value(node).take(); }

void tell(Form& f, const Node& written, const plan::Terms& piece,
          const std::vector<plan::Terms>& beside) {
  for (const auto& [key, value] : written.members)
    if (std::ranges::count(kOfTheNode, key) == 0) form::embedded(f, key, json_of(value));
  f.told("rate_rps", piece.rate.value);
  f.told("min_replicas", piece.min_replicas);
  std::vector<std::string> apart;
  for (const std::string& name : piece.avoid)
    if (std::ranges::count(beside, name, &plan::Terms::name) > 0) apart.push_back(name);
  if (piece.spread) apart.push_back(piece.name);
  if (!apart.empty()) f.told_list("anti_affinity", apart, {});
}

}  // namespace

PartServices::PartServices(Document document) : document_(std::move(document)) {
  const Node& root = document_.root;
  const Node* list = root.kind == Node::Kind::list ? &root : root.find("services");
  if (list == nullptr) return;
  for (const Node& one : list->items)
    if (const Node* name = one.find("name")) by_name_.emplace(name->text, &one);
}

std::string PartServices::text(const std::vector<plan::Terms>& pieces) const {
  if (pieces.empty()) return {};
  return write_form(
      [&](Form& f) {
        for (const auto& [key, value] : document_.root.members)
          if (key != "services" && key != "rates") form::embedded(f, key, json_of(value));
        f.rows("services", pieces,
               [&](Form& g, const plan::Terms& piece) {
                 if (const auto found = by_name_.find(piece.name); found != by_name_.end())
                   tell(g, *found->second, piece, pieces);
               },
               {});
      },
      Form::Style::compact);
}

}  // namespace partita::fleet
