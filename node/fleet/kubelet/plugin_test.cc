// What a plugin does with claims that are gone; all else of it is asked by a kubelet of ours in
// tests/cli/dra_test.py.
#include "fleet/kubelet/plugin.h"

#include <gtest/gtest.h>

#include "base/clock.h"

namespace partita::dra {
namespace {

TEST(Plugin, GivesBackWhatAClaimHadThatIsGoneAndNotListedThen) {
  MemoryFiles files;
  RealClock clock;
  const auto api = KubeApi::to({"http://127.0.0.1:1", "", ""}, files, clock);  // nobody is there
  ASSERT_TRUE(api) << to_string(api.error());
  NodeLook node;
  for (const char* owner : {"claim:u1/d1", "claim:u2/d2", "claim:u3/d3", "job"}) {
    lease::Lease& lease = node.leases.emplace_back();
    lease.owner = owner;
  }
  std::vector<std::string> returned;
  NodeDoor door;
  door.look = [&] { return node; };
  door.give_back = [&](const std::string& owner) {
    returned.push_back(owner);
    return Result<void>();
  };
  Plugin plugin({"n1", "/cdi"}, door, *api, files);
  const ClaimsNow claims{true, {"u1"}};
  int lists = 0;
  const auto list = [&] {
    ++lists;
    return Result<ClaimList>(ClaimList{{{"ml", "c1", "u1"}, {"ml", "c3", "u3"}}, ""});
  };
  EXPECT_FALSE(plugin.publish(claims, 0));
  EXPECT_TRUE(plugin.return_gone(list).empty());
  EXPECT_FALSE(plugin.publish(claims, kReturnedAfter));
  const auto gone = plugin.return_gone(list);
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0].uid, "u2");
  EXPECT_EQ(gone[0].error, "");
  EXPECT_EQ(returned, std::vector<std::string>{"claim:u2"});
  EXPECT_EQ(lists, 1);  // the API server is asked once somebody is to lose something
}

}  // namespace
}  // namespace partita::dra
