#include "dra/claim_energy.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/append.h"

namespace partita::cli {
namespace {

constexpr std::string_view kOwner = "claim:";

std::string with_underscores(std::string uid) {
  std::ranges::replace(uid, '-', '_');
  return uid;
}

// Where a kubelet puts a pod, with systemd and without, by its class of service.
std::vector<std::string> places_of(const std::string& cgroups, const std::string& uid) {
  const std::string slice = with_underscores(uid);
  std::vector<std::string> all = {
      fmt::format("{}/kubepods.slice/kubepods-pod{}.slice", cgroups, slice),
      fmt::format("{}/kubepods/pod{}", cgroups, uid)};
  for (const char* kind : {"burstable", "besteffort"}) {
    all.push_back(fmt::format("{0}/kubepods.slice/kubepods-{1}.slice/kubepods-{1}-pod{2}.slice",
                              cgroups, kind, slice));
    all.push_back(fmt::format("{}/kubepods/{}/pod{}", cgroups, kind, uid));
  }
  return all;
}

void family(std::string& out, const char* name, const char* help) {
  append(out, "# HELP {0} {1}\n# TYPE {0} counter\n", name, help);
}

}  // namespace

std::vector<observe::TenantProcess> ClaimEnergy::pods_of(const std::vector<dra::Claim>& claims) {
  std::vector<observe::TenantProcess> pods;
  for (const dra::Claim& claim : claims)
    for (const dra::ClaimPod& pod : claim.pods) {
      if (std::ranges::find(pods, pod.uid, &observe::TenantProcess::tenant) != pods.end()) continue;
      for (const std::string& place : places_of(flags_.cgroups, pod.uid))
        if (context_.files.exists(place + "/cpu.stat"))
          pods.push_back({.tenant = pod.uid, .cgroup = place});
    }
  return pods;
}

// A device may have the UUID of an earlier one: what that took is not this claim's.
void ClaimEnergy::add(const lease::Lease& lease, const telemetry::Sample& sample) {
  if (!lease.owner.starts_with(kOwner) || lease.uuid.empty()) return;
  const std::string uid = lease.owner.substr(kOwner.size(), lease.owner.find('/') - kOwner.size());
  const auto taken = taken_.find(uid);
  if (taken == taken_.end()) return;
  const double now = instances_.of(lease.uuid, sample.at);
  const auto [last, fresh] = taken->second.last.try_emplace(lease.uuid, now);
  taken->second.joules += std::max(0.0, now - std::exchange(last->second, now));
}

void ClaimEnergy::end(const Taken& taken) {
  std::string text = fmt::format("claim {}/{} took {:.0f} J of its instances",
                                 taken.claim.name_space, taken.claim.name, taken.joules);
  for (const dra::ClaimPod& pod : taken.claim.pods)
    if (const auto part = host_.part_of(pod.uid))
      append(text, "; pod {} took {:.0f} J of CPUs and memory, {:.0f} J of it idle power", pod.name,
             part->joules, part->idle_joules);
  note(context_, text + "\n");
}

void ClaimEnergy::look(const telemetry::Sample& sample, const std::vector<lease::Lease>& leases,
                       const std::vector<dra::Claim>& claims) {
  instances_.see(sample);
  const auto pods = pods_of(claims);
  host_.see(reader_.read(sample.at, pods), {});
  std::set<std::string> there, users;
  for (const dra::Claim& claim : claims) {
    there.insert(claim.uid);
    taken_[claim.uid].claim = claim;
    for (const dra::ClaimPod& pod : claim.pods) users.insert(pod.uid);
  }
  for (const lease::Lease& lease : leases) add(lease, sample);
  for (auto one = taken_.begin(); one != taken_.end();) {
    if (there.contains(one->first)) {
      ++one;
      continue;
    }
    end(one->second);
    for (const dra::ClaimPod& pod : one->second.claim.pods)
      if (!users.contains(pod.uid)) host_.forget(pod.uid);
    one = taken_.erase(one);
  }
  std::vector<observe::TenantProcess> kept;  // those, too, whose cgroups have gone
  for (const std::string& uid : users) kept.push_back({.tenant = uid});
  reader_.keep_only(kept);
  const auto written = context_.files.write_atomic(flags_.file, metrics());
  const std::string why = written ? "" : to_string(written.error());
  if (why != said_ && !why.empty()) complain(context_, why);
  said_ = why;
}

std::string ClaimEnergy::metrics() const {
  std::string out;
  family(out, "partita_claim_energy_joules_total", "That the instances of a claim took.");
  for (const auto& [uid, taken] : taken_)
    append(out,
           "partita_claim_energy_joules_total{{namespace=\"{}\",claim=\"{}\",uid=\"{}\"}} {}\n",
           metric_label(taken.claim.name_space), metric_label(taken.claim.name), uid, taken.joules);
  std::map<std::string, std::string> pods;  // labels, by UID
  for (const auto& [uid, taken] : taken_)
    for (const dra::ClaimPod& pod : taken.claim.pods)
      pods[pod.uid] =
          fmt::format("{{namespace=\"{}\",pod=\"{}\",uid=\"{}\"}}",
                      metric_label(taken.claim.name_space), metric_label(pod.name), pod.uid);
  using Part = control::HostMeter::Part;
  const auto of_pods = [&](const char* name, const char* help, double Part::*what) {
    family(out, name, help);
    for (const auto& [uid, labels] : pods)
      if (const auto part = host_.part_of(uid))
        append(out, "{}{} {}\n", name, labels, (*part).*what);
  };
  of_pods("partita_pod_host_energy_joules_total",
          "The part of a pod with a claim of what CPUs and memory took, by CPU time.",
          &Part::joules);
  of_pods("partita_pod_host_idle_joules_total",
          "Of these: idle power, by the least that CPUs and memory were seen to take.",
          &Part::idle_joules);
  if (!host_.whole()) return out;
  family(out, "partita_node_energy_joules_total",
         "That CPUs and memory of the node took, by RAPL.");
  for (const auto& [part, joules] :
       {std::pair("cpu", host_.whole()->cpu_j), std::pair("dram", host_.whole()->dram_j)})
    if (joules) append(out, "partita_node_energy_joules_total{{part=\"{}\"}} {}\n", part, *joules);
  return out;
}

}  // namespace partita::cli
