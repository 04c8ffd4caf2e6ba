#include "fleet/kubelet/plugin.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/index.h"

namespace partita::dra {
namespace {

constexpr const char* kSlices = "/apis/resource.k8s.io/v1/resourceslices";
constexpr int kOk = 200, kCreated = 201, kForbidden = 403, kNotFound = 404, kConflict = 409;

std::string owner_of(const std::string& uid, const std::string& device) {
  return fmt::format("{}{}/{}", kOwner, uid, device);
}

std::string uid_of(const std::string& owner) {
  const std::size_t begin = std::string_view(kOwner).size();
  return owner.substr(begin, owner.find('/') - begin);
}

// A file that was read and says nothing that could be undone.
bool damaged(const Result<std::vector<StandingShare>>& shares) {
  return !shares && shares.error().code != ErrorCode::environment;
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
  if (!claim->fault.empty()) return bad_input(wanted.name, claim->fault);
  return claim;
}

Result<NodeLook> Plugin::look() {
  const std::lock_guard lock(node_mutex_);
  return node_.look();
}

void Plugin::with_node(const std::function<void(const NodeLook&)>& take) {
  const std::lock_guard lock(node_mutex_);
  if (const auto seen = node_.look()) take(*seen);
}

// A device's name says GPU, profile and start for good, so the node is not read for it again.
Result<Plugin::Place> Plugin::place_of(const std::string& device) {
  if (const auto known = places_.find(device); known != places_.end()) return known->second;
  const auto now = look();
  if (!now) return failed(now.error());
  const Pool pool = pool_of(now->gpus);
  for (const PoolDevice& one : pool.devices) {
    const PoolGpu& gpu = pool.gpus[one.gpu];
    const hw::MigProfile& profile = gpu.model->profiles[at(one.place.profile)];
    Place& place = places_[one.name];
    place.lease = {.owner = {},
                   .profile = profile.name,
                   .gpu = gpu.gpu.index,
                   .start = one.place.start,
                   .exact = true};
    place.instance.whole_gpu = profile.gpcs == gpu.model->compute_slices;
    if (profile.memory) place.instance.memory_mib = profile.memory->value;
  }
  const auto found = places_.find(device);
  if (found == places_.end()) return bad_input(device, "the node has no such device");
  return found->second;
}

// All that can be wrong with a claim is said before anything is made.
Result<std::vector<Plugin::Allotted>> Plugin::allotted(const Claim& claim) {
  std::vector<Allotted> all;
  for (const ClaimedDevice& one : claim.devices) {
    if (one.pool != settings_.node) continue;
    auto place = place_of(one.device);
    if (!place) return failed(place.error());
    place->instance.request = one.request;
    place->lease.owner = owner_of(claim.uid, one.device);
    const auto share = share_of(claim.shares, place->instance);
    if (!share) return failed(share.error());
    if (share->power_cap_w) {
      const std::lock_guard lock(node_mutex_);
      if (auto may = node_.may_cap(*place->lease.gpu, *share->power_cap_w); !may)
        return failed(may.error());
    }
    all.push_back({one, *place, *share});
  }
  if (all.empty()) return bad_input(claim.name, "no device of this node is allocated to it");
  if (all.size() > 1 &&
      std::ranges::any_of(all, [](const auto& one) { return one.share.mps.has_value(); }))
    return bad_input(claim.name, "mps is for claims of one device: a process has one MPS daemon");
  return all;
}

Result<CdiDevice> Plugin::lend(const std::string& uid, const Allotted& one) {
  const std::lock_guard lock(node_mutex_);
  auto taken = node_.take(one.place.lease);
  if (!taken) return failed(taken.error());
  CdiDevice given{one.of.device, *std::move(taken), one.share};
  if (!one.share.mps) return given;
  auto edits = node_.mps_edits(given.lease.lease.uuid, *one.share.mps);
  if (!edits) {
    if (auto back = node_.give_back(kOwner + uid); !back) return failed(back.error());
    return failed(edits.error());
  }
  given.environment = std::move(edits->environment);
  given.mount = std::move(edits->mount);
  return given;
}

// The file says what is to be undone, so it is written before a share is put in effect.
Result<PreparedClaim> Plugin::prepared(const ClaimName& wanted) {
  const auto claim = claim_of(wanted);
  if (!claim) return failed(claim.error());
  const auto all = allotted(*claim);
  if (!all) return failed(all.error());
  PreparedClaim done{wanted.uid};
  std::vector<CdiDevice> given;
  for (const Allotted& one : *all) {
    auto device = lend(wanted.uid, one);
    if (!device) return failed(device.error());
    given.push_back(*std::move(device));
    done.devices.push_back(
        {one.of.request, one.of.pool, one.of.device, cdi_id(wanted.uid, one.of.device)});
  }
  if (auto made = files_.make_directories(settings_.cdi_directory); !made)
    return failed(made.error());
  const std::string name = cdi_file_name(wanted.uid), text = cdi_json(wanted.uid, given);
  if (auto kept = files_.write_atomic(settings_.cdi_directory + "/" + name, text); !kept)
    return failed(kept.error());
  const auto shares = parse_standing_shares(name, text);
  if (!shares) return failed(shares.error());
  if (auto shared = share(*shares); !shared) return failed(shared.error());
  return done;
}

Result<void> Plugin::share(const std::vector<StandingShare>& shares) {
  for (const StandingShare& one : shares)
    if (one.mps)
      if (auto started = node_.start_mps(one.uuid); !started) return started;
  if (std::ranges::any_of(shares, [](const auto& one) { return one.power_cap_w.has_value(); }))
    return settle_caps();
  return {};
}

Result<std::vector<std::string>> Plugin::claim_files() const {
  if (!files_.is_directory(settings_.cdi_directory)) return std::vector<std::string>{};
  auto names = files_.list(settings_.cdi_directory);
  if (names) std::erase_if(*names, [](const std::string& name) { return !is_cdi_file(name); });
  return names;
}

Result<std::vector<StandingShare>> Plugin::standing_shares(const std::string& name) const {
  const std::string file = settings_.cdi_directory + "/" + name;
  if (!files_.exists(file)) return std::vector<StandingShare>{};
  const auto text = files_.read(file);
  if (!text) return failed(text.error());
  return parse_standing_shares(file, *text);
}

// What a claim's leases may have, where its file does not say it: an MPS daemon that is not there
// ends without an error.
Result<std::vector<StandingShare>> Plugin::possible_shares(const std::string& uid) {
  const auto now = look();
  if (!now) return failed(now.error());
  std::vector<StandingShare> all;
  for (const lease::Lease& one : now->leases)
    if (one.owner.starts_with(owner_of(uid, ""))) all.push_back({one.uuid, one.gpu_uuid, true});
  return all;
}

// Of each GPU the lowest cap of its claims.
Result<void> Plugin::set_caps() {
  const auto names = claim_files();
  if (!names) return failed(names.error());
  std::map<std::string, double> caps;
  for (const std::string& name : *names) {
    const auto shares = standing_shares(name);
    if (damaged(shares)) continue;
    if (!shares) return failed(shares.error());
    for (const StandingShare& one : *shares)
      if (one.power_cap_w) {
        double& cap = caps.try_emplace(one.gpu, *one.power_cap_w).first->second;
        cap = std::min(cap, *one.power_cap_w);
      }
  }
  const std::lock_guard lock(node_mutex_);
  return node_.cap(caps);
}

Result<void> Plugin::settle_caps() {
  auto done = set_caps();
  caps_due_ = !done;
  return done;
}

Result<void> Plugin::settle_due() {
  if (!caps_due_) return {};
  const std::lock_guard lock(claims_mutex_);
  return settle_caps();
}

Result<void> Plugin::recover() {
  const auto names = claim_files();
  if (!names) return failed(names.error());
  Result<void> first;
  for (const std::string& name : *names) {
    const auto shares = standing_shares(name);
    Result<void> done;
    if (shares)
      done = share(*shares);
    else
      done = failed(shares.error());
    if (first && !done) first = done;
  }
  const Result<void> settled = settle_caps();
  return first ? settled : first;
}

std::vector<PreparedClaim> Plugin::prepare(const std::vector<ClaimName>& claims) {
  const std::lock_guard lock(claims_mutex_);
  std::vector<PreparedClaim> all;
  for (const ClaimName& one : claims) {
    auto done = prepared(one);
    all.push_back(done ? *std::move(done) : PreparedClaim{one.uid, {}, to_string(done.error())});
  }
  return all;
}

Result<void> Plugin::give_back(const std::string& uid) {
  const std::string name = cdi_file_name(uid);
  const auto said = standing_shares(name);
  const auto shares = damaged(said) ? possible_shares(uid) : said;
  if (!shares) return failed(shares.error());
  for (const StandingShare& one : *shares)
    if (one.mps)
      if (auto quit = node_.quit_mps(one.uuid); !quit) return quit;
  {
    const std::lock_guard lock(node_mutex_);
    if (auto gone = node_.give_back(kOwner + uid); !gone) return gone;
  }
  if (auto gone = files_.remove(settings_.cdi_directory + "/" + name); !gone) return gone;
  if (damaged(said) ||
      std::ranges::any_of(*shares, [](const auto& one) { return one.power_cap_w.has_value(); }))
    return settle_caps();
  return {};
}

std::vector<PreparedClaim> Plugin::unprepare(const std::vector<ClaimName>& claims) {
  const std::lock_guard lock(claims_mutex_);
  std::vector<PreparedClaim> all;
  for (const ClaimName& one : claims) {
    const auto done = give_back(one.uid);
    all.push_back({one.uid, {}, done ? "" : to_string(done.error())});
  }
  return all;
}

std::vector<PreparedClaim> Plugin::return_gone(const std::function<Result<ClaimList>()>& list) {
  const std::vector<std::string> due = gone_.take_due();
  if (due.empty()) return {};
  const auto listed = list();
  std::vector<PreparedClaim> all;
  for (const std::string& uid : due) {
    if (!listed || std::ranges::count(listed->claims, uid, &Claim::uid) > 0) continue;
    const std::lock_guard lock(claims_mutex_);
    const auto done = give_back(uid);
    all.push_back({uid, {}, done ? "" : to_string(done.error())});
  }
  return all;
}

// ---- the pool

std::string Plugin::path_of(const std::string& slice) const {
  return fmt::format("{}/{}", kSlices, slice);
}

// What is there of this node, whoever wrote it or deleted it.
Result<void> Plugin::learn_heads(std::int64_t now_ns) {
  const auto answer =
      api_.ask("GET", fmt::format("{}?fieldSelector=spec.nodeName%3D{}", kSlices, settings_.node));
  if (!answer) return failed(answer.error());
  if (answer->status != kOk) return refused(kSlices, *answer);
  const auto heads = parse_slices("the API server's slices", answer->body, settings_.node);
  if (!heads) return failed(heads.error());
  std::map<std::string, SliceHead> there;
  for (const SliceHead& head : *heads) {
    generation_ = std::max(generation_, head.generation);
    there[head.name] = head;
  }
  if (!known_ || there != heads_) written_.clear();
  heads_ = std::move(there);
  known_ = true;
  learnt_ns_ = now_ns;
  return {};
}

// Empty: it is not to be had.
Result<std::string> Plugin::node_uid() const {
  const std::string path = "/api/v1/nodes/" + settings_.node;
  const auto answer = api_.ask("GET", path);
  if (!answer) return failed(answer.error());
  if (answer->status == kNotFound || answer->status == kForbidden) return std::string();
  if (answer->status != kOk) return failed(refused(path, *answer).error());
  return parse_node_uid("the API server's node", answer->body);
}

Result<void> Plugin::write(const Pool& pool, const ResourceSlice& slice,
                           const SliceWriting& writing) {
  SliceHead& head = heads_.try_emplace(slice.name, SliceHead{slice.name}).first->second;
  const std::string body = slice_json(pool, slice, head, writing);
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

Result<bool> Plugin::publish(const ClaimsNow& claims, std::int64_t now_ns) {
  auto now = look();
  if (!now) return failed(now.error());
  // Which places are claimed is told by the leases, and by the scheduler before there is one.
  for (PoolGpu& gpu : now->gpus) gpu.claimed.clear();
  Pool pool = pool_of(now->gpus);
  std::set<std::string> devices = claims.devices;
  std::vector<HeldByClaim> held;
  for (const lease::Lease& one : now->leases)
    if (one.owner.starts_with(kOwner)) held.push_back({uid_of(one.owner), one.busy});
  gone_.see(held, claims, now_ns);
  for (const lease::Lease& one : now->leases)
    if (one.owner.starts_with(kOwner) && !gone_.has(uid_of(one.owner)))
      devices.insert(one.owner.substr(one.owner.find('/') + 1));
  for (const std::string& name : devices)
    if (const PoolDevice* device = find_device(pool, name))
      now->gpus[device->gpu].claimed.push_back(device->place);
  pool = pool_of(std::move(now->gpus));

  if (looks_anew_.exchange(false) || !known_ || now_ns - learnt_ns_ >= kSlicesAnew)
    if (auto learnt = learn_heads(now_ns); !learnt) {
      looks_anew_ = true;
      return failed(learnt.error());
    }
  const std::vector<ResourceSlice> slices = slices_of(pool, settings_.node);
  std::map<std::string, std::string> wanted;
  for (const ResourceSlice& slice : slices)
    wanted[slice.name] = slice_json(pool, slice, {slice.name}, {settings_.node, 0, slices.size()});
  const auto names = [](const auto& one) -> const std::string& { return one.first; };
  if (wanted == written_ && std::ranges::equal(wanted, heads_, {}, names, names)) return false;
  auto uid = node_uid();
  if (!uid) return failed(uid.error());
  ++generation_;
  known_ = false;  // until all are written
  const SliceWriting writing{settings_.node, generation_, slices.size(), *std::move(uid)};
  for (const ResourceSlice& slice : slices)
    if (auto done = write(pool, slice, writing); !done) return failed(done.error());
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
