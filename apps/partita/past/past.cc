#include "past/past.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <ctime>

#include "flags.h"
#include "node/state_dir.h"

namespace partita::cli {

void add_past(CLI::App& command, PastFlags& flags) {
  flag(command, "--file", flags.file);
  add_state_dir(command, flags.state_dir);
  add_device_flags(command, flags.device);
}

Result<history::Store> open_past(Context& context, const PastFlags& flags) {
  std::string path = flags.file;
  if (path.empty()) {
    const auto directory = TRY(found_state_directory(context, flags.device, flags.state_dir));
    path = history::history_path(directory);
  }
  if (!context.files.exists(path)) {
    if (!flags.file.empty()) return bad_input("--file", path + ": there is no such file");
    return environment_error(path, "nothing has been kept of this node yet");
  }
  return history::Store::open(path, history::Access::read);
}

Past past_here(Context& context, const PastFlags& flags) {
  return {[&](const history::EventQuery& query) -> Result<std::vector<history::Event>> {
            const auto store = open_past(context, flags);
            return store ? store->events(query) : failed(store.error());
          },
          [&]() -> Result<std::string> {
            const OpenDriver opened = TRY(open_driver(context, flags.device));
            const device::NodeState state = TRY(device::read_node(*opened.driver));
            const std::string directory = state_directory(flags.state_dir, state);
            return device::state_json(state, load_occupants(context, directory));
          }};
}

namespace {

std::string asked_of(const history::EventQuery& query, int most) {
  std::string asked = fmt::format("documents={}&most={}", query.documents, most);
  const auto add = [&asked](const char* name, const auto& value) {
    asked += fmt::format("&{}={}", name, api::percent_encoded(fmt::format("{}", value)));
  };
  if (query.kinds.size() == 1) add("kind", history::to_string(query.kinds.front()));
  if (!query.subject.empty()) add("subject", query.subject);
  if (!query.user.empty()) add("user", query.user);
  if (query.change) add("change", *query.change);
  if (query.before) add("before", *query.before);
  if (query.after) add("after", *query.after);
  if (query.from_ms) add("from_ms", *query.from_ms);
  return asked;
}

// An agent is asked for one kind or for all, so that several are picked from the newest of all.
Result<std::vector<history::Event>> events_there(const api::Client& agent,
                                                 const history::EventQuery& query) {
  const bool several = query.kinds.size() > 1;
  const auto answer =
      TRY(agent.call("history", "", "", asked_of(query, several ? history::kMaxRows : query.most)));
  auto events = history::parse_history("the server's answer", answer);
  if (!events || !several) return events;
  std::erase_if(*events, [&](const history::Event& event) {
    return std::ranges::find(query.kinds, event.kind) == query.kinds.end();
  });
  if (std::ssize(*events) > query.most) events->erase(events->begin() + query.most, events->end());
  return events;
}

}  // namespace

Result<Past> past_of(const PastFlags& flags, const api::Client& agent) {
  if (!flags.file.empty())
    return bad_input("--file", "not with --server: it is the server's history that counts");
  return Past{[&agent](const history::EventQuery& query) { return events_there(agent, query); },
              [&agent] { return agent.call("node"); }, true};
}

std::string local_time(std::int64_t time_ms) {
  const std::time_t seconds = time_ms / 1000;
  std::tm parts{};
  std::array<char, 64> text{};
  if (::localtime_r(&seconds, &parts) == nullptr ||
      std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts) == 0)
    return fmt::format("{} ms", time_ms);
  return text.data();
}

}  // namespace partita::cli
