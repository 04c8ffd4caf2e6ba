#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "agent/agent_world.h"
#include "base/document.h"
#include "base/input.h"
#include "base/json_writer.h"
#include "commands.h"
#include "control/desired.h"
#include "decide/input.h"
#include "flags.h"
#include "fleet/brain/documents.h"
#include "fleet/brain/part_services.h"
#include "fleet/brain/status.h"
#include "fleet/etcd/fleet_agent.h"
#include "fleet/fleet_place.h"
#include "past/past.h"

namespace partita::cli {
namespace {

constexpr int kTries = 10;  // of a change that others make too

struct FleetCommandFlags {
  FleetFlags place;
  std::string config, profiles, catalogue, file, word, survive, mode;
  bool back = false;
  Output output;
};

// A fleet's store, and what is in it.
struct Reached {
  control::AgentFile file;
  std::unique_ptr<fleet::EtcdStore> store;
  fleet::Keys keys;
  fleet::FleetView view = {};
  long wanted_version = 0;

  Result<void> read() {
    const auto range = TRY(store->range(keys.root));
    view = {};
    wanted_version = 0;
    for (const fleet::KeyValue& one : range.all) {
      view.hear(keys, one.key, one.value, one.version);
      if (one.key == keys.wanted()) wanted_version = one.version;
    }
    return {};
  }
};

Result<Reached> reach(Context& context, const FleetCommandFlags& flags) {
  auto file = TRY(load_agent_file(context, flags.config));
  auto place = TRY(settled_fleet(file.fleet, flags.place));
  if (place.endpoints.empty())
    return bad_input("--fleet", "is required: URLs of etcd, or --settings with 'fleet'");
  file.fleet = std::move(place);
  auto store = TRY(open_fleet(context, file.fleet));
  const fleet::Keys keys(file.fleet.name);
  Reached reached{std::move(file), std::move(store), keys};
  TRY(reached.read());
  return reached;
}

std::string user() {
  const char* name = std::getenv("USER");
  return name == nullptr || *name == 0 ? "somebody" : name;
}

// Changes who may draw what, whoever else does at the same time.
template <class Change>
Result<void> change_power(Reached& reached, const Change& change) {
  for (int turn = 0; turn < kTries; ++turn) {
    const auto range = TRY(reached.store->range(reached.keys.power()));
    const long version = range.all.empty() ? 0 : range.all.front().version;
    fleet::FleetPower power = reached.view.power.value_or(fleet::FleetPower{});
    change(power);
    power.by = user();
    const auto committed = TRY(
        reached.store->commit({{{fleet::Condition::What::version, reached.keys.power(), version}},
                               {{reached.keys.power(), write(power), 0}}}));
    if (committed.done) return {};
    if (auto read = reached.read(); !read) return failed(read.error());
  }
  return environment_error("", "others change who may draw what all the time");
}

// Changes what is wanted, whoever else does at the same time.
template <class Change>
Result<fleet::Wanted> change_wanted(Reached& reached, const Change& change) {
  for (int turn = 0; turn < kTries; ++turn) {
    fleet::Wanted wanted = reached.view.wanted.value_or(fleet::Wanted{});
    TRY(change(wanted));
    wanted.by = user();
    const auto committed = TRY(reached.store->commit(
        {{{fleet::Condition::What::version, reached.keys.wanted(), reached.wanted_version}},
         {{reached.keys.wanted(), write(wanted), 0}}}));
    if (committed.done) return wanted;
    if (auto read = reached.read(); !read) return failed(read.error());
  }
  return environment_error("", "others change what is wanted all the time");
}

Result<Exit> run_status(Context& context, const FleetCommandFlags& flags) {
  const auto reached = TRY(reach(context, flags));
  const auto status = TRY(fleet::status_of(reached.view, reached.file.fleet.name));
  return finish(context, flags.output,
                flags.output.json() ? status_json(status) : status_text(status));
}

// What a file says that people write: services, who may draw how much, or both.
struct Wishes {
  std::optional<std::string> services;
  std::optional<fleet::FleetPower> power;
  std::map<std::string, int> priorities = {};  // of the services
};

Result<Wishes> wishes_of(Context& context, const std::string& path) {
  const auto text = TRY(read_input(context.files, "--services", path));
  auto document = TRY(parse_document(path, text));
  Wishes wishes;
  if (const Node* power = document.root.find("power")) {
    wishes.power = TRY(fleet::read_power(document, *power));
    std::erase_if(document.root.members, [](const auto& one) { return one.key == "power"; });
    if (document.root.members.empty()) return wishes;
  }
  if (const Node* list = document.root.find("priorities")) {
    wishes.priorities = TRY(fleet::read_priorities(document, *list));
    std::erase_if(document.root.members, [](const auto& one) { return one.key == "priorities"; });
  }
  // JSON is read by leaders much faster than YAML.
  wishes.services = JsonWriter().value(document.root).take();
  const bool whole = !wishes.power && wishes.priorities.empty();
  const std::string& asked = whole ? text : *wishes.services;
  if (auto fine = control::wanted_services(asked); !fine)
    return bad_input(path, to_string(fine.error()));
  TRY(fleet::parse_fleet_services(path, asked));
  return wishes;
}

fleet::Survive survive_of(const std::string& word) {
  const std::vector<std::string> words{"none", "node", "rack", "zone"};
  return static_cast<fleet::Survive>(std::ranges::find(words, word) - words.begin());
}

void take_flags(fleet::Wanted& wanted, const FleetCommandFlags& flags) {
  if (!flags.survive.empty()) wanted.survive = survive_of(flags.survive);
  if (!flags.mode.empty())
    wanted.approval =
        flags.mode == "approve" ? fleet::Approval::approve : fleet::Approval::automatic;
}

Result<Exit> run_apply(Context& context, const FleetCommandFlags& flags) {
  const auto wishes = TRY(wishes_of(context, flags.file));
  auto reached = TRY(reach(context, flags));
  if (wishes.power) {
    const auto done = change_power(reached, [&](fleet::FleetPower& now) {
      std::vector<std::string> dead = std::move(now.failed);
      now = *wishes.power;
      std::erase_if(dead, [&](const std::string& name) {
        return std::ranges::find(now.tree, name, &fleet::FleetPoint::name) == now.tree.end();
      });
      if (now.failed.empty()) now.failed = std::move(dead);
    });
    if (!done) return failed(done.error());
    say(context,
        fmt::format("fleet {}: its leader divides the power now\n", reached.file.fleet.name));
    if (!wishes.services) return Exit::done;
  }
  const auto wanted = change_wanted(reached, [&](fleet::Wanted& now) -> Result<void> {
    now.services = *wishes.services;
    now.priorities = wishes.priorities;
    take_flags(now, flags);
    return {};
  });
  if (!wanted) return failed(wanted.error());
  say(context, fmt::format("fleet {}: {}\n", reached.file.fleet.name,
                           wanted->approval == fleet::Approval::approve
                               ? "wanted; what it changes waits for `partita approve --fleet`"
                               : "wanted; its leader plans it now"));
  return Exit::done;
}

// What a leader would decide now, with the profiles that are here.
Result<Exit> run_plan(Context& context, const FleetCommandFlags& flags) {
  auto reached = TRY(reach(context, flags));
  fleet::Wanted wanted = reached.view.wanted.value_or(fleet::Wanted{});
  if (!flags.file.empty()) {
    auto wishes = TRY(wishes_of(context, flags.file));
    if (wishes.services) {
      wanted.services = *std::move(wishes.services);
      wanted.priorities = std::move(wishes.priorities);
    }
  }
  take_flags(wanted, flags);
  reached.view.wanted = wanted;
  if (!flags.profiles.empty()) reached.file.profiles = flags.profiles;
  const auto catalogue = TRY(decide::load_catalogue(context.files, flags.catalogue));
  std::vector<std::string> models;
  for (const auto& [name, node] : reached.view.nodes)
    for (const fleet::NodeGpu& gpu : node.gpus)
      if (std::ranges::count(models, gpu.model) == 0) models.push_back(gpu.model);
  const auto world = TRY(agent_world(context, reached.file, catalogue, models));
  fleet::Leader leader(
      {.profiles = world.profiles, .rule = world.rule, .max_processes = world.max_processes});
  const auto decision = TRY(leader.decide(reached.view, "plan"));
  const bool short_of = std::ranges::any_of(
      decision.services, [](const fleet::ServiceOutlook& one) { return !one.why.empty(); });
  return finish(context, flags.output,
                flags.output.json() ? decision_json(decision) : decision_text(decision),
                short_of ? Exit::no : Exit::done);
}

Result<Exit> run_approve(Context& context, const FleetCommandFlags& flags) {
  auto reached = TRY(reach(context, flags));
  const auto& proposal = reached.view.proposal;
  if (!proposal) return failed({ErrorCode::infeasible, "no decision waits for a person", ""});
  if (!flags.word.empty() && flags.word != proposal->digest)
    return failed({ErrorCode::infeasible,
                   fmt::format("{} waits for a person, not {}", proposal->digest, flags.word), ""});
  const std::string digest = proposal->digest;
  const auto done = change_wanted(reached, [&](fleet::Wanted& now) -> Result<void> {
    now.approved = digest;
    return {};
  });
  if (!done) return failed(done.error());
  say(context, fmt::format("{} may be written\n", digest));
  return Exit::done;
}

// A feed (PDU, rack) is dead, or shall be; or it is back.
Result<Exit> run_feed(Context& context, const FleetCommandFlags& flags, Reached& reached) {
  const auto done = change_power(reached, [&](fleet::FleetPower& now) {
    std::erase(now.failed, flags.word);
    if (!flags.back) now.failed.push_back(flags.word);
  });
  if (!done) return failed(done.error());
  say(context, flags.back ? fmt::format("{} is live again\n", flags.word)
                          : fmt::format("nothing is to be drawn from {} any more\n", flags.word));
  return Exit::done;
}

Result<Exit> run_drain(Context& context, const FleetCommandFlags& flags) {
  auto reached = TRY(reach(context, flags));
  if (reached.view.power &&
      std::ranges::find(reached.view.power->tree, flags.word, &fleet::FleetPoint::name) !=
          reached.view.power->tree.end())
    return run_feed(context, flags, reached);
  if (!reached.view.nodes.contains(flags.word) && !reached.view.parts.contains(flags.word))
    return bad_input("NODE", fmt::format("the fleet has no node '{}'", flags.word));
  const auto done = change_wanted(reached, [&](fleet::Wanted& now) -> Result<void> {
    std::erase(now.drained, flags.word);
    if (!flags.back) now.drained.push_back(flags.word);
    return {};
  });
  if (!done) return failed(done.error());
  say(context,
      flags.back
          ? fmt::format("{} may carry services again\n", flags.word)
          : fmt::format("{}: its services go to other nodes, then it carries none\n", flags.word));
  return Exit::done;
}

Result<Exit> run_explain(Context& context, const FleetCommandFlags& flags) {
  auto reached = TRY(reach(context, flags));
  std::string text;
  for (const auto& [name, part] : reached.view.parts) {
    const fleet::Rates rates = fleet::rates_of(part);
    if (!flags.word.empty() && flags.word != name && !rates.contains(flags.word)) continue;
    text += fmt::format("{}, revision {} by {}: {}\n", name, part.revision, part.by, part.cause);
    for (const auto& [service, rate] : rates)
      if (flags.word.empty() || flags.word == name || flags.word == service)
        text += fmt::format("  {} {:.4g} req/s\n", service, rate);
    for (const fleet::Wait& wait : part.waits_for)
      text += fmt::format("  once {} has carried out revision {}\n", wait.node, wait.revision);
  }
  if (text.empty())
    return bad_input("NODE|SERVICE", flags.word.empty()
                                         ? "the fleet has no parts yet"
                                         : fmt::format("no part is of '{}'", flags.word));
  return finish(context, flags.output, text);
}

Result<Exit> run_history(Context& context, const FleetCommandFlags& flags) {
  auto reached = TRY(reach(context, flags));
  std::string text;
  for (const auto& [key, one] : reached.view.history)
    text += flags.output.json()
                ? write(one) + "\n"
                : fmt::format("{}  {}  {}{}\n", local_time(one.time_ms), one.by,
                              one.revision > 0 ? fmt::format("revision {}: ", one.revision) : "",
                              one.what);
  return finish(context, flags.output, text);
}

void add_wishes(CLI::App& command, FleetCommandFlags& flags) {
  one_of(flag(command, "--survive-domain", flags.survive), {"none", "node", "rack", "zone"});
  one_of(flag(command, "--mode", flags.mode, "observe is not for fleets"),
         {"automatic", "approve"});
}

using Run = Result<Exit> (*)(Context&, const FleetCommandFlags&);

Command below(CLI::App& group, const char* name, const char* about, Run run) {
  CLI::App* command = group.add_subcommand(name, about);
  auto flags = std::make_shared<FleetCommandFlags>();
  const std::string word = name;
  flag(*command, "--settings", flags->config);
  add_fleet_flags(*command, flags->place);
  if (word == "plan") {
    command->add_option("FILE", flags->file, "A services file; without it what is wanted now");
    flag(*command, "--profiles", flags->profiles);
    add_catalogue(*command, flags->catalogue);
  }
  if (word == "apply") command->add_option("FILE", flags->file, "A services file")->required();
  if (word == "plan" || word == "apply") add_wishes(*command, *flags);
  if (word == "approve")
    command->add_option("DIGEST", flags->word, "Of the decision; without it the one that waits");
  if (word == "explain")
    command->add_option("NODE|SERVICE", flags->word, "One of them; without it all parts");
  if (word == "drain") {
    command
        ->add_option("NODE", flags->word, "A node of the fleet; or a feed, PDU or rack that failed")
        ->required();
    flag(*command, "--back", flags->back);
  }
  if (word == "status" || word == "plan" || word == "history")
    add_output(*command, flags->output, {"text", "json"});
  if (word == "explain") add_output(*command, flags->output, {"text"});
  command->footer(fmt::format("partita {}{} --fleet http://127.0.0.1:2379", name,
                              word == "apply"   ? " services.yaml"
                              : word == "drain" ? " node3"
                                                : ""));
  return {command, [flags, run](Context& context) { return run(context, *flags); }};
}

}  // namespace

Command add_fleet(CLI::App& app) {
  CLI::App* group = app.add_subcommand("fleet", "Many nodes: what they carry, and what is wanted");
  return group_of(
      group,
      {below(*group, "status", "Nodes and services of the fleet", run_status),
       below(*group, "plan", "What a leader would change; 1 where room is missing", run_plan),
       below(*group, "apply", "Say which services the fleet shall carry", run_apply),
       below(*group, "approve", "Say yes to the decision that waits", run_approve),
       below(*group, "explain", "Why nodes carry what they carry", run_explain),
       below(*group, "drain", "Move a node's services to others", run_drain),
       below(*group, "history", "What leaders did", run_history)});
}

}  // namespace partita::cli
