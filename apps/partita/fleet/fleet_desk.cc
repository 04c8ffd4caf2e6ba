#include "fleet/fleet_desk.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json_writer.h"
#include "base/nearest.h"
#include "control/desired.h"
#include "decide/traces.h"
#include "fleet/brain/counting.h"
#include "fleet/brain/documents.h"
#include "fleet/brain/part_services.h"
#include "fleet/brain/status.h"
#include "fleet/etcd/fleet_agent.h"
#include "node/devices.h"

namespace partita::cli {
namespace {

constexpr int kTries = 10;  // of a change that others make too

std::string with(const char* before, const std::string& word) {
  return word.empty() ? word : before + word;
}

}  // namespace

Result<FleetWishes> parse_fleet_wishes(const std::string& file, const std::string& text,
                                       Files* files) {
  auto document = TRY(parse_document(file, text));
  std::map<std::string, int> lines;
  const Node* const list = document.root.find("services");
  for (const Node& one : list ? list->items : document.root.items)
    if (const Node* name = one.find("name")) lines[name->text] = one.line;
  const bool traces = files != nullptr && TRY(decide::write_lengths(*files, document));
  FleetWishes wishes;
  wishes.file = file;
  if (const Node* power = document.root.find("power")) {
    wishes.power = TRY(fleet::read_power(document, *power));
    std::erase_if(document.root.members, [](const auto& one) { return one.key == "power"; });
    if (document.root.members.empty()) return wishes;
  }
  std::map<std::string, int> named;  // lines of services that priorities name
  if (const Node* all = document.root.find("priorities")) {
    wishes.priorities = TRY(fleet::read_priorities(document, *all));
    for (const Node& one : all->items)
      if (const Node* name = one.find("service")) named[name->text] = one.line;
    std::erase_if(document.root.members, [](const auto& one) { return one.key == "priorities"; });
  }
  // JSON is read by leaders much faster than YAML.
  wishes.services = JsonWriter().value(document.root).take();
  const bool whole = !traces && !wishes.power && wishes.priorities.empty();
  const std::string& asked = whole ? text : *wishes.services;
  auto read = TRY(fleet::parse_fleet_services(file, asked));
  if (auto fine = control::wanted_services(asked); !fine)
    return bad_input(file, to_string(fine.error()));
  for (plan::Terms& service : read.services) {
    if (const auto its = lines.find(service.name); its != lines.end()) service.line = its->second;
    TRY(fleet::parse_fleet_word(fmt::format("{}:{}: name", file, service.line), service.name));
  }
  std::vector<std::string> names;
  for (const auto& [name, line] : lines) names.push_back(name);
  for (const auto& [name, line] : named)
    if (!lines.contains(name))
      return bad_input(
          fmt::format("{}:{}", file, line),
          fmt::format("priorities: there is no service '{}'{}", name, did_you_mean(name, names)));
  wishes.read = std::move(read.services);
  return wishes;
}

void take_manner(fleet::Wanted& wanted, const FleetManner& manner) {
  if (!manner.survive.empty()) {
    const auto word = std::ranges::find(fleet::kSurviveWords, manner.survive);
    wanted.survive = static_cast<fleet::Survive>(word - fleet::kSurviveWords.begin());
  }
  if (!manner.mode.empty())
    wanted.approval =
        manner.mode == "approve" ? fleet::Approval::approve : fleet::Approval::automatic;
}

Result<void> take_power(fleet::FleetPower& now, const fleet::FleetPower& wanted,
                        const fleet::FleetView& view) {
  for (const fleet::FleetPoint& one : wanted.tree)
    if (view.nodes.contains(one.name))
      return bad_input("power", fmt::format("a node of the fleet is called '{}', too: `drain {}` "
                                            "is to mean one of them",
                                            one.name, one.name));
  std::vector<std::string> dead = std::move(now.failed);
  now = wanted;
  std::erase_if(dead, [&](const std::string& name) {
    return std::ranges::find(now.tree, name, &fleet::FleetPoint::name) == now.tree.end();
  });
  if (now.failed.empty()) now.failed = std::move(dead);
  return {};
}

Result<void> FleetDesk::read() {
  const auto range = TRY(store_.range({keys_.root}));
  view_ = {};
  versions_ = {};
  for (const fleet::KeyValue& one : range.all) {
    view_.hear(keys_, one.key, one.value, one.version);
    versions_[one.key] = one.version;
  }
  return {};
}

// Changes what is wanted or who may draw what, whoever else does at the same time; the history says
// who did `what`.
template <class Document>
Result<Document> FleetDesk::change(const std::string& key, const char* called,
                                   const std::string& what,
                                   std::optional<Document> fleet::FleetView::*document,
                                   const std::function<Result<void>(Document&)>& how) {
  using enum fleet::Condition::What;
  for (int round = 0; round < kTries; ++round) {
    Document now = (view_.*document).value_or(Document{});
    TRY(how(now));
    now.by = user_;
    const fleet::FleetEvent event{wall_clock_ms(), 0, user_, what};
    const std::string event_key = keys_.event(event, "u");
    std::vector<fleet::Change> changes = fleet::oldest_events(view_, keys_);
    changes.push_back({key, fleet::write(now), 0});
    changes.push_back({event_key, fleet::write(event), 0});
    const auto committed = store_.commit(
        {{{version, key, versions_[key]}, {version, event_key, 0}}, std::move(changes)});
    if (!committed && committed.error().code == ErrorCode::environment)
      return environment_error("", to_string(committed.error()) + "; it may have been written");
    if (!committed) return failed(committed.error());
    if (committed->done) return now;
    TRY(read());
  }
  return environment_error("", fmt::format("others change {} all the time", called));
}

Result<fleet::FleetPower> FleetDesk::change_power(
    const std::string& what, const std::function<Result<void>(fleet::FleetPower&)>& how) {
  return change(keys_.power(), "who may draw what", what, &fleet::FleetView::power, how);
}

Result<fleet::Wanted> FleetDesk::change_wanted(
    const std::string& what, const std::function<Result<void>(fleet::Wanted&)>& how) {
  return change(keys_.wanted(), "what is wanted", what, &fleet::FleetView::wanted, how);
}

// What is written is carried out by who leads.
std::string FleetDesk::when(const std::string& sentence) const {
  return view_.leader
             ? sentence
             : sentence + "; it is written, and is carried out once a node leads (none does now)";
}

Result<void> FleetDesk::wanted_is_read() const {
  constexpr const char* kAnew = "; `partita apply FILE --fleet` writes it anew";
  if (const auto damaged = view_.damaged.find(keys_.wanted()); damaged != view_.damaged.end())
    return bad_input("", damaged->second + kAnew);
  const auto carrying = std::ranges::find_if(
      view_.nodes, [](const auto& one) { return !one.second.carries.empty(); });
  if (fleet::says_what_is_wanted(view_) || carrying == view_.nodes.end()) return {};
  return bad_input("", fmt::format("{} carries services, and the store does not say which are "
                                   "wanted: it may have lost its data{}",
                                   carrying->first, kAnew));
}

Result<std::vector<std::string>> FleetDesk::apply(const FleetWishes& wishes,
                                                  const FleetManner& manner,
                                                  const fleet::FleetGround& ground) {
  TRY(fleet::check_carriable(ground, view_, wishes.read, wishes.file));
  std::vector<std::string> said;
  if (wishes.power) {
    const std::string what = fmt::format("applied a tree of power of {} points and {} nodes",
                                         wishes.power->tree.size(), wishes.power->nodes.size());
    TRY(change_power(
        what, [&](fleet::FleetPower& now) { return take_power(now, *wishes.power, view_); }));
    said.push_back(when(fmt::format("fleet {}: its power is to be divided so", name_)));
    for (const fleet::FleetLoad& one : wishes.power->nodes)
      if (!view_.nodes.contains(one.node))
        said.push_back(fmt::format("no node is called '{}' now: it counts with its {:.0f} W",
                                   one.node, one.most_w));
    if (!wishes.services) return said;
  }
  const auto services = std::ranges::count(wishes.read, false, &plan::Service::member);
  const std::string what =
      fmt::format("applied {} service{}{}{}", services, services == 1 ? "" : "s",
                  with(", survive ", manner.survive), with(", mode ", manner.mode));
  const auto wanted = TRY(change_wanted(what, [&](fleet::Wanted& now) -> Result<void> {
    now.services = *wishes.services;
    now.priorities = wishes.priorities;
    take_manner(now, manner);
    return {};
  }));
  said.push_back(when(fmt::format("fleet {}: wanted{}", name_,
                                  wanted.approval == fleet::Approval::approve
                                      ? "; what it changes waits for `partita approve --fleet`"
                                  : view_.leader ? "; its leader plans it now"
                                                 : "")));
  view_.wanted = wanted;
  if (const std::string own = fleet::why_own_domains(view_); !own.empty()) said.push_back(own);
  return said;
}

Result<std::string> FleetDesk::approve(const std::string& digest) {
  const auto& proposal = view_.proposal;
  if (!proposal) return failed({ErrorCode::infeasible, "no decision waits for a person", ""});
  if (!digest.empty() && digest != proposal->digest)
    return failed({ErrorCode::infeasible,
                   fmt::format("{} waits for a person, not {}", proposal->digest, digest), ""});
  const std::string said_yes = proposal->digest;
  TRY(wanted_is_read());
  TRY(change_wanted("approved " + said_yes, [&](fleet::Wanted& now) -> Result<void> {
    now.approved = said_yes;
    return {};
  }));
  return when(fmt::format("{} may be written", said_yes));
}

Result<std::string> FleetDesk::drain(const std::string& name, bool back) {
  const auto mark = [&](std::vector<std::string>& all) -> Result<void> {
    std::erase(all, name);
    if (!back) all.push_back(name);
    return {};
  };
  if (view_.power && std::ranges::find(view_.power->tree, name, &fleet::FleetPoint::name) !=
                         view_.power->tree.end()) {
    TRY(change_power(fmt::format("said that {} is {}", name, back ? "live again" : "dead"),
                     [&](fleet::FleetPower& now) { return mark(now.failed); }));
    return when(back ? fmt::format("{} is live again", name)
                     : fmt::format("nothing is to be drawn from {} any more", name));
  }
  if (!view_.nodes.contains(name) && !view_.parts.contains(name))
    return bad_input("NODE", fmt::format("the fleet has no node '{}'", name));
  TRY(wanted_is_read());
  TRY(change_wanted(
      back ? fmt::format("let {} carry services again", name) : fmt::format("drained {}", name),
      [&](fleet::Wanted& now) { return mark(now.drained); }));
  return when(back ? fmt::format("{} may carry services again", name)
                   : fmt::format("{}: its services go to other nodes, then it carries none", name));
}

Result<std::string> FleetDesk::explain(const std::string& of) const {
  return fleet::explain(view_, of);
}

}  // namespace partita::cli
