// What the commands about a node's past share: which history, here or of an agent, and how times
// read.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/client.h"
#include "context.h"
#include "history/event.h"
#include "history/store/store.h"
#include "node/devices.h"

namespace partita::cli {

struct PastFlags {
  std::string file;  // empty: the state directory's
  std::string state_dir;
  DeviceFlags device;
};
// Adds --file, --state-dir and what names the node.
void add_past(CLI::App& command, PastFlags& flags);

// For reading. not_found where nothing has been kept yet.
Result<history::Store> open_past(Context& context, const PastFlags& flags);

// Where events come from, and what the node is now: a document NodeState.
struct Past {
  std::function<Result<std::vector<history::Event>>(const history::EventQuery& query)> events;
  std::function<Result<std::string>()> node;
  bool of_agent = false;
};
// Both refer to what they are given.
Past past_here(Context& context, const PastFlags& flags);
// bad_input where --file was given.
Result<Past> past_of(const PastFlags& flags, const api::Client& agent);

// A command whose `run` is the same here and of an agent.
template <class Flags>
Command about_past(CLI::App* command, const std::shared_ptr<Flags>& flags,
                   Result<Exit> (*run)(Context&, const Flags&, const Past&)) {
  return {command,
          [=](Context& context) { return run(context, *flags, past_here(context, flags->past)); },
          [=](Context& context, const api::Client& agent) -> Result<Exit> {
            const auto past = past_of(flags->past, agent);
            return past ? run(context, *flags, *past) : failed(past.error());
          }};
}

// "2026-11-22 18:03:10", local time.
std::string local_time(std::int64_t time_ms);

}  // namespace partita::cli
