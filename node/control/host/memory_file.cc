#include "control/host/memory_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "act/apply.h"
#include "control/host/agent.h"
#include "control/host/change_numbers.h"

namespace partita::control {
namespace {

std::string copy_of(const std::string& path) { return path + ".copy"; }

// Moves it out of the way; the error says what a person can do.
Result<std::string> put_aside(Files& files, const std::string& path, const Error& why) {
  auto moved = set_aside(files, path);
  if (moved) return moved;
  return failed({ErrorCode::environment,
                 fmt::format("cannot be used ({}) and cannot be moved out of the way ({}): move it "
                             "away, or give it to the agent's user",
                             to_string(why), to_string(moved.error())),
                 path});
}

}  // namespace

Result<std::optional<AgentMemory>> read_memory(Files& files, const std::string& path) {
  if (!files.exists(path)) return std::optional<AgentMemory>{};
  const std::string text = TRY(files.read(path));
  const std::string json = TRY(unsealed(path, text));
  AgentMemory memory = TRY(parse_memory(path, json));
  return std::optional(std::move(memory));
}

Result<void> write_memory(Files& files, const std::string& state_dir, const AgentMemory& memory) {
  const std::string path = memory_path(state_dir), text = sealed(memory_json(memory));
  TRY(files.write_atomic(path, text));
  return files.write_atomic(copy_of(path), text);
}

Result<Recalled> recall_memory(Files& files, const std::string& state_dir, bool touch) {
  const std::string path = memory_path(state_dir);
  Recalled recalled;
  auto memory = read_memory(files, path);
  if (memory) {
    if (*memory) recalled.memory = **std::move(memory);
    return recalled;
  }
  const std::string why = to_string(memory.error());
  std::string what = why;
  if (touch) {
    const auto aside = TRY(put_aside(files, path, memory.error()));
    what += "; it is now " + aside;
  }
  auto copy = read_memory(files, copy_of(path));
  if (copy && *copy) {
    recalled.memory = **std::move(copy);
    recalled.mended.push_back({path, what + "; the agent goes on with its copy"});
    return recalled;
  }
  recalled.mended.push_back(
      {path, what +
                 "; the agent begins anew from what the node says: modes that somebody set, GPUs "
                 "that somebody took out and batches are forgotten"});
  if (copy) return recalled;
  const auto aside = TRY(touch ? put_aside(files, copy_of(path), copy.error()) : copy_of(path));
  recalled.mended.push_back({copy_of(path), to_string(copy.error()) + "; it is now " + aside});
  return recalled;
}

Result<std::optional<Mended>> mend_last_change(Files& files, const std::string& state_dir) {
  const auto fine = last_change(files, state_dir, 0);
  if (fine) return std::optional<Mended>{};
  const std::string path = change_number_path(state_dir);
  const auto aside = TRY(put_aside(files, path, fine.error()));
  return std::optional(
      Mended{path, fmt::format("{}; it is now {}, and numbers go on from what history and memory "
                               "know",
                               to_string(fine.error()), aside)});
}

Result<std::optional<Mended>> mend_journal(Files& files, const std::string& state_dir) {
  const std::string path = actuate::journal_path(state_dir);
  auto assignment = actuate::read_assignment(files, state_dir);
  const auto journal = actuate::read_journal(files, path);
  Result<void> fine = journal ? Result<void>{} : Result<void>(failed(journal.error()));
  if (fine && assignment)
    fine = actuate::check_not_emptied(files, state_dir, *journal, *assignment);
  if (fine) return std::optional<Mended>{};
  if (!assignment) {
    const std::string copy = copy_of(actuate::assignment_path(state_dir));
    const auto text = files.read(copy);
    assignment = text ? actuate::parse_assignment(copy, *text) : failed(text.error());
  }
  actuate::JournalState state;
  if (assignment)
    for (const actuate::AssignedSegment& one : assignment->segments)
      state.owned.push_back(one.device);
  const auto aside = TRY(put_aside(files, path, fine.error()));
  TRY(files.write_atomic(path, actuate::journal_text(state)));
  return std::optional(
      Mended{path, fmt::format("{}: it is now {}. The {} instances that the assignment names count "
                               "as Partita's, others as those of others; `partita apply "
                               "--rollback` has nothing to go back to",
                               to_string(fine.error()), aside, state.owned.size())});
}

Result<std::optional<Mended>> mend_assignment(Files& files, const std::string& state_dir,
                                              long revision, const std::string& seen) {
  const std::string path = actuate::assignment_path(state_dir);
  if (!files.exists(path)) return std::optional<Mended>{};
  const auto text = files.read(path);
  const auto fine = text ? actuate::parse_assignment(path, *text) : failed(text.error());
  const auto copied = files.exists(copy_of(path)) ? files.read(copy_of(path)) : std::string();
  if (fine) {
    if (copied && *copied == *text) return std::optional<Mended>{};
    TRY(files.write_atomic(copy_of(path), *text));
    return std::optional<Mended>{};
  }
  auto known = copied ? actuate::parse_assignment(copy_of(path), *copied) : failed(copied.error());
  if (!known && !seen.empty()) known = actuate::parse_assignment(path, seen);
  const bool is_known = known.has_value();
  if (!known) known = actuate::Assignment{};
  known->revision = std::max(known->revision, revision) + 1;
  const auto aside = TRY(put_aside(files, path, fine.error()));
  TRY(files.write_atomic(path, actuate::assignment_json(*known)));
  return std::optional(
      Mended{path, fmt::format("{}; it is now {}; {}", to_string(fine.error()), aside,
                               is_known ? "the agent goes on with its copy"
                                        : "the agent assigns anew what the plan in force says")});
}

}  // namespace partita::control
