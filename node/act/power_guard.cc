#include "act/power_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/boot.h"
#include "base/form.h"
#include "device/call.h"

namespace partita::actuate {
namespace {

constexpr std::string_view kPowerLog = "power";

void describe(Form& f, device::ClockRange& clocks) {
  constexpr Range kClock{.high = 1e6, .above = true};
  f.number("low_mhz", clocks.low.value, kClock, "");
  f.number("high_mhz", clocks.high.value, kClock, "");
  f.closed();
}

void describe(Form& f, PowerBefore& before) {
  f.integer("gpu", before.gpu, {.high = 1e6}, "as it was numbered then");
  f.name("uuid", before.uuid, "of the GPU");
  std::optional<double> limit;
  if (before.settings.limit) limit = before.settings.limit->value;
  f.number("limit_w", limit, {.high = 1e5, .above = true}, "power limit before; missing: default");
  if (f.reading() != nullptr && limit) before.settings.limit = Watts{*limit};
  f.object("clocks", before.settings.clocks, describe, "locked before; missing: not locked");
  f.optional(!before.boot.empty()).text("boot", before.boot, "of the node, then");
  f.closed();
}

Result<std::vector<PowerBefore>> records_of(const std::string& path, const ParsedLog& log) {
  std::vector<PowerBefore> changed;
  for (const LogRecord& record : log.records) {
    const std::string at = fmt::format("{}:{}", path, record.line);
    auto before = TRY(parse_power_record(at, record.text));
    if (std::ranges::count(changed, before.uuid, &PowerBefore::uuid) > 0)
      return bad_input(at, fmt::format("GPU {} is there twice", before.uuid));
    changed.push_back(std::move(before));
  }
  std::ranges::sort(changed, {}, &PowerBefore::gpu);
  return changed;
}

}  // namespace

std::string power_record(const PowerBefore& before) {
  std::string record = write_form(before, describe);
  std::erase(record, '\n');
  return record;
}

Result<PowerBefore> parse_power_record(const std::string& at, std::string_view record) {
  if (!record.starts_with('{')) return bad_input(at, "a record must be a JSON object");
  auto before = read_form<PowerBefore>("record", record, describe);
  if (!before) return bad_input(at, before.error().message);
  return before;
}

std::string power_journal_path(const std::string& state_directory) {
  return state_directory + "/power.journal";
}

Result<std::vector<PowerBefore>> read_power_journal(Files& files, const std::string& path) {
  if (!files.exists(path)) return std::vector<PowerBefore>{};
  const auto text = TRY(files.read(path));
  const auto log = TRY(parse_log(path, kPowerLog, text));
  return records_of(path, log);
}

Result<PowerGuard> PowerGuard::open(Files& files, const std::string& path,
                                    device::NodeDriver& driver, std::string marks) {
  auto log = TRY(RecordLog::open(files, path, std::string(kPowerLog)));
  auto changed = TRY(records_of(path, log.found()));
  PowerGuard guard(files, std::move(log), driver, std::move(changed));
  guard.marks_ = std::move(marks);
  guard.path_ = std::filesystem::absolute(path).string();
  guard.boot_ = boot_of(files);
  return guard;
}

// What another journal says that it had before.
Result<std::optional<PowerBefore>> PowerGuard::marked(const std::string& uuid) {
  if (marks_.empty() || !files_->exists(mark_of(uuid))) return std::optional<PowerBefore>{};
  const auto journal = TRY(files_->read(mark_of(uuid)));
  const auto changed = TRY(read_power_journal(*files_, journal.substr(0, journal.find('\n'))));
  const auto found = std::ranges::find(changed, uuid, &PowerBefore::uuid);
  return found == changed.end() ? std::nullopt : std::optional(*found);
}

// What it had before, and that we know, before it is changed.
Result<void> PowerGuard::note(const PowerBefore& before) {
  TRY(log_.append({power_record(before)}));
  changed_.push_back(before);
  std::ranges::sort(changed_, {}, &PowerBefore::gpu);
  return mark(before.uuid);
}

Result<void> PowerGuard::mark(const std::string& uuid) {
  if (marks_.empty()) return {};
  return files_->write_atomic(mark_of(uuid), path_ + "\n");
}

Result<void> PowerGuard::unmark(const std::string& uuid) {
  return marks_.empty() ? Result<void>{} : files_->remove(mark_of(uuid));
}

Result<std::vector<PowerBefore>> PowerGuard::changed_by_others() {
  const auto info = TRY(driver_->info());
  std::vector<PowerBefore> others;
  for (int gpu = 0; gpu < info.gpus; ++gpu) {
    const auto state = driver_->read(gpu);
    if (!state || std::ranges::count(changed_, state->uuid, &PowerBefore::uuid) > 0) continue;
    const auto known = TRY(marked(state->uuid));
    if (known) others.push_back({gpu, state->uuid, known->settings, known->boot});
  }
  return others;
}

Result<void> PowerGuard::take_over(const std::vector<PowerBefore>& others) {
  for (const PowerBefore& one : others) TRY(note(one));
  return {};
}

Result<void> PowerGuard::set(int gpu, const device::PowerSettings& settings) {
  const auto state = TRY(driver_->read(gpu));
  const bool first = std::ranges::count(changed_, state.uuid, &PowerBefore::uuid) == 0;
  std::string others_mark;
  if (first) {
    const auto known = TRY(marked(state.uuid));
    if (known) others_mark = files_->read(mark_of(state.uuid)).value_or("");
    const auto now = TRY(driver_->power_settings(gpu));
    const PowerBefore before{gpu, state.uuid, known ? known->settings : now.now, boot_};
    TRY(note(before));
  } else if (!marks_.empty() && !files_->exists(mark_of(state.uuid))) {
    // Another journal has put it back meanwhile, and knows nothing of what comes now.
    TRY(mark(state.uuid));
  }
  auto set = driver_->set_power_settings(gpu, settings);
  if (set || set.error().code != ErrorCode::denied || !first) return set;
  // Nothing was changed, and without rights nothing could be put back either.
  std::erase_if(changed_, [&](const PowerBefore& one) { return one.uuid == state.uuid; });
  TRY(others_mark.empty() ? unmark(state.uuid)
                          : files_->write_atomic(mark_of(state.uuid), others_mark));
  TRY(write());
  return set;
}

Result<void> PowerGuard::write() {
  std::vector<std::string> records;
  for (const PowerBefore& before : changed_) records.push_back(power_record(before));
  return log_.replace(records);
}

// By UUID: GPUs may be numbered otherwise since.
Result<void> PowerGuard::restore_one(const PowerBefore& before) {
  const auto info = TRY(driver_->info());
  std::optional<Error> silent;  // of a GPU that does not answer: it may be this one
  for (int gpu = 0; gpu < info.gpus; ++gpu) {
    const auto state = driver_->read(gpu);
    if (!state) silent = state.error();
    if (!state || state->uuid != before.uuid) continue;
    const auto now = TRY(driver_->power_settings(gpu));
    if (now.clocks_told && now.now == before.settings) return {};
    return driver_->set_power_settings(gpu, before.settings);
  }
  if (silent) return failed(*silent);
  return failed({ErrorCode::not_found, fmt::format("GPU {} is not there", before.uuid), {}});
}

Result<void> PowerGuard::restore(const std::set<std::string>& kept) {
  if (changed_.empty()) return {};
  Result<void> first;
  std::vector<PowerBefore> left;
  for (PowerBefore& before : changed_) {
    if (kept.contains(before.uuid)) {
      left.push_back(before);
      continue;
    }
    auto restored = restore_one(before);
    if (!restored && restored.error().code == ErrorCode::not_found && !boot_.empty()) {
      if (before.boot.empty()) before.boot = boot_;  // at the latest
      if (before.boot != boot_) {
        gone_.push_back(before);
        restored = {};
      }
    }
    if (restored) restored = unmark(before.uuid);
    if (restored) continue;
    if (first) first = failed(restored.error());
    left.push_back(before);
  }
  changed_ = std::move(left);
  TRY(write());
  return first;
}

}  // namespace partita::actuate
