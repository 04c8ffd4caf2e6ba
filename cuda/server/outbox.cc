#include "server/outbox.h"

#include <fmt/format.h>

namespace partita::remote::server {
namespace {

constexpr std::size_t kMaxSaid = 4000;  // bytes of one notice

}  // namespace

Outbox::Outbox(Channel& channel, const SessionLimits& limits)
    : limits_(limits), writer_(channel, limits.patience) {}

void Outbox::cancel_all() {
  for (const auto& [to, cancel] : std::exchange(due_, {})) cancel(*this, to);
}

void Outbox::flush() {
  if (ended_ || writer_.gathered() == 0) return;
  if (const auto done = writer_.flush(); !done) broken(done.error());
}

void Outbox::say(SaidTo where, std::string_view text) {
  const bool reason = where != kToOutput;
  if (text.empty() || (reason && said_ > limits_.reasons)) return;
  if (reason && ++said_ > limits_.reasons) text = "further reasons are not told";
  std::string line;
  if (reason && !text.ends_with('\n')) text = line = std::string(text) + "\n";
  while (!text.empty()) {
    const std::string_view part = text.substr(0, kMaxSaid);
    put(Said{.to_error = where, .text = std::as_bytes(std::span(part))});
    text.remove_prefix(part.size());
  }
}

void Outbox::refused(std::string_view operation, const Refused& why) {
  if (sticky == 0) sticky = why.status;
  if (why.reason.empty()) return;  // a device that is dead says so once
  ++counts.refused;
  say(why.status == kInvalidPtx ? kRefusedCode : kToError,
      fmt::format("{}: {}", operation, why.reason));
}

void Outbox::broken(const Error& error) {
  if (ended_) return;
  if (error.code == ErrorCode::bad_input) return end(to_string(error));  // it still hears us
  ended_as(error.code == ErrorCode::lost ? "the client is gone" : to_string(error));
}

void Outbox::end(const std::string& why) {
  if (ended_) return;
  say(kToError, fmt::format("the session ends: {}", why));
  flush();
  if (!ended_) ended_as(why);
}

void Outbox::ended_as(const std::string& why) {
  ended_ = true;
  reason_ = why;
}

}  // namespace partita::remote::server
