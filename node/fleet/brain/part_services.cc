#include "fleet/brain/part_services.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/form.h"
#include "base/json_writer.h"
#include "forms/pipeline_form.h"

namespace partita::fleet {
namespace {

constexpr std::array<std::string_view, 5> kOfTheNode{"rate_rps", "rates", "min_replicas",
                                                     "anti_affinity", "priority"};

std::string json_of(const Node& node) { return JsonWriter().value(node).take(); }

void tell(Form& f, const Node& written, const plan::Terms& piece,
          const std::vector<plan::Terms>& beside) {
  for (const auto& [key, value] : written.members)
    if (std::ranges::count(kOfTheNode, key) == 0) form::embedded(f, key, json_of(value));
  f.told("rate_rps", piece.rate.value);
  if (!piece.pipeline) f.told("min_replicas", piece.min_replicas);
  if (piece.priority != 0) f.told("priority", piece.priority);
  std::vector<std::string> apart;
  for (const std::string& name : piece.avoid)
    if (std::ranges::count(beside, name, &plan::Terms::name) > 0) apart.push_back(name);
  if (piece.spread) apart.push_back(piece.name);
  if (!apart.empty()) f.told_list("anti_affinity", apart, {});
}

// Why a service cannot be kept on many nodes; empty: it can.
std::string unfit(const plan::Terms& service, const std::vector<plan::Terms>& all,
                  const PartServices& written) {
  if (!service.member && !written.has(service.name))
    return fmt::format(
        "'{}' is a bucket of a service, which a fleet does not keep: write a service "
        "for each length",
        service.name);
  const auto* const trace =
      service.tokens ? std::get_if<plan::TokenTrace>(&service.tokens->lengths) : nullptr;
  if (trace && !trace->requests)
    return fmt::format(
        "service '{}': nodes do not have the trace '{}'; 'partita fleet apply' writes its lengths "
        "in its place",
        service.name, trace->file);
  if (!service.pipeline) return {};
  for (const plan::PipelineStep& step : service.pipeline->steps)
    if (const auto of = std::ranges::find(all, step.service, &plan::Terms::name); !of->member)
      return fmt::format(
          "pipeline '{}': its step '{}' is a service with clients of its own, which "
          "a fleet may put on another node; a step is to be a model here, and no service of that "
          "name",
          service.name, step.service);
  return {};
}

}  // namespace

Result<forms::ServicesFile> parse_fleet_services(const std::string& file, const std::string& text) {
  auto document = parse_document(file, text);
  if (!document) return failed(document.error());
  auto read = forms::parse_services_file(file, text);
  if (!read) return failed(read.error());
  const PartServices written(*std::move(document));
  for (const plan::Terms& service : read->services)
    if (const std::string why = unfit(service, read->services, written); !why.empty())
      return bad_input(fmt::format("{}:{}", file, service.line), why);
  read->services = forms::own_demands(read->services);
  return read;
}

Result<std::shared_ptr<const forms::ServicesFile>> ServicesRead::of(const std::string& text) {
  if (file_ && text == text_) return file_;
  forms::ServicesFile file;
  if (!text.empty()) file = TRY(parse_fleet_services("wanted", text));
  file_ = std::make_shared<const forms::ServicesFile>(std::move(file));
  text_ = text;
  return file_;
}

std::vector<plan::Terms> with_steps(std::vector<plan::Terms> pieces) {
  const auto refused = forms::add_members(pieces);
  CHECK(!refused);  // steps of a fleet's pipelines are members
  return pieces;
}

bool PartServices::has(const std::string& service) const { return by_name_.contains(service); }

PartServices::PartServices(Document document) : document_(std::move(document)) {
  const Node& root = document_.root;
  const Node* list = root.kind == Node::Kind::list ? &root : root.find("services");
  if (list == nullptr) return;
  for (const Node& one : list->items)
    if (const Node* name = one.find("name")) by_name_.emplace(name->text, &one);
}

std::string PartServices::text(const std::vector<plan::Terms>& pieces,
                               const std::map<std::string, PartServices>& instead) const {
  if (pieces.empty()) return {};
  return write_form(
      [&](Form& f) {
        for (const auto& [key, value] : document_.root.members)
          if (key != "services" && key != "rates") form::embedded(f, key, json_of(value));
        f.rows("services", pieces,
               [&](Form& g, const plan::Terms& piece) {
                 const auto other = instead.find(piece.name);
                 const auto& by_name = other == instead.end() ? by_name_ : other->second.by_name_;
                 if (const auto found = by_name.find(piece.name); found != by_name.end())
                   tell(g, *found->second, piece, pieces);
               },
               {});
      },
      Form::Style::compact);
}

}  // namespace partita::fleet
