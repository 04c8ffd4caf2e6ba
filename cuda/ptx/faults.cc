// Faults: found while a kernel runs, told to people.
#include <fmt/format.h>

#include <algorithm>

#include "ptx/exec.h"
#include "ptx/machine.h"

namespace partita::ptx {

std::string to_string(FaultKind kind) {
  switch (kind) {
    case FaultKind::out_of_bounds:
      return "out of bounds";
    case FaultKind::misaligned:
      return "misaligned";
    case FaultKind::use_after_free:
      return "use after free";
    case FaultKind::uninitialised:
      return "uninitialised";
    case FaultKind::race:
      return "race";
    case FaultKind::read_only:
      return "read only";
    case FaultKind::illegal:
      return "illegal";
    case FaultKind::assertion:
      return "assertion";
    case FaultKind::trap:
      return "trap";
    case FaultKind::divergence:
      return "divergence";
    case FaultKind::deadlock:
      return "deadlock";
    case FaultKind::stopped:
      return "stopped";
  }
  return "unknown";
}

std::string to_text(const Fault& fault) {
  const auto place = [](const Extent& at) { return fmt::format("({},{},{})", at.x, at.y, at.z); };
  std::string text = to_string(fault.kind);
  if (fault.size != 0)
    text += fmt::format(": {} of {} bytes at {:#x}", fault.write ? "write" : "read", fault.size,
                        fault.address);
  text += fmt::format("\n  in kernel {}, block {}, thread {}", fault.kernel, place(fault.block),
                      place(fault.thread));
  if (fault.line != 0) text += fmt::format("\n  line {}: {}", fault.line, fault.instruction);
  if (fault.source_line != 0)
    text += fmt::format("\n  from {}:{}", fault.source_file, fault.source_line);
  if (!fault.about.empty()) text += "\n  " + fault.about;
  return text + "\n";
}

std::string to_text(const std::vector<Fault>& faults) {
  std::vector<std::pair<const Fault*, int>> kinds;  // the first of each, and how many more
  for (const Fault& fault : faults) {
    const auto same = std::ranges::find_if(kinds, [&fault](const auto& kind) {
      return kind.first->kind == fault.kind && kind.first->line == fault.line &&
             kind.first->kernel == fault.kernel;
    });
    if (same == kinds.end())
      kinds.emplace_back(&fault, 0);
    else
      ++same->second;
  }
  std::string text;
  for (const auto& [fault, more] : kinds) {
    text += to_text(*fault);
    if (more > 0) text += fmt::format("  and {} more at this line\n", more);
  }
  return text;
}

bool report(const Op* op, Warp& w, Report what) {
  Block& block = *w.block;
  RunCore& run = *block.run;
  const Loaded& loaded = *run.loaded;
  const bool goes_on = what.kind == FaultKind::race || what.kind == FaultKind::uninitialised ||
                       what.kind == FaultKind::divergence;
  const Origin& origin = run.program->origins[op->ordinal];
  const Extent& size = run.launch.block;
  const std::uint32_t thread = w.index * kLanes + what.lane;
  Fault fault{.kind = what.kind,
              .kernel = run.program->kernel,
              .block = block.index,
              .thread = {thread % size.x, thread / size.x % size.y, thread / size.x / size.y},
              .line = origin.line,
              .source_line = origin.source_line,
              .address = what.address,
              .size = what.size,
              .write = what.write,
              .about = std::move(what.about)};
  const auto line = static_cast<std::size_t>(origin.line);
  if (line >= 1 && line <= loaded.lines.size()) {
    std::string_view text = loaded.lines[line - 1];
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    text = text.substr(0, text.find_last_not_of(" \t\r") + 1);
    fault.instruction = std::string(text.substr(0, 400));
  }
  const auto file = static_cast<std::size_t>(origin.source_file);
  if (origin.source_line != 0 && file < loaded.module.files.size())
    fault.source_file = loaded.module.files[file];
  const std::scoped_lock lock(run.mutex);
  if (!goes_on) {
    block.failed = true;
    const bool first = !run.ended.exchange(true);
    if (first) run.faults.push_back(std::move(fault));
  } else if (run.faults.size() < run.launch.max_faults) {
    run.faults.push_back(std::move(fault));
  }
  return goes_on;
}

}  // namespace partita::ptx
