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

// The kubelet asks again after an error, and then nothing is left of the claim that says its cap.
TEST(Plugin, ACapThatCouldNotBeUndoneIsUndoneLater) {
  MemoryFiles files;
  RealClock clock;
  const auto api = KubeApi::to({"http://127.0.0.1:1", "", ""}, files, clock);
  ASSERT_TRUE(api) << to_string(api.error());
  CdiDevice device;
  device.device = "d1";
  device.share.power_cap_w = 250;
  device.lease.lease.uuid = "MIG-1";
  device.lease.lease.gpu_uuid = "GPU-1";
  ASSERT_TRUE(files.write_atomic("/cdi/" + cdi_file_name("u1"), cdi_json("u1", {device})));
  using Caps = std::map<std::string, double>;
  std::vector<Caps> set;
  bool locked = true;  // by another command, for a moment
  NodeDoor door;
  door.give_back = [](const std::string&) { return Result<void>(); };
  door.cap = [&](const Caps& caps) -> Result<void> {
    if (locked) return failed({ErrorCode::in_use, "another command has the GPU", ""});
    set.push_back(caps);
    return {};
  };
  Plugin plugin({"n1", "/cdi"}, door, *api, files);
  ASSERT_FALSE(plugin.recover());
  EXPECT_NE(plugin.unprepare({{"ml", "u1", "c1"}})[0].error, "");
  EXPECT_EQ(plugin.unprepare({{"ml", "u1", "c1"}})[0].error, "");
  EXPECT_FALSE(plugin.settle_due());
  EXPECT_TRUE(set.empty());
  locked = false;
  EXPECT_TRUE(plugin.settle_due());
  EXPECT_TRUE(plugin.settle_due());
  EXPECT_EQ(set, std::vector<Caps>{{}});  // once
}

}  // namespace
}  // namespace partita::dra
