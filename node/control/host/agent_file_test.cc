#include "control/host/agent_file.h"

#include <gtest/gtest.h>

#include <regex>

#include "base/source_text.h"

namespace partita::control {
namespace {

TEST(AgentFile, ThePackagedOneIsReadWithAllItsExamplesAndWithNone) {
  const std::string text = source_text("packaging/etc/agent.yaml");
  const auto bare = parse_agent_file("agent.yaml", text);
  ASSERT_TRUE(bare) << to_string(bare.error());
  EXPECT_TRUE(bare->services.empty());
  const auto full = parse_agent_file("agent.yaml", with_examples(text));
  ASSERT_TRUE(full) << to_string(full.error());
  EXPECT_EQ(full->server.group, "partita");
  EXPECT_EQ(full->hooks.size(), 2U);
  EXPECT_EQ(full->policy.hooks_before.size(), 1U);
  EXPECT_EQ(full->profiles_of.size(), 1U);
  EXPECT_EQ(full->power.prices, "/etc/partita/hours.csv");
  EXPECT_EQ(full->power.powercap, bare->power.powercap);
  // What stands in comments inside `policy` is the default, but for what names something.
  auto policy = full->policy;
  EXPECT_EQ(policy.priority.size(), 1U);
  EXPECT_EQ(policy.windows.size(), 1U);
  EXPECT_EQ(policy.freezes.size(), 1U);
  policy.priority = bare->policy.priority;
  policy.windows = bare->policy.windows;
  policy.freezes = bare->policy.freezes;
  policy.hooks_before.clear();
  policy.hooks_after.clear();
  policy.survive = bare->policy.survive;
  EXPECT_EQ(policy, bare->policy);
}

// Every key that a file may have stands in the packaged one: of `policy` those that are written,
// of the others those whose examples are not what is without them.
TEST(AgentFile, ThePackagedOneHasEveryKey) {
  const std::string text = source_text("packaging/etc/agent.yaml");
  const auto full = parse_agent_file("agent.yaml", with_examples(text));
  ASSERT_TRUE(full) << to_string(full.error());
  Settings policy = full->policy;
  policy.survive = 0;
  const std::string written = settings_json(policy);
  const std::regex key("\"(\\w+)\":");
  for (std::sregex_iterator at(written.begin(), written.end(), key), end; at != end; ++at) {
    const std::string name = at->str(1);
    if (name == "api_version" || name == "kind") continue;
    EXPECT_NE(text.find(name + ":"), std::string::npos) << name;
  }
  for (const char* name : {"machine", "catalogue", "nvlink", "on", "max_processes"})
    EXPECT_NE(text.find(name + std::string(":")), std::string::npos) << name;
  const AgentServer& server = full->server;
  for (const std::string* path : {&server.tls_certificate, &server.tls_key, &server.client_ca,
                                  &server.client_roles, &server.oidc, &server.access_log})
    EXPECT_FALSE(path->empty());
  EXPECT_EQ(server.hosts.size(), 1U);
  const AgentFleet& fleet = full->fleet;
  EXPECT_EQ(fleet.endpoints.size(), 1U);
  for (const std::string* said :
       {&fleet.node, &fleet.rack, &fleet.zone, &fleet.feed, &fleet.gateway, &fleet.grpc,
        &fleet.user, &fleet.password_file, &fleet.ca, &fleet.certificate, &fleet.key})
    EXPECT_FALSE(said->empty());
}

TEST(AgentFile, SaysWhichGpusAreLinked) {
  const auto links = [](const std::string& said) {
    const auto file = parse_agent_file("a.yaml", "node: {nvlink: " + said + "}\n");
    return file ? Result<NvLinks>(file->node.nvlink) : failed(file.error());
  };
  EXPECT_EQ(*links("4"), NvLinks{.each = 4});
  EXPECT_EQ(*links("[[0, 1, 2, 3], [4, 5]]"), (NvLinks{.domains = {{0, 1, 2, 3}, {4, 5}}}));
  for (const char* said : {"[[0, 1], [1, 2]]", "[0, 1]", "[[0, 1.5]]", "[[-1]]", "a", "-1", "[[]]"})
    EXPECT_FALSE(links(said)) << said;
  EXPECT_EQ(to_string(links("[[0, 1], [1, 2]]").error()),
            "a.yaml:1: GPU 1 is in two lists of 'nvlink'");
}

TEST(AgentFile, AGatewayOfAFleetIsWhereOthersFindIt) {
  const auto read = [](const std::string& key, const std::string& address) {
    return parse_agent_file(
        "a.yaml", "fleet: {endpoints: [\"http://e:2379\"], " + key + ": \"" + address + "\"}\n");
  };
  for (const char* key : {"gateway", "grpc"}) {
    for (const char* fine : {"", "10.0.0.17:8080", "n17.lan:80", "[fd00::17]:8080"})
      EXPECT_TRUE(read(key, fine)) << fine;
    for (const char* said : {"10.0.0.17", "n17.lan", ":8080", "*:8080", "0.0.0.0:8080", "[::]:8080",
                             "http://n17:8080", "n17:8080/", "n17:0", "n17:http", "fd00::17"})
      EXPECT_FALSE(read(key, said)) << said;
  }
  EXPECT_EQ(to_string(read("gateway", "0.0.0.0:80").error()),
            "a.yaml:1: '0.0.0.0:80' is no HOST:PORT at which other machines find it");
}

}  // namespace
}  // namespace partita::control
