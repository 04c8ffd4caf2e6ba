#include "agent/agent_notices.h"

#include <fmt/format.h>

#include <optional>

#include "decide/input.h"

namespace partita::cli {
namespace {

// What receivers may ask for; other notices are lines of the log alone.
std::optional<notify::Alarm> alarm_of(control::NoticeKind kind) {
  using control::NoticeKind;
  switch (kind) {
    case NoticeKind::failed_change:
      return notify::Alarm::failed_change;
    case NoticeKind::given_up_worker:
      return notify::Alarm::given_up_worker;
    case NoticeKind::slo_risk:
      return notify::Alarm::slo_at_risk;
    case NoticeKind::approval:
      return notify::Alarm::waits_for_approval;
    case NoticeKind::health:
      return notify::Alarm::gpu_out;
    case NoticeKind::drift:
      return notify::Alarm::drift_repaired;
    case NoticeKind::damaged_file:
      return notify::Alarm::damaged_file;
    default:
      return std::nullopt;
  }
}

}  // namespace

Result<std::unique_ptr<AgentNotices>> AgentNotices::read(Files& files, const std::string& path) {
  const std::string text = TRY(read_input(files, "--settings", path));
  auto receivers = TRY(notify::parse_receivers(path, text));
  if (receivers.empty()) return std::unique_ptr<AgentNotices>();
  return std::unique_ptr<AgentNotices>(new AgentNotices(std::move(receivers)));
}

void AgentNotices::tell(const control::LoopNotice& notice, const std::string& node,
                        std::int64_t now_ms) {
  if (const auto alarm = alarm_of(notice.kind))
    notifier_.tell({*alarm, now_ms, node, notice.subject, notice.change, notice.sentence});
}

std::vector<history::Event> AgentNotices::told(std::int64_t now_ms) {
  std::vector<history::Event> events;
  for (const notify::Report& report : notifier_.reports()) {
    history::Event& event = events.emplace_back();
    event.time_ms = now_ms;
    event.kind = history::EventKind::notice;
    event.change = report.notice.change;
    event.user = "agent";
    event.cause = report.notice.text;
    event.subject = report.receiver;
    event.outcome = report.told ? history::Outcome::succeeded : history::Outcome::failed;
    event.detail = report.told ? fmt::format("told after {} tries", report.tries) : report.why;
  }
  return events;
}

}  // namespace partita::cli
