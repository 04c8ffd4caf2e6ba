#include "fleet/kubelet/claims_sight.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace partita::dra {
namespace {

constexpr const char* kClaims = "/apis/resource.k8s.io/v1/resourceclaims";
constexpr int kWatchSeconds = 300;
constexpr std::int64_t kPause = 1'000'000'000, kStep = 50'000'000;

}  // namespace

ClaimsSight::ClaimsSight(const KubeApi& api, Clock& clock, std::string node)
    : api_(api), clock_(clock), node_(std::move(node)), thread_([this] { look(); }) {}

ClaimsSight::~ClaimsSight() { ending_ = true; }

Result<ClaimList> list_claims(const KubeApi& api) {
  const auto answer = api.ask("GET", kClaims);
  if (!answer) return failed(answer.error());
  if (answer->status != 200)
    return environment_error(kClaims, fmt::format("the API server answered {}", answer->status));
  return parse_claims("the API server's list of claims", answer->body);
}

ClaimsNow ClaimsSight::allocated() const {
  const std::lock_guard lock(mutex_);
  ClaimsNow all{.known = known_, .uids = {}};
  for (const auto& [uid, devices] : devices_) {
    all.uids.insert(uid);
    all.devices.insert(devices.begin(), devices.end());
  }
  return all;
}

std::vector<Claim> ClaimsSight::claims() const {
  const std::lock_guard lock(mutex_);
  std::vector<Claim> all;
  for (const auto& [uid, claim] : claims_) all.push_back(claim);
  return all;
}

long ClaimsSight::version() const {
  const std::lock_guard lock(mutex_);
  return version_;
}

std::string ClaimsSight::trouble() const {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

void ClaimsSight::look() {
  while (!ending_) {
    const std::int64_t begin = clock_.now_ns();
    const auto from = list();
    const auto done = from ? follow(*from) : Result<void>(failed(from.error()));
    {
      const std::lock_guard lock(mutex_);
      trouble_ = done ? "" : to_string(done.error());
      known_ = known_ && done;
    }
    if (!done || clock_.now_ns() - begin < kPause) pause();
  }
}

void ClaimsSight::pause() {
  for (std::int64_t left = kPause; left > 0 && !ending_; left -= kStep) clock_.sleep_ns(kStep);
}

Result<std::string> ClaimsSight::list() {
  const auto list = list_claims(api_);
  if (!list) return failed(list.error());
  std::map<std::string, std::set<std::string>> devices;
  std::map<std::string, Claim> claims;
  for (const Claim& claim : list->claims)
    if (auto its = of_pool(claim); !its.empty()) {
      devices.emplace(claim.uid, std::move(its));
      claims.emplace(claim.uid, claim);
    }
  const std::lock_guard lock(mutex_);
  claims_ = std::move(claims);
  known_ = true;
  if (devices != devices_) ++version_;
  devices_ = std::move(devices);
  return list->resource_version;
}

// Until the watch ends, which is no fault.
Result<void> ClaimsSight::follow(const std::string& from) {
  std::optional<Error> fault;
  const auto take = [&](std::string_view line) {
    if (line.empty()) return !ending_.load();
    const auto event = parse_claim_event("the API server's event", line);
    if (!event) fault = event.error();
    if (!event || event->kind == ClaimEvent::Kind::too_old) return false;
    if (event->kind != ClaimEvent::Kind::mark)
      note(event->claim, event->kind == ClaimEvent::Kind::gone);
    return true;
  };
  const auto status = api_.watch(kClaims, from, kWatchSeconds, take);
  if (fault) return failed(*fault);
  if (!status) return failed(status.error());
  if (*status != 200 && *status != 410 && !ending_)
    return environment_error(kClaims, fmt::format("the API server answered {}", *status));
  return {};
}

std::set<std::string> ClaimsSight::of_pool(const Claim& claim) const {
  std::set<std::string> devices;
  for (const ClaimedDevice& one : claim.devices)
    if (one.pool == node_) devices.insert(one.device);
  return devices;
}

void ClaimsSight::note(const Claim& claim, bool gone) {
  std::set<std::string> devices;
  if (!gone) devices = of_pool(claim);
  const std::lock_guard lock(mutex_);
  claims_.erase(claim.uid);
  if (!devices.empty()) claims_.emplace(claim.uid, claim);
  const auto before = devices_.find(claim.uid);
  if (devices == (before == devices_.end() ? std::set<std::string>{} : before->second)) return;
  if (devices.empty())
    devices_.erase(before);
  else
    devices_[claim.uid] = std::move(devices);
  ++version_;
}

}  // namespace partita::dra
