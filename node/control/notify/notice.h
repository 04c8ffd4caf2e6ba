// What people are told, and who is: values, their forms, and the part `notify:` of the agent's
// settings. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/form.h"
#include "base/result.h"
#include "base/url.h"

namespace partita::notify {

inline constexpr std::size_t kMaxReceivers = 16;

enum class Alarm : std::uint8_t {
  failed_change,       // a change of the node did not come to its end
  given_up_worker,     // a worker keeps failing and is no longer restarted
  slo_at_risk,         // a service will not, or does not, keep its objective
  gpu_out,             // a GPU was taken out, by its health or by a person
  drift_repaired,      // the node was not as it should be, and is again
  damaged_file,        // a file of the state directory was damaged, and was set aside
  waits_for_approval,  // a change was planned and waits for a person
};
const char* to_string(Alarm alarm);

struct Notice {
  Alarm alarm = Alarm::failed_change;
  std::int64_t time_ms = 0;  // since 1970, UTC
  std::string node;          // host name
  std::string subject;       // a service, a GPU, "change 7"; may be empty
  long change = 0;           // number of the change; 0: none
  std::string text;          // a sentence
  bool operator==(const Notice&) const = default;
};

// The document `kind: Notice`.
std::string notice_json(const Notice& notice);
Result<Notice> parse_notice(const std::string& file, std::string_view text);
DocumentKind notice_kind();
// {"text": "..."}, which Slack, Mattermost and others show.
std::string chat_json(const Notice& notice);

struct Webhook {
  std::string url;              // http:// or https://
  bool chat = false;            // chat_json instead of notice_json
  std::string token_file = {};  // its first line is sent as bearer token; empty: none
  std::string ca_file = {};     // certificates to trust; empty: the system's
  bool operator==(const Webhook&) const = default;
};
struct Program {  // gets notice_json on standard input; status 0: it has told
  std::vector<std::string> argv;
  bool operator==(const Program&) const = default;
};
struct Receiver {
  std::string name;
  std::vector<Alarm> alarms = {};  // empty: all
  std::variant<Webhook, Program> how = {};
  double timeout_s = 10;  // of one try
  int tries = 6;
  double quiet_s = 300;  // the same alarm of the same subject is not told again for so long
  bool operator==(const Receiver&) const = default;
};

// The list `notify` of a settings file; other keys are left alone, none without it. Refused with
// FILE:LINE: two receivers of one name, a URL that is none, both or neither of webhook and command.
Result<std::vector<Receiver>> parse_receivers(const std::string& file, std::string_view text);

}  // namespace partita::notify
