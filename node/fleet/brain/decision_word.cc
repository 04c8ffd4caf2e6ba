#include "fleet/brain/decision_word.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/append.h"
#include "base/hash.h"
#include "base/terminal.h"

namespace partita::fleet {
namespace {

constexpr double kEnough = 1 - 1e-5;  // of a need, where others must carry it first
constexpr std::ptrdiff_t kNamed = 3;  // nodes, of many

// Until those that will carry, and do not yet, what this node carries no more have carried out
// their parts, and others have what is needed of it. Who gets more waits for nobody.
void hold_back(const Sight& sight, Part& part, const Sight::At& at) {
  if (at.grows) return;
  for (const auto& [name, other] : sight.nodes) {
    if (&other == &at || !other.counts || !other.able) continue;  // nobody waits for who cannot
    // It may have taken less meanwhile, of a part that this one came instead of.
    const bool unsure = other.pending && !other.grows && other.part->waits_for.empty();
    const bool due = std::ranges::any_of(at.held, [&](const auto& one) {
      const auto of = sight.services.find(one.first);
      if (of == sight.services.end() || !more(one.second, rate_in(at.next, one.first)))
        return false;
      const double on = rate_in(of->second.on, name);
      return more(on, rate_in(other.has, one.first)) || (on > 0 && unsure);
    });
    if (!due) continue;
    if (other.grows)
      part.waits_for.push_back({name, sight.revision});
    else if (other.pending)
      part.waits_for.push_back({name, other.part->revision});
  }
  for (const auto& [service, rate] : at.held) {
    const auto of = sight.services.find(service);
    const double next = rate_in(at.next, service);
    if (of == sight.services.end() || !more(rate, next)) continue;
    const double due = of->second.need * kEnough - next;
    if (due > 0) part.elsewhere.push_back({service, due});
  }
}

std::vector<ServiceOutlook> outlooks(const Sight& sight) {
  std::vector<ServiceOutlook> all;
  for (const auto& [name, of] : sight.services) {
    ServiceOutlook& one = all.emplace_back(ServiceOutlook{.name = name, .need_rps = of.need});
    one.on = of.on;
    for (const auto& [node, rate] : of.on) one.planned_rps += rate;
    if (of.older) one.why = "goes on by the terms that it has: " + of.unmet;
    one.unmet = of.older || (sight.missing(of) > 0 && !of.unmet.empty());
    if (of.older || sight.missing(of) <= 0) continue;
    one.margin_only = missing_of(of.need, of.by_domain, false) <= 0;
    one.why = sight.nodes.empty() ? "no node is there"
              : one.unmet         ? of.unmet
              : one.margin_only   ? "no node has room for what it needs when another is lost"
                                  : "no node has room for it";
    if (!of.why.empty()) one.why += ": " + of.why;
    for (const auto& [model, nodes] : sight.lacks)
      one.why += fmt::format("; the leader has no profiles of {}", model);
  }
  for (const auto& [node, at] : sight.nodes)
    for (const auto& [service, rate] : at.has) {
      const auto one = std::ranges::lower_bound(all, service, {}, &ServiceOutlook::name);
      if (one != all.end() && one->name == service) one->carried_rps += rate;
    }
  return all;
}

void tell(const Sight& sight, Decision& decision, const Sight::At& at, const Part& part) {
  bool urgent = false;
  std::string less, gains;
  for (const auto& [service, of] : sight.services) {
    const double was = rate_in(at.held, service), is = rate_in(at.next, service);
    // Its own part may be what is lost: then it gains what it does not carry.
    urgent = urgent || (of.lost && more(is, at.pending ? was : rate_in(at.has, service)));
    if (more(is, was)) {
      gains += fmt::format("{}{} {} req/s", gains.empty() ? "" : ", ", service, number_text(is));
    } else if (more(was, is)) {
      less += fmt::format("{}{} {} to {} req/s", less.empty() ? "" : ", ", service,
                          number_text(was), number_text(is));
    }
  }
  std::string text = part.node + ":";
  if (!gains.empty()) text += " carries " + gains;
  if (!less.empty()) text += fmt::format("{} less of {}", gains.empty() ? "" : ";", less);
  for (const Wait& wait : part.waits_for)
    text += fmt::format(", once {} has revision {}", wait.node, wait.revision);
  if (!at.cause.empty()) text += fmt::format(" ({})", at.cause);
  decision.changes.push_back(text);
  decision.urgent.push_back(urgent || at.mended);
}

}  // namespace

Decision decision_of(const Sight& sight, const std::string& leader) {
  Decision decision;
  std::string key =
      std::to_string(sight.revision);  // a yes is to what is decided now, not later again
  std::map<std::string, std::uint64_t> terms;
  for (const bool grows : {true, false})
    for (const auto& [name, at] : sight.nodes) {
      if (!at.changed || at.grows != grows) continue;
      Part part;
      part.node = name;
      part.revision = sight.revision;
      part.by = leader;
      part.cause = at.cause;
      hold_back(sight, part, at);
      part.services = sight.read.written.text(sight.pieces_at(at.next), sight.older.written());
      part.plan = *at.plan;
      Rates gave_up = at.gave_up;
      if (at.part)
        for (const Carried& one : at.part->gave_up) gave_up.emplace(one.service, one.rate_rps);
      std::erase_if(gave_up, [&](const auto& one) {
        const auto of = sight.services.find(one.first);
        return of == sight.services.end() || !of->second.is_short();
      });
      part.gave_up = carried_of(gave_up);
      tell(sight, decision, at, part);
      key += name;
      for (const auto& [service, rate] : at.next) {
        const auto [its, anew] = terms.emplace(service, 0);
        if (const auto of = sight.services.find(service); anew && of != sight.services.end())
          its->second = text_hash(sight.read.written.text({piece_of(of->second.wanted(), 1, 1)},
                                                          sight.older.written()));
        key += fmt::format("|{}={:.9g},{:x}", service, rate, its->second);
      }
      if (part.cause.empty()) part.cause = decision.changes.back();
      decision.parts.push_back(std::move(part));
    }
  decision.services = outlooks(sight);
  for (const auto& [model, nodes] : sight.lacks) {
    const std::vector named(nodes.begin(), nodes.begin() + std::min(std::ssize(nodes), kNamed));
    decision.notes.push_back(fmt::format(
        "the leader has no profiles of {}: nothing changes on {}{}", model, joined(named, ", "),
        std::ssize(nodes) > kNamed ? fmt::format(" and {} more", std::ssize(nodes) - kNamed) : ""));
  }
  if (std::string own = why_own_domains(sight.view); !own.empty())
    decision.notes.push_back(std::move(own));
  decision.digest = fmt::format("{:016x}", text_hash(key));
  return decision;
}

}  // namespace partita::fleet
