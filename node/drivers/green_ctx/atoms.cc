#include "drivers/green_ctx/atoms.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

namespace partita::drivers::green_ctx {
namespace {

struct Rules {
  unsigned least = 0;      // SMs of a group
  unsigned alignment = 0;  // groups are a multiple of
};

// What the device says; libraries before CUDA 13 leave it out, then by compute capability.
Rules rules_of(const abi::SmResource& sm, int major) {
  if (sm.min_partition > 0 && sm.alignment > 0) return {sm.min_partition, sm.alignment};
  if (major >= 9) return {8, 8};
  return {major == 8 ? 4u : 2u, 2};
}

// The arrangement of the board in GPCs, when a shipped one has its name ("NVIDIA H100 80GB HBM3"),
// its SMs and its atoms.
std::optional<hw::Topology> known_topology(std::string_view name, const Atoms& atoms, int sms) {
  if (name.starts_with("NVIDIA ")) name.remove_prefix(7);
  const auto known = hw::topology_named(name.substr(0, name.find_first_of(" -")));
  if (!known || known->units() != sms) return std::nullopt;
  const int made = hw::in_atoms(*known, atoms.size).units();
  if (made != static_cast<int>(atoms.groups.size())) return std::nullopt;
  return *known;
}

// One cluster of all atoms; what is left over lies in clusters too small for an atom.
hw::Topology flat_topology(const char* name, const Atoms& atoms, int sms) {
  hw::Topology flat;
  flat.name = name;
  flat.cluster_name = "part";
  flat.unit_name = "SM";
  flat.units_in = {atoms.size * static_cast<int>(atoms.groups.size())};
  for (int left = sms - flat.units_in[0]; left > 0 && atoms.size > 1;) {
    flat.units_in.push_back(std::min(left, atoms.size - 1));
    left -= flat.units_in.back();
  }
  flat.atoms = {atoms.size};
  flat.source = "what CUDA says of the GPU; its GPCs are not known";
  return flat;
}

}  // namespace

Result<Atoms> split_into_atoms(const PrimaryContext& gpu, int size) {
  const std::string call = fmt::format("open(atom {})", size);
  const CudaApi& api = gpu.api();
  const auto checked = [&](abi::Return code) { return gpu.library().checked(code, call); };
  abi::Resource all = {}, rest = {};
  char name[128] = {};
  int major = 0;
  TRY(checked(api.device_name(name, sizeof name - 1, gpu.device())));
  TRY(checked(api.device_attribute(&major, abi::kComputeCapabilityMajor, gpu.device())));
  TRY(checked(api.device_resource(gpu.device(), &all, abi::kResourceTypeSm)));
  const auto sms = static_cast<int>(all.sm.count);
  if (sms < 1 || sms > hw::kMaxUnits)
    return failed({ErrorCode::limit, fmt::format("{} SMs; {} can be", sms, hw::kMaxUnits), call});
  const Rules rules = rules_of(all.sm, major);
  if (size == 0) size = static_cast<int>(std::max(rules.least, rules.alignment));
  if (size < 0 || size > sms)
    return failed({ErrorCode::invalid_argument, fmt::format("the GPU has {} SMs", sms), call});
  const auto wanted = static_cast<unsigned>(size);
  const bool fine = wanted < rules.least || wanted % rules.alignment != 0;
  Atoms atoms;
  atoms.size = size;
  atoms.groups.resize(all.sm.count / wanted);
  auto count = static_cast<unsigned>(atoms.groups.size());
  TRY(checked(api.split(atoms.groups.data(), &count, &all, &rest,
                        fine ? abi::kIgnoreSmCoscheduling : 0, wanted)));
  atoms.groups.resize(std::min<std::size_t>(count, atoms.groups.size()));
  for (const abi::Resource& group : atoms.groups) {
    if (group.sm.count != wanted)
      return failed({ErrorCode::invalid_argument,
                     fmt::format("the GPU makes groups of {} SMs of this", group.sm.count), call});
  }
  if (atoms.groups.empty())
    return failed({ErrorCode::not_supported, "the GPU could not be split at all", call});
  const auto known = known_topology(name, atoms, sms);
  atoms.topology = known ? *known : flat_topology(name, atoms, sms);
  return atoms;
}

Result<SplitGpu> open_split(const std::string& file, const std::string& gpu, int size) {
  auto library = TRY(CudaLibrary::open(file));
  auto opened = TRY(PrimaryContext::open(std::move(library), gpu));
  const Current current(*opened);
  auto atoms = TRY(split_into_atoms(*opened, size));
  return SplitGpu{std::move(opened), std::move(atoms)};
}

}  // namespace partita::drivers::green_ctx
