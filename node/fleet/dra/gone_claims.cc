#include "fleet/dra/gone_claims.h"

#include <utility>

namespace partita::dra {

void GoneClaims::see(const std::vector<HeldByClaim>& held, const ClaimsNow& claims,
                     std::int64_t now_ns) {
  now_ns_ = now_ns;
  for (const HeldByClaim& one : held)
    if (const auto known = all_.find(one.uid); one.busy && known != all_.end())
      known->second.unused_ns = now_ns;
  if (!claims.known) return;
  std::map<std::string, Gone> all;
  for (const HeldByClaim& one : held) {
    if (claims.uids.contains(one.uid)) continue;
    const auto before = all_.find(one.uid);
    all.try_emplace(one.uid, before == all_.end() ? Gone{now_ns, now_ns} : before->second);
  }
  all_ = std::move(all);
}

bool GoneClaims::has(const std::string& uid) const {
  const auto found = all_.find(uid);
  return found != all_.end() && now_ns_ - found->second.since_ns >= kGoneAfter;
}

std::vector<std::string> GoneClaims::take_due() {
  std::vector<std::string> due;
  for (auto& [uid, gone] : all_)
    if (now_ns_ - gone.unused_ns >= kReturnedAfter) {
      due.push_back(uid);
      gone.unused_ns = now_ns_;
    }
  return due;
}

}  // namespace partita::dra
