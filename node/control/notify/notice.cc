#include "control/notify/notice.h"

#include <fmt/format.h>

#include <initializer_list>
#include <set>

#include "base/append.h"
#include "base/form_rules.h"

namespace partita::notify {
namespace {

constexpr std::initializer_list<const char*> kAlarms{
    "failed_change",  "given_up_worker", "slo_at_risk",       "gpu_out",
    "drift_repaired", "damaged_file",    "waits_for_approval"};
constexpr Range kTimes{.low = -9e15, .high = 9e15};
constexpr Range kNumbers{.high = 9e15};
constexpr Range kTimeouts{.low = 0.1, .high = 300};
constexpr Range kTries{.low = 1, .high = 20};
constexpr Range kQuiet{.high = 86'400};

void describe(Form& f, Notice& notice) {
  f.lines("  ");
  f.document("Notice");
  f.word("alarm", notice.alarm, kAlarms, "what it is about");
  f.whole("time_ms", notice.time_ms, kTimes, "since 1970, UTC");
  f.note("node", notice.node, "host name");
  f.note("subject", notice.subject, "a service, a GPU, a change");
  f.optional(notice.change != 0).whole("change", notice.change, kNumbers, "its number; 0: none");
  f.text("text", notice.text, "a sentence");
}

struct StatedReceiver {
  Receiver receiver;
  std::string webhook, form = "partita", token_file, ca_file;
  std::vector<std::string> command, alarms;
};

void describe(Form& f, StatedReceiver& stated) {
  Receiver& receiver = stated.receiver;
  f.closed();
  f.name("name", receiver.name, "of the receiver");
  f.optional().text("webhook", stated.webhook, "URL that gets a POST");
  f.optional().note("form", stated.form, "partita, or chat: {\"text\": ...}");
  f.optional().text("token_file", stated.token_file, "holds a bearer token");
  f.optional().text("ca_file", stated.ca_file, "certificates to trust, PEM");
  f.optional().notes("command", stated.command, {.most = 100}, "program and its arguments");
  f.optional().notes("alarms", stated.alarms, {.most = 100},
                     "that it is told of; all when missing");
  f.optional().number("timeout_s", receiver.timeout_s, kTimeouts, "of one try");
  f.optional().integer("tries", receiver.tries, kTries, "until it is given up");
  f.optional().number("quiet_s", receiver.quiet_s, kQuiet,
                      "an alarm of one subject is not told again for so long");
}

std::optional<Alarm> parse_alarm(std::string_view word) {
  int number = 0;
  for (const char* known : kAlarms) {
    if (word == known) return static_cast<Alarm>(number);
    ++number;
  }
  return std::nullopt;
}

// What no field says alone.
void finish(Fields& in, StatedReceiver& stated) {
  for (const std::string& word : stated.alarms) {
    const auto alarm = parse_alarm(word);
    if (!alarm) {
      in.refuse("alarms",
                fmt::format("'{}' is no alarm; there are {}", word, joined(kAlarms, ", ")));
      return;
    }
    stated.receiver.alarms.push_back(*alarm);
  }
  if (stated.webhook.empty() == stated.command.empty()) {
    in.refuse("name", fmt::format("receiver '{}' needs either a webhook or a command",
                                  stated.receiver.name));
    return;
  }
  if (stated.webhook.empty()) {
    if (stated.command.front().empty()) in.refuse("command", "names no program");
    if (!stated.token_file.empty() || !stated.ca_file.empty() || in.has("form"))
      in.refuse("command", "form, token_file and ca_file belong to a webhook");
    stated.receiver.how = Program{stated.command};
    return;
  }
  if (const auto url = parse_url("webhook", stated.webhook); !url)
    in.refuse("webhook", url.error().message);
  if (stated.form != "partita" && stated.form != "chat")
    in.refuse("form", fmt::format("'{}' is no form; there are partita, chat", stated.form));
  stated.receiver.how =
      Webhook{stated.webhook, stated.form == "chat", stated.token_file, stated.ca_file};
}

void describe_checked(Form& f, StatedReceiver& stated) {
  describe(f, stated);
  Fields* const in = f.reading();
  if (in && !in->error()) finish(*in, stated);
}

struct StatedReceivers {
  std::vector<StatedReceiver> all;
};

void describe(Form& f, StatedReceivers& stated) {
  f.optional().list("notify", stated.all, describe_checked, {.most = kMaxReceivers},
                    "who is told of alarms");
  Fields* const in = f.reading();
  if (!in || in->error()) return;
  std::set<std::string> names;
  for (const StatedReceiver& one : stated.all)
    if (!names.insert(one.receiver.name).second)
      in->refuse("notify", fmt::format("two receivers are called '{}'", one.receiver.name));
}

}  // namespace

const char* to_string(Alarm alarm) { return kAlarms.begin()[static_cast<int>(alarm)]; }

std::string notice_json(const Notice& notice) { return write_form(notice, describe); }

Result<Notice> parse_notice(const std::string& file, std::string_view text) {
  return read_form<Notice>(file, text, describe);
}

DocumentKind notice_kind() {
  return document_kind<Notice, describe, "Notice", "what a webhook or a command is told">();
}

std::string chat_json(const Notice& notice) {
  const std::string where = notice.node.empty() ? "" : notice.node + ": ";
  return write_form([&](Form& f) { f.told("text", where + notice.text); });
}

Result<std::vector<Receiver>> parse_receivers(const std::string& file, std::string_view text) {
  const auto stated = TRY(read_form<StatedReceivers>(file, text, describe));
  std::vector<Receiver> receivers;
  for (const StatedReceiver& one : stated.all) receivers.push_back(one.receiver);
  return receivers;
}

}  // namespace partita::notify
