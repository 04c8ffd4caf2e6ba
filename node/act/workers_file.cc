#include "act/workers_file.h"

#include <fmt/format.h>

#include <utility>

namespace partita::actuate {
namespace {

constexpr std::int64_t kCheckEveryNs = 1'000'000'000;

}  // namespace

WorkersFile::WorkersFile(Files& files, std::string path,
                         std::function<void(const std::string&)> say)
    : files_(files), path_(std::move(path)), say_(std::move(say)) {
  if (!say_) say_ = [](const std::string&) {};
}

Result<WorkersState> WorkersFile::recorded(const std::string& path) {
  if (!files_.exists(path)) return WorkersState{};
  const std::string text = TRY(files_.read(path));
  return parse_workers(path, text);
}

Result<WorkersState> WorkersFile::recall() {
  Result<WorkersState> state = recorded(path_);
  if (state) return state;
  const Result<std::string> aside = set_aside(files_, path_);
  if (!aside)
    return failed({ErrorCode::environment,
                   fmt::format("cannot be used ({}) and cannot be moved out of the way ({})",
                               to_string(state.error()), to_string(aside.error())),
                   path_});
  Result<WorkersState> copy = recorded(path_ + ".copy");
  say_(fmt::format("{}; it is now {}; {}", to_string(state.error()), *aside,
                   copy && !copy->workers.empty()
                       ? "its copy says which workers run"
                       : "workers that run are ended and started again"));
  return copy ? copy : WorkersState{};
}

void WorkersFile::save(const WorkersState& state) {
  std::string text = workers_json(state);
  if (text == saved_) return;
  Result<void> written = files_.write_atomic(path_, text);
  if (written) written = files_.write_atomic(path_ + ".copy", text);
  if (written) saved_ = std::move(text);
  if (!written && !unsaved_) say_("cannot save the state: " + to_string(written.error()));
  unsaved_ = !written;
}

void WorkersFile::check(std::int64_t now_ns) {
  if (now_ns < next_check_ns_ || saved_.empty()) return;
  next_check_ns_ = now_ns + kCheckEveryNs;
  const Result<std::string> text = files_.read(path_);
  if (text && *text == saved_) return;
  say_(path_ + ": is not as it was written; writing it again");
  saved_.clear();
}

}  // namespace partita::actuate
