#include "act/gateway_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/form_rules.h"

namespace partita::actuate {
namespace {

void describe_canary(Form& f, CanaryChoice& canary) {
  f.name("version", canary.version, "of the model");
  f.number("share", canary.share, {.high = 1, .above = true}, "of the requests");
  f.optional(canary.shadow).boolean("shadow", canary.shadow, "copies, answered to nobody");
  f.optional(canary.by_flag).boolean("by_flag", canary.by_flag, "asked for when it was started");
  f.word("state", canary.state, {"on trial", "promoted", "taken back"}, "how it does");
  f.optional(!canary.why.empty()).text("why", canary.why, "it was promoted or taken back");
}

void describe_service(Form& f, ServiceChoice& service) {
  f.name("service", service.service, "its name");
  f.optional(service.unloaded).boolean("unloaded", service.unloaded, "it takes nothing");
  f.object("canary", service.canary, describe_canary, "a version on trial");
}

void describe(Form& f, GatewayChoices& choices) {
  f.lines("  ");
  f.document("GatewayChoices");
  f.list("services", choices.services, describe_service, {.indent = "    "},
         "those of which something was decided");
  Fields* const in = f.reading();
  if (!in || in->error()) return;
  refuse_twice(*in, "services", choices.services, &ServiceChoice::service, "service");
  std::ranges::sort(choices.services, {}, &ServiceChoice::service);
}

}  // namespace

std::string choices_path(const std::string& state_dir) { return state_dir + "/choices.json"; }

std::string choices_json(const GatewayChoices& choices) { return write_form(choices, describe); }

Result<GatewayChoices> parse_choices(const std::string& file, std::string_view text) {
  return read_form<GatewayChoices>(file, text, describe);
}

DocumentKind choices_kind() {
  return document_kind<GatewayChoices, describe, "GatewayChoices",
                       "what was decided while a gateway ran">();
}

}  // namespace partita::actuate
