#include "node/chronicle.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <utility>

#include "act/change_forms.h"
#include "base/append.h"
#include "control/host/change_numbers.h"
#include "control/host/memory_file.h"
#include "flags.h"
#include "places.h"

namespace partita::cli {
namespace {

using history::EventKind;
using history::Outcome;

constexpr int kTidyTimes = 3;  // pieces, for a history that no agent tidies

Outcome outcome_of(const Result<void>& result) {
  if (result) return Outcome::succeeded;
  return result.error().message.starts_with("interrupted") ? Outcome::interrupted : Outcome::failed;
}

}  // namespace

void add_why(CLI::App& command, std::string& why) { flag(command, "--why", why); }

std::string calling_user() {
  passwd entry{};
  passwd* found = nullptr;
  char room[4096];
  const uid_t id = ::geteuid();
  std::string name = fmt::format("uid {}", id);
  if (::getpwuid_r(id, &entry, room, sizeof room, &found) == 0 && found != nullptr)
    name = found->pw_name;
  const std::string before = environment_variable("SUDO_USER");
  return before.empty() ? name : fmt::format("{} (sudo {})", name, before);
}

std::int64_t now_ms() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
}

Chronicle::Chronicle(Context& context, std::string state_dir, const std::string& command,
                     const std::string& why)
    : context_(context),
      state_dir_(std::move(state_dir)),
      cause_(why.empty() ? "by hand: " + command : why + " (" + command + ")"),
      user_(calling_user()) {}

void Chronicle::attach(const std::string& name, const std::string& text) {
  attached_.push_back({name, text});
}

history::Event Chronicle::event(EventKind kind) const {
  return {.time_ms = now_ms(), .kind = kind, .change = change_, .user = user_, .cause = cause_};
}

long Chronicle::number() {
  if (change_ > 0 || store() == nullptr) return change_;
  if (const auto mended = control::mend_last_change(context_.files, state_dir_); mended && *mended)
    complain(context_, (*mended)->sentence);
  const auto known = store_->last_change();
  const auto last = known ? control::last_change(context_.files, state_dir_, *known) : known;
  const Result<void> kept = last ? control::keep_last_change(context_.files, state_dir_, *last + 1)
                                 : Result<void>(failed(last.error()));
  if (!kept) complain_once(kept.error());
  if (kept) change_ = *last + 1;
  return change_;
}

void Chronicle::begin(const std::string& detail) {
  if (begun_ || number() == 0) return;
  begun_ = true;
  history::Event begin = event(EventKind::applying);
  begin.detail = detail;
  begin.documents = attached_;
  append({begin});
}

void Chronicle::hear(const actuate::ApplyEvent& heard) {
  using Kind = actuate::ApplyEvent::Kind;
  if (heard.kind == Kind::step && !begun_) {
    attach("change", actuate::change_json(*heard.change));
    begin(fmt::format("{} steps, {:.1f} s predicted", heard.change->steps.size(),
                      heard.change->predicted.value));
  }
  if (!begun_) return;
  if (heard.kind == Kind::done_step || heard.kind == Kind::retry) {
    history::Event step = event(EventKind::step);
    step.cause.clear();
    const bool done = heard.kind == Kind::done_step;
    step.outcome = done ? Outcome::succeeded : Outcome::failed;
    step.detail = done ? actuate::step_text(heard.change->steps[heard.step]) : heard.detail;
    steps_.push_back(step);
  }
}

void Chronicle::end(const Result<void>& outcome, const std::string& detail,
                    std::vector<history::Event::Attachment> documents) {
  if (!begun_ && outcome) return;  // nothing was to be done
  history::Event end = event(EventKind::applied);
  end.outcome = begun_ ? outcome_of(outcome) : Outcome::refused;
  end.detail = outcome ? detail : to_string(outcome.error());
  end.documents = std::move(documents);
  steps_.push_back(std::move(end));
  append(std::exchange(steps_, {}));
  for (int n = 0; n < kTidyTimes && store_; ++n) {
    if (auto tidied = store_->tidy(now_ms()); !tidied) return complain_once(tidied.error());
  }
}

void Chronicle::keep_drain(const std::vector<std::string>& devices, const Result<void>& drained) {
  keep({.kind = EventKind::applied,
        .subject = devices.size() == 1 ? devices.front() : "",
        .outcome = outcome_of(drained),
        .detail = drained ? fmt::format("drained {}", joined(devices, ", "))
                          : to_string(drained.error())});
}

void Chronicle::keep(history::Event given) {
  given.time_ms = now_ms();
  if (given.user.empty()) given.user = user_;
  if (given.cause.empty()) given.cause = cause_;
  append({given});
}

history::Store* Chronicle::store() {
  if (store_ || broken_) return store_ ? &*store_ : nullptr;
  auto made = context_.files.make_directories(state_dir_);
  auto opened =
      made ? history::Store::open(history::history_path(state_dir_), history::Access::write)
           : Result<history::Store>(failed(made.error()));
  if (opened) {
    store_ = *std::move(opened);
    return &*store_;
  }
  complain_once(opened.error());
  return nullptr;
}

void Chronicle::append(const std::vector<history::Event>& events) {
  if (store() == nullptr) return;
  if (auto kept = store_->append_all(events); !kept) complain_once(kept.error());
}

void Chronicle::complain_once(const Error& error) {
  if (!broken_) complain(context_, "not kept in the history: " + to_string(error));
  broken_ = true;
}

}  // namespace partita::cli
