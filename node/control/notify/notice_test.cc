#include "control/notify/notice.h"

#include <gtest/gtest.h>

#include "base/source_text.h"

namespace partita::notify {
namespace {

TEST(Notice, IsReadAsItWasWritten) {
  for (const Alarm alarm :
       {Alarm::failed_change, Alarm::given_up_worker, Alarm::slo_at_risk, Alarm::gpu_out,
        Alarm::drift_repaired, Alarm::damaged_file, Alarm::waits_for_approval}) {
    const Notice notice{alarm, 1767225600123, "node-1", "chat \"x\"", 7, "it\nfailed"};
    const auto again = parse_notice("n.json", notice_json(notice));
    ASSERT_TRUE(again) << to_string(again.error());
    EXPECT_EQ(*again, notice);
  }
  EXPECT_EQ(chat_json({Alarm::gpu_out, 1, "n", "", 0, "GPU 1 is \"out\""}),
            "{\"text\": \"n: GPU 1 is \\\"out\\\"\"}\n");
}

TEST(Notice, TheDocumentedExampleIsReadAndWrittenAsItStands) {
  const std::string text = source_text("docs/formats.md");
  const std::string open = "```json\n";
  const auto begin = text.find(open, text.find("\n## Notice\n")) + open.size();
  const std::string example = text.substr(begin, text.find("```\n", begin) - begin);
  const auto notice = parse_notice("formats.md", example);
  ASSERT_TRUE(notice) << to_string(notice.error());
  EXPECT_EQ(notice_json(*notice), example);
}

TEST(Receivers, AreReadFromTheirKeyAlone) {
  const auto receivers = parse_receivers("agent.yaml", R"(
policy: {anything: [at, all]}
notify:
  - name: chat
    webhook: https://hooks.example.org/services/T/B?x=1
    form: chat
    alarms: [failed_change, slo_at_risk]
  - {name: page, command: [/usr/local/bin/page, --urgent], timeout_s: 2.5, tries: 3, quiet_s: 0}
)");
  ASSERT_TRUE(receivers) << to_string(receivers.error());
  const std::vector<Receiver> expected{
      {.name = "chat",
       .alarms = {Alarm::failed_change, Alarm::slo_at_risk},
       .how = Webhook{"https://hooks.example.org/services/T/B?x=1", true, "", ""}},
      {.name = "page",
       .how = Program{{"/usr/local/bin/page", "--urgent"}},
       .timeout_s = 2.5,
       .tries = 3,
       .quiet_s = 0}};
  EXPECT_EQ(*receivers, expected);
  EXPECT_EQ(parse_receivers("agent.yaml", "policy: {}")->size(), 0U);
}

TEST(Receivers, ThePackagedExampleIsRead) {
  const auto receivers =
      parse_receivers("agent.yaml", with_examples(source_text("packaging/etc/agent.yaml")));
  ASSERT_TRUE(receivers) << to_string(receivers.error());
  ASSERT_EQ(receivers->size(), 1U);
  const auto* const hook = std::get_if<Webhook>(&receivers->at(0).how);
  ASSERT_NE(hook, nullptr);
  EXPECT_EQ(hook->url, "https://chat.example/hook");
  EXPECT_TRUE(hook->chat);
}

TEST(Receivers, RefusalsNameTheLine) {
  const auto refusal = [](const std::string& entry) {
    const auto read = parse_receivers("agent.yaml", "notify:\n  - " + entry + "\n");
    return read ? "" : to_string(read.error());
  };
  EXPECT_EQ(refusal("{name: a, command: [x]}"), "");
  for (const auto& [entry, word] : std::vector<std::pair<std::string, std::string>>{
           {"{name: a}", "either"},
           {"{name: a, command: [x], webhook: 'http://h/'}", "either"},
           {"{name: a, webhook: 'ftp://h/'}", "http"},
           {"{name: a, webhook: 'http://h/', form: slack}", "chat"},
           {"{name: a, command: [x], alarms: [fire]}", "failed_change"},
           {"{name: a, command: [x], timeout_s: 1e9}", "300"},
           {"{name: a, command: [x], timeout: 3}", "timeout_s"},
           {"{name: a, command: [x], ca_file: y}", "webhook"},
           {"{name: a, command: [x]}\n  - {name: a, command: [y]}", "two receivers"}}) {
    EXPECT_NE(refusal(entry).find("agent.yaml:"), std::string::npos) << entry;
    EXPECT_NE(refusal(entry).find(word), std::string::npos) << entry << "\n" << refusal(entry);
  }
}

}  // namespace
}  // namespace partita::notify
