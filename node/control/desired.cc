#include "control/desired.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "base/hash.h"

namespace partita::control {
namespace {

constexpr const char* kFileNotice = "services_file";

// What an agent cannot do with a services file that can be planned for.
Result<void> check_servable(const World& world, const std::vector<plan::Service>& services,
                            const std::string& file = "services") {
  for (const plan::Service& one : services) {
    if (one.pipeline) continue;  // its steps are services
    const std::string at = fmt::format("{}:{}", file, one.line);
    const bool known = std::ranges::any_of(world.profiles, [&](const plan::FleetEntry& entry) {
      return one.tokens ? entry.engines.contains(one.model) : entry.profiles.contains(one.model);
    });
    if (known) continue;
    return bad_input(
        at, one.tokens ? fmt::format("service '{}': no points of the language model '{}' were "
                                     "measured (docs/llm.md)",
                                     one.name, one.model)
                       : fmt::format("service '{}': there is no profile of model '{}'", one.name,
                                     one.model));
  }
  return {};
}

Result<void> check_survive(const forms::ServicesFile& file, const std::string& name) {
  for (const plan::Service& one : file.services)
    if (file.survive > 0 && one.models)
      return bad_input(fmt::format("{}:{}", name, one.line),
                       fmt::format("service '{}' has 'models', which is not planned with the loss "
                                   "of a GPU (survive)",
                                   one.name));
  return {};
}

}  // namespace

Result<void> take_lengths(std::vector<plan::Service>& services, const decide::TokenTraces& known,
                          const std::string& file) {
  for (plan::Service& one : services) {
    auto* const trace = one.tokens ? std::get_if<plan::TokenTrace>(&one.tokens->lengths) : nullptr;
    if (trace == nullptr || trace->requests) continue;
    const auto found = known.find(trace->file);
    if (found == known.end())
      return bad_input(fmt::format("{}:{}", file, trace->line),
                       fmt::format("service '{}': this agent does not have the trace '{}': it has "
                                   "those that its services file (--services) named when it began; "
                                   "say the lengths' mean and cv, or start it again",
                                   one.name, trace->file));
    trace->requests = found->second;
  }
  return {};
}

Result<forms::ServicesFile> wanted_services(const std::string& text,
                                            const decide::TokenTraces& known,
                                            const std::string& file) {
  auto parsed = TRY(forms::parse_services_file(file, text));
  for (const plan::Service& one : parsed.services) {
    const auto* trace = std::get_if<plan::TraceArrivals>(&one.traffic.arrivals);
    if (trace == nullptr) continue;
    return bad_input(fmt::format("{}:{}", file, trace->line),
                     fmt::format("service {} has a trace, which an agent does not read; say what "
                                 "it is like by 'arrivals', such as {{cv: 2}}",
                                 one.name));
  }
  TRY(check_survive(parsed, file));
  TRY(take_lengths(parsed.services, known, file));
  return parsed;
}

Desired::Desired(const World& world, DesiredKept& kept, Report& report)
    : world_(world), kept_(kept), report_(report) {
  if (!kept_.mode_set) kept_.mode = world_.settings.mode;
  load();
}

Result<void> Desired::check_file(const std::string& text) const {
  const auto parsed = TRY(wanted_services(text, world_.token_traces, world_.services_file));
  return check_servable(world_, parsed.services, world_.services_file);
}

bool Desired::hear_file(const std::optional<std::string>& text, const std::string& fault) {
  if (!text && fault.empty()) return false;
  const bool same = text && !text->empty() && *text == kept_.services_file;
  Result<void> fine;
  if (!text)
    fine = bad_input(world_.services_file, fault);
  else if (!same)
    fine = check_file(*text);
  refused_file_.reset();
  if (!fine) {
    refused_file_ = fine.error();
    report_.tell_anew(NoticeKind::other, kFileNotice, "",
                      "the services file is not taken: " + to_string(fine.error()));
    return false;
  }
  report_.over(kFileNotice);
  if (same) return false;
  kept_.services_file = kept_.services = *text;
  kept_.services_by = "file";
  load();
  record("file", "the services file was changed");
  return true;
}

Reply Desired::set_none(const std::string& user) {
  kept_.services.clear();
  kept_.services_by = kNobodys;
  load();
  record(user, fmt::format("{} wants no services any more", user));
  return Receipt{0, "no services are wanted now; their instances go"};
}

Reply Desired::set(const SetServices& request, const std::string& user) {
  if (request.none) return set_none(user);
  const auto parsed = TRY(wanted_services(request.text, world_.token_traces));
  TRY(check_servable(world_, parsed.services));
  kept_.services = request.text;
  kept_.services_by = user;
  load();
  record(user, fmt::format("{} sent other services", user));
  return Receipt{0,
                 fmt::format("{} services are wanted now; a plan follows", now_.services.size())};
}

void Desired::set_mode(Mode mode, const std::string& user) {
  if (kept_.mode != mode)
    report_.record(history::EventKind::desired,
                   {.user = user,
                    .cause = fmt::format("{} set the mode {}", user, to_string(mode)),
                    .detail = fmt::format("it was {}", to_string(kept_.mode))});
  kept_.mode = mode;
  kept_.mode_set = true;
}

void Desired::load() {
  now_ = {};
  now_.key = fmt::format("{:016x}", text_hash(kept_.services));
  now_.who = kept_.services_by == "file" ? "their file" : kept_.services_by;
  if (kept_.services.empty()) return;
  auto parsed = wanted_services(kept_.services, world_.token_traces);
  if (!parsed) return;
  now_.services = std::move(parsed->services);
  std::ranges::sort(now_.services, {}, &plan::Service::name);
  now_.survive = world_.settings.survive >= 0 ? world_.settings.survive : parsed->survive;
}

void Desired::record(const std::string& user, const std::string& cause) {
  report_.record(history::EventKind::desired,
                 {.user = user,
                  .cause = cause,
                  .detail = fmt::format("{} services are wanted", now_.services.size()),
                  .documents = {{"desired", kept_.services}}});
}

}  // namespace partita::control
