// Plugin: claims of Kubernetes on a node's GPUs. A claim that the scheduler has given a device is
// prepared by leasing that very place for "claim:UID/DEVICE" and writing a CDI file; so the same
// claim gets the same instance again, whoever was killed when, and nothing is remembered here.
// After every change the pool is published in the order that keeps the largest shapes free.
// Thread rule: prepare() and unprepare() on one thread, publish(), return_gone() and settle_due()
// on one, which may be another.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "act/lease/lease_forms.h"
#include "base/files.h"
#include "fleet/dra/cdi.h"
#include "fleet/dra/claims.h"
#include "fleet/dra/gone_claims.h"
#include "fleet/dra/kubelet_messages.h"
#include "fleet/dra/pool.h"
#include "fleet/dra/resource_slices.h"
#include "fleet/kubelet/kube_api.h"

namespace partita::dra {

inline constexpr const char* kOwner = "claim:";  // of a lease, before the claim's UID
// Between looks at this node's slices at the API server, which others may have deleted.
inline constexpr std::int64_t kSlicesAnew = 10'000'000'000;

// GPUs that can be cut now, and the leases that stand.
struct NodeLook {
  std::vector<PoolGpu> gpus;
  std::vector<lease::Lease> leases;
};
// What a client of an instance's MPS daemon needs.
struct MpsEdits {
  std::map<std::string, std::string> environment;
  std::string mount;  // a directory
};
// The node. Each call of these alone; an error says why not.
struct NodeDoor {
  std::function<Result<NodeLook>()> look;
  std::function<Result<lease::LeaseDocument>(const lease::Wanted& wanted)> take;
  std::function<Result<void>(const std::string& owner)> give_back;
  // MPS daemons, by UUID of a MIG device: started again is kept, ended again is no error.
  std::function<Result<MpsEdits>(const std::string& uuid, const MpsShare& share)> mps_edits;
  std::function<Result<void>(const std::string&uuid)> start_mps, quit_mps;
  // Whether a GPU takes that cap; then the caps that hold, by UUID: all others are as they were.
  std::function<Result<void>(int gpu, double watts)> may_cap;
  std::function<Result<void>(const std::map<std::string, double>& watts)> cap;
};

struct PluginSettings {
  std::string node;           // its name in Kubernetes
  std::string cdi_directory;  // made where it is missing
};

class Plugin {
 public:
  // Doors outlive it.
  Plugin(PluginSettings settings, NodeDoor node, const KubeApi& api, Files& files)
      : settings_(std::move(settings)), node_(std::move(node)), api_(api), files_(files) {}

  // Puts in effect what claims' files say, after whoever was killed.
  Result<void> recover();

  // As the kubelet asks: again is the same, and one claim's fault is its own. So is a damaged file:
  // its shares hold no more, and unpreparing the claim removes it.
  std::vector<PreparedClaim> prepare(const std::vector<ClaimName>& claims);
  std::vector<PreparedClaim> unprepare(const std::vector<ClaimName>& claims);

  // Writes the pool where it differs from what the API server has, which is asked every kSlicesAnew
  // and when the kubelet has registered this plugin: a kubelet that starts deletes all slices of
  // its node. Whether anything was written. After an error all is written again. What claims have
  // that are gone is not in it. Slices belong to their Node, so that they go with it; where the API
  // server has none, or does not let us see it, to nobody.
  Result<bool> publish(const ClaimsNow& claims, std::int64_t now_ns);
  void registered() { looks_anew_ = true; }  // any thread
  // Gives back what such claims have had for long, as unprepare() does, where they are not in the
  // list either that is asked for then.
  std::vector<PreparedClaim> return_gone(const std::function<Result<ClaimList>()>& list);

  // Caps that could not be set or undone when they were to be: the kubelet asks no more for a claim
  // that is gone.
  Result<void> settle_due();

  // With the node as it is, while nobody changes it; not where it cannot be read.
  void with_node(const std::function<void(const NodeLook&)>& take);

 private:
  Result<PreparedClaim> prepared(const ClaimName& claim);
  Result<Claim> claim_of(const ClaimName& claim) const;
  Result<NodeLook> look();
  struct Place {
    lease::Wanted lease;
    SharedInstance instance;
  };
  Result<Place> place_of(const std::string& device);
  struct Allotted {
    ClaimedDevice of;
    Place place;
    Share share;
  };
  Result<std::vector<Allotted>> allotted(const Claim& claim);
  Result<CdiDevice> lend(const std::string& uid, const Allotted& one);
  Result<void> share(const std::vector<StandingShare>& shares);
  Result<void> set_caps();
  Result<void> settle_caps();
  Result<std::vector<StandingShare>> standing_shares(const std::string& name) const;
  Result<std::vector<StandingShare>> possible_shares(const std::string& uid);
  Result<std::vector<std::string>> claim_files() const;
  Result<void> give_back(const std::string& uid);
  Result<void> learn_heads(std::int64_t now_ns);
  Result<std::string> node_uid() const;
  Result<void> write(const Pool& pool, const ResourceSlice& slice, const SliceWriting& writing);
  Result<void> remove(const std::string& name);
  std::string path_of(const std::string& slice) const;

  PluginSettings settings_;
  NodeDoor node_;
  const KubeApi& api_;
  Files& files_;
  std::mutex claims_mutex_;  // of their files; locked before node_mutex_
  std::mutex node_mutex_;    // of node_
  std::atomic<bool> caps_due_ = false;
  // Of prepare() alone: by device; they stay as long as the GPUs.
  std::map<std::string, Place> places_;
  // Of publish() alone:
  std::map<std::string, SliceHead> heads_;      // at the server, by name
  std::map<std::string, std::string> written_;  // slices, as they are without versions
  GoneClaims gone_;
  long generation_ = 0;
  bool known_ = false;  // heads_ are those of the server
  std::int64_t learnt_ns_ = 0;  // when they were last
  std::atomic<bool> looks_anew_ = true;
};

}  // namespace partita::dra
