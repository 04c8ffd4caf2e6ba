// ClaimsSight: which places claims have on this node, as the API server says it: listed once, then
// watched on a thread of its own; after an end, an error or a version that is too old listed again.
// Thread rule: any thread.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fleet/dra/claims.h"
#include "fleet/dra/gone_claims.h"
#include "fleet/kubelet/kube_api.h"

namespace partita::dra {

// All claims of the cluster, asked now.
Result<ClaimList> list_claims(const KubeApi& api);

class ClaimsSight {
 public:
  // Begins to look; both outlive it. `node` is the name of the pool.
  ClaimsSight(const KubeApi& api, Clock& clock, std::string node);
  ~ClaimsSight();
  ClaimsSight(const ClaimsSight&) = delete;
  ClaimsSight& operator=(const ClaimsSight&) = delete;

  // Which claims have been given devices of the pool, and which devices.
  ClaimsNow allocated() const;
  // The claims that have some.
  std::vector<Claim> claims() const;
  // How often they have changed; and what is wrong with looking, or nothing.
  long version() const;
  std::string trouble() const;

 private:
  void look();
  Result<std::string> list();
  Result<void> follow(const std::string& from);
  std::set<std::string> of_pool(const Claim& claim) const;
  void note(const Claim& claim, bool gone);
  void pause();

  const KubeApi& api_;
  Clock& clock_;
  const std::string node_;
  std::atomic<bool> ending_ = false;
  mutable std::mutex mutex_;                              // of everything below
  std::map<std::string, std::set<std::string>> devices_;  // of the pool, by UID of the claim
  std::map<std::string, Claim> claims_;                   // the same
  long version_ = 0;
  bool known_ = false;  // all were listed, and nothing is wrong since
  std::string trouble_;
  std::jthread thread_;
};

}  // namespace partita::dra
