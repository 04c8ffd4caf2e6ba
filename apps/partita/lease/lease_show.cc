#include <fmt/format.h>

#include <utility>

#include "lease/lease_desk.h"

namespace partita::cli {

Error by_flag(Error error) {
  static constexpr std::pair<const char*, const char*> kFlags[] = {
      {"owner", "--for"},       {"while", "--while"},   {"ttl", "--ttl"},
      {"gpu", "--gpu-index"},   {"start", "--start"},   {"exact", "--exact"},
      {"profile", "--profile"}, {"from", "--take-from"}};
  for (const auto& [key, flag] : kFlags)
    if (error.context == key) error.context = flag;
  return error;
}

Result<Exit> show_lease(Context& context, const Output& output, const LeaseAnswer& answer) {
  if (const auto& no = answer.refused) {
    refusal(context, fmt::format("{}: {}", no->reason.subject, no->reason.detail));
    if (!output.json()) return Exit::no;
    return finish(context, {}, lease::refusal_json(*no), Exit::no);
  }
  const lease::LeaseDocument& one = answer.leases.leases.front();
  const std::string text = output.json()            ? lease::lease_json(one)
                           : output.format == "env" ? lease::lease_shell(one)
                                                    : lease::lease_text(one);
  return finish(context, output, text);
}

Result<Exit> show_returned(Context& context, const Output& output, const std::string& owner,
                           const LeaseAnswer& answer) {
  if (output.json()) return show_leases(context, output, answer);
  std::string text;
  for (const std::string& one : answer.leases.returned)
    text += fmt::format("returned what {} held\n", one);
  if (text.empty()) text = fmt::format("{} holds nothing\n", owner);
  return finish(context, output, text);
}

Result<Exit> show_leases(Context& context, const Output& output, const LeaseAnswer& answer) {
  const std::string text = output.json() ? lease::leases_json(answer.leases)
                                         : lease::leases_text(answer.leases, wall_clock_ms());
  return finish(context, output, text);
}

}  // namespace partita::cli
