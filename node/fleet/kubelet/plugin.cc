#include "fleet/kubelet/plugin.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/index.h"
#include "fleet/dra/cdi.h"
#include "fleet/dra/claims.h"

namespace partita::dra {
namespace {

constexpr const char* kSlices = "/apis/resource.k8s.io/v1/resourceslices";
constexpr int kOk = 200, kCreated = 201, kNotFound = 404, kConflict = 409;

std::string owner_of(const std::string& uid, const std::string& device) {
  return fmt::format("{}{}/{}", kOwner, uid, device);
}

Result<void> refused(const std::string& what, const KubeApi::Answer& answer) {
  return environment_error(what, fmt::format("the API server answered {}", answer.status));
}

}  // namespace

// ---- claims

Result<Claim> Plugin::claim_of(const ClaimName& wanted) const {
  const std::string path = fmt::format("/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims/{}",
                                       wanted.name_space, wanted.name);
  const auto answer = api_.ask("GET", path);
  if (!answer) return failed(answer.error());
  if (answer->status != kOk) return failed(refused(path, *answer).error());
  auto claim = parse_claim("the API server's claim", answer->body);
  if (!claim) return failed(claim.error());
  if (claim->uid != wanted.uid)
    return bad_input(wanted.name, "a claim of that name is there, and is another one");
  if (!claim->parameters.empty())
    return bad_input(wanted.name,
                     fmt::format("parameters of kind '{}' are for driver {}, which takes none yet",
                                 claim->parameters.front(), kDriver));
  return claim;
}

Result<NodeLook> Plugin::look() {
  const std::lock_guard lock(node_mutex_);
  return node_.look();
}

// A device's name says GPU, profile and start for good, so the node is not read for it again.
Result<lease::Wanted> Plugin::place_of(const std::string& device) {
  if (const auto known = places_.find(device); known != places_.end()) return known->second;
  const std::lock_guard lock(node_mutex_);
  const auto now = node_.look();
  if (!now) return failed(now.error());
  const Pool pool = pool_of(now->gpus);
  for (const PoolDevice& one : pool.devices) {
    const PoolGpu& gpu = pool.gpus[one.gpu];
    places_[one.name] = {.owner = {},
                         .profile = gpu.model->profiles[at(one.place.profile)].name,
                         .gpu = gpu.gpu.index,
                         .start = one.place.start,
                         .exact = true};
  }
  const auto found = places_.find(device);
  if (found == places_.end()) return bad_input(device, "the node has no such device");
  return found->second;
}

Result<PreparedClaim> Plugin::prepared(const ClaimName& wanted) {
  const auto claim = claim_of(wanted);
  if (!claim) return failed(claim.error());
  PreparedClaim done{wanted.uid};
  std::vector<CdiDevice> given;
  for (const ClaimedDevice& one : claim->devices) {
    if (one.pool != settings_.node) continue;
    auto place = place_of(one.device);
    if (!place) return failed(place.error());
    place->owner = owner_of(wanted.uid, one.device);
    const std::lock_guard lock(node_mutex_);
    auto taken = node_.take(*place);
    if (!taken) return failed(taken.error());
    given.push_back({one.device, *std::move(taken)});
    done.devices.push_back({one.request, one.pool, one.device, cdi_id(wanted.uid, one.device)});
  }
  if (given.empty()) return bad_input(wanted.name, "no device of this node is allocated to it");
  if (auto made = files_.make_directories(settings_.cdi_directory); !made)
    return failed(made.error());
  const std::string file = settings_.cdi_directory + "/" + cdi_file_name(wanted.uid);
  if (auto kept = files_.write_atomic(file, cdi_json(wanted.uid, given)); !kept)
    return failed(kept.error());
  return done;
}

std::vector<PreparedClaim> Plugin::prepare(const std::vector<ClaimName>& claims) {
  std::vector<PreparedClaim> all;
  for (const ClaimName& one : claims) {
    auto done = prepared(one);
    all.push_back(done ? *std::move(done) : PreparedClaim{one.uid, {}, to_string(done.error())});
  }
  return all;
}

Result<void> Plugin::give_back(const std::string& uid) {
  {
    const std::lock_guard lock(node_mutex_);
    if (auto gone = node_.give_back(kOwner + uid); !gone) return gone;
  }
  return files_.remove(settings_.cdi_directory + "/" + cdi_file_name(uid));
}

std::vector<PreparedClaim> Plugin::unprepare(const std::vector<ClaimName>& claims) {
  std::vector<PreparedClaim> all;
  for (const ClaimName& one : claims) {
    const auto done = give_back(one.uid);
    all.push_back({one.uid, {}, done ? "" : to_string(done.error())});
  }
  return all;
}

// ---- the pool

std::string Plugin::path_of(const std::string& slice) const {
  return fmt::format("{}/{}", kSlices, slice);
}

// What is there of this node, whoever wrote it.
Result<void> Plugin::learn_heads() {
  const auto answer =
      api_.ask("GET", fmt::format("{}?fieldSelector=spec.nodeName%3D{}", kSlices, settings_.node));
  if (!answer) return failed(answer.error());
  if (answer->status != kOk) return refused(kSlices, *answer);
  const auto heads = parse_slices("the API server's slices", answer->body, settings_.node);
  if (!heads) return failed(heads.error());
  heads_.clear();
  written_.clear();
  for (const SliceHead& head : *heads) {
    generation_ = std::max(generation_, head.generation);
    heads_[head.name] = head;
  }
  known_ = true;
  return {};
}

Result<void> Plugin::write(const Pool& pool, const ResourceSlice& slice, std::size_t slices) {
  SliceHead& head = heads_.try_emplace(slice.name, SliceHead{slice.name}).first->second;
  const std::string body = slice_json(pool, slice, head, {settings_.node, generation_, slices});
  const bool there = !head.resource_version.empty();
  const auto answer =
      there ? api_.ask("PUT", path_of(slice.name), body) : api_.ask("POST", kSlices, body);
  if (!answer) return failed(answer.error());
  if (answer->status != kOk && answer->status != kCreated) return refused(slice.name, *answer);
  const auto now = parse_slices("the API server's slice", answer->body, settings_.node);
  if (!now) return failed(now.error());
  if (now->size() != 1 || now->front().resource_version.empty())
    return environment_error(slice.name, "the API server answered with another object");
  head = now->front();
  return {};
}

Result<void> Plugin::remove(const std::string& name) {
  const auto answer = api_.ask("DELETE", path_of(name));
  if (!answer) return failed(answer.error());
  if (answer->status != kOk && answer->status != kNotFound) return refused(name, *answer);
  heads_.erase(name);
  return {};
}

Result<bool> Plugin::publish(const std::set<std::string>& allocated) {
  auto now = look();
  if (!now) return failed(now.error());
  // Which places are claimed is told by the leases, and by the scheduler before there is one.
  for (PoolGpu& gpu : now->gpus) gpu.claimed.clear();
  Pool pool = pool_of(now->gpus);
  std::set<std::string> devices = allocated;
  for (const std::string& owner : now->owners)
    if (owner.starts_with(kOwner)) devices.insert(owner.substr(owner.find('/') + 1));
  for (const std::string& name : devices)
    if (const PoolDevice* device = find_device(pool, name))
      now->gpus[device->gpu].claimed.push_back(device->place);
  pool = pool_of(std::move(now->gpus));

  if (!known_)
    if (auto learnt = learn_heads(); !learnt) return failed(learnt.error());
  const std::vector<ResourceSlice> slices = slices_of(pool, settings_.node);
  std::map<std::string, std::string> wanted;
  for (const ResourceSlice& slice : slices)
    wanted[slice.name] = slice_json(pool, slice, {slice.name}, {settings_.node, 0, slices.size()});
  if (wanted == written_) return false;
  ++generation_;
  known_ = false;  // until all are written
  for (const ResourceSlice& slice : slices)
    if (auto done = write(pool, slice, slices.size()); !done) return failed(done.error());
  std::vector<std::string> extra;
  for (const auto& [name, head] : heads_)
    if (!wanted.contains(name)) extra.push_back(name);
  for (const std::string& name : extra)
    if (auto done = remove(name); !done) return failed(done.error());
  written_ = std::move(wanted);
  known_ = true;
  return true;
}

}  // namespace partita::dra
