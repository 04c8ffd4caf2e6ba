#include "fleet_oracle.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/document.h"

namespace partita::actuation_tests {

using sim_driver::Machine;
using sim_driver::SimGpu;
using sim_driver::SimInstance;

namespace {

const SimGpu* gpu_of(const Machine& machine, const std::string& uuid) {
  for (const SimGpu& gpu : machine.gpus()) {
    if (gpu.uuid == uuid) return &gpu;
  }
  return nullptr;
}

const hw::MigProfile& fleet_oracle_profile_of(const SimGpu& gpu, const SimInstance& instance) {
  return gpu.model->profiles[static_cast<std::size_t>(instance.profile)];
}

bool whole(const SimGpu& gpu, const SimInstance& instance) {
  return instance.compute.size() == 1 &&
         instance.compute.front().gpcs == fleet_oracle_profile_of(gpu, instance).gpcs;
}

std::string name_of(const SimGpu& gpu, int index, const SimInstance& instance) {
  return fmt::format("gpu {} {} at {} (gi {})", index, fleet_oracle_profile_of(gpu, instance).name,
                     instance.start, instance.gi_id);
}

std::string text_of(const Node& record, std::string_view key) {
  const Node* node = record.find(key);
  return node == nullptr ? std::string{} : node->text;
}

int number_of(const Node& record, std::string_view key) {
  const Node* node = record.find(key);
  return node == nullptr ? 0 : static_cast<int>(node->number);
}

PlaceKey place_of(const Node& record) {
  return {text_of(record, "gpu_uuid"), text_of(record, "profile"), number_of(record, "start")};
}

const actuate::WantedInstance* wanted_at(const actuate::WantedGpu& gpu, const hw::GpuModel& model,
                                         const SimInstance& there) {
  for (const actuate::WantedInstance& one : gpu.instances) {
    if (one.start == there.start && model.profile_index(one.profile) == there.profile) return &one;
  }
  return nullptr;
}

// Whether an instance of others can stay beside everything that a GPU is wanted to have.
bool fits_beside(const SimGpu& gpu, const SimInstance& stray, const actuate::WantedGpu& wanted) {
  std::vector<hw::PlacedProfile> placed{{stray.profile, stray.start}};
  for (const actuate::WantedInstance& one : wanted.instances) {
    placed.push_back({gpu.model->profile_index(one.profile), one.start});
  }
  return hw::conflicts(*gpu.model, placed).empty();
}

}  // namespace

bool FleetOracle::managed(const SimGpu& gpu, const actuate::Wanted& target) {
  return std::any_of(target.gpus.begin(), target.gpus.end(), [&](const auto& wanted) {
    return wanted.uuid.empty() ? wanted.model == gpu.model->name : wanted.uuid == gpu.uuid;
  });
}

void FleetOracle::violate(const std::string& what) {
  if (std::find(violations.begin(), violations.end(), what) == violations.end()) {
    violations.push_back(what);
  }
}

void FleetOracle::begin(const Operation& operation) {
  operation_ = operation;
  floors_.clear();
  held_.clear();
}

// ---- what stays ----

// What runs where.
std::set<std::pair<PlaceKey, std::string>> FleetOracle::layout(const Machine& machine) const {
  std::set<std::pair<PlaceKey, std::string>> rows;
  for (const SimGpu& gpu : machine.gpus()) {
    for (const SimInstance& one : gpu.instances) {
      if (!whole(gpu, one)) continue;
      const auto running = std::find_if(assigned_.begin(), assigned_.end(), [&](const auto& it) {
        return it.device == one.compute.front().uuid;
      });
      rows.insert({{gpu.uuid, fleet_oracle_profile_of(gpu, one).name, one.start},
                   running == assigned_.end() ? std::string{} : running->service});
    }
  }
  return rows;
}

// A matching stays as it was decided, but for GPUs that fell off the bus.
void FleetOracle::match(const std::vector<std::string>& gpu_uuids, bool same_transaction,
                        const Machine& machine) {
  for (std::size_t w = 0; same_transaction && w < gpu_uuids.size(); ++w) {
    if (w < matched_.size() && gpu_uuids[w] != matched_[w] && !wiped_.contains(matched_[w])) {
      violate(fmt::format("wanted GPU {} moves from {} to {}", w, matched_[w], gpu_uuids[w]));
    }
  }
  matched_ = gpu_uuids;
  if (same_transaction) return;
  ++transactions;
  wiped_.clear();
  if (operation_.target == nullptr) return violate("a transaction without a target");
  if (pending_ && *operation_.target == begun_) violate("what was cut short is begun anew");
  begun_ = *operation_.target;
  source_ = layout(machine);
}

// At the beginning of a transaction: what is there already as the target wants it, what stands on
// GPUs that the target does not speak of, and what others made that can stay.
void FleetOracle::protect(const std::vector<std::string>& gpu_uuids, const Machine& machine) {
  protected_.clear();
  if (operation_.target == nullptr) return;
  const actuate::Wanted& target = *operation_.target;
  if (gpu_uuids.size() != target.gpus.size()) return violate("a matching of other GPUs");
  std::map<std::string, const actuate::WantedGpu*> wanted_of;
  for (std::size_t w = 0; w < gpu_uuids.size(); ++w) {
    const SimGpu* gpu = gpu_of(machine, gpu_uuids[w]);
    if (gpu == nullptr || gpu->model->name != target.gpus[w].model) {
      violate(fmt::format("wanted GPU {} is matched with {}", w, gpu_uuids[w]));
    }
    if (!wanted_of.emplace(gpu_uuids[w], &target.gpus[w]).second) violate("a GPU matched twice");
  }
  static const actuate::WantedGpu nothing;
  for (std::size_t g = 0; g < machine.gpus().size(); ++g) {
    const SimGpu& gpu = machine.gpus()[g];
    const auto found = wanted_of.find(gpu.uuid);
    const actuate::WantedGpu& wanted = found == wanted_of.end() ? nothing : *found->second;
    for (const SimInstance& one : gpu.instances) {
      const InstanceKey key{static_cast<int>(g), one.gi_id};
      const bool other = strays_.contains(key);
      const bool usable = whole(gpu, one) || one.compute.empty();
      const bool kept = usable && wanted_at(wanted, *gpu.model, one) != nullptr;
      const bool left = other && operation_.keep_foreign && fits_beside(gpu, one, wanted);
      if (kept || left || !managed(gpu, target)) protected_.insert(key);
    }
  }
  guarded += static_cast<long>(protected_.size());
}

// ---- calls ----

void FleetOracle::before_create(const Machine& machine, int gpu, int nvml_enum, int start) {
  const SimGpu* at = machine.find(gpu);
  if (at == nullptr) return violate("a GPU that is not there");
  std::string profile;
  for (const hw::MigProfile& one : at->model->profiles) {
    if (one.nvml_enum == nvml_enum) profile = one.name;
  }
  if (!pending_ || operation_.target == nullptr) {
    return violate("something is created outside a transaction");
  }
  if (!intended_.contains({at->uuid, profile, start})) {
    violate(fmt::format("gpu {} {} at {} is created and not announced", gpu, profile, start));
  }
  if (!managed(*at, *operation_.target)) {
    violate(fmt::format("gpu {} is nobody's target", gpu));
  }
}

void FleetOracle::before_create_compute(const Machine& machine, int gpu, int gi_id) {
  const SimGpu* at = machine.find(gpu);
  const SimInstance* instance = at == nullptr ? nullptr : at->find(gi_id);
  if (instance == nullptr) return;
  if (!intended_.contains(
          {at->uuid, fleet_oracle_profile_of(*at, *instance).name, instance->start})) {
    violate(name_of(*at, gpu, *instance) + " is completed and not announced");
  }
  strays_.erase({gpu, gi_id});  // half made by others, finished by the program: its own from now on
  ours_.insert({gpu, gi_id});
}

void FleetOracle::before_destroy(const Machine& machine, int gpu, int gi_id) {
  const SimGpu* at = machine.find(gpu);
  const SimInstance* instance = at == nullptr ? nullptr : at->find(gi_id);
  if (instance == nullptr) return;
  const std::string name = name_of(*at, gpu, *instance);
  if (!pending_ || operation_.target == nullptr) {
    violate(name + " is destroyed outside a transaction");
  }
  if (held_[gpu].contains(gi_id)) violate(name + " is destroyed though processes hold it");
  if (!protected_.contains({gpu, gi_id})) {
    ++destroyed;
    return;
  }
  violate(name + (strays_.contains({gpu, gi_id}) ? " of others is destroyed"
                                                 : " is destroyed though it does not change"));
}

void FleetOracle::looked(int gpu, const device::GpuState& state) {
  held_[gpu].clear();
  for (const device::Instance& one : state.instances) {
    if (one.busy()) held_[gpu].insert(one.gi_id);
  }
}

void FleetOracle::check(const Machine& machine) {
  for (std::size_t g = 0; g < machine.gpus().size(); ++g) {
    for (const SimInstance& one : machine.gpus()[g].instances) {
      const InstanceKey key{static_cast<int>(g), one.gi_id};
      if (!strays_.contains(key)) ours_.insert(key);
    }
  }
  for (auto it = ours_.begin(); it != ours_.end();) {
    const SimGpu& gpu = *machine.find(it->first);
    const SimInstance* one = gpu.find(it->second);
    if (one == nullptr) {
      protected_.erase(*it);
      it = ours_.erase(it);
      continue;
    }
    const bool noted =
        intended_.contains({gpu.uuid, fleet_oracle_profile_of(gpu, *one).name, one->start}) ||
        (!one->compute.empty() && owned_.contains(one->compute.front().uuid));
    if (!noted) violate(name_of(gpu, it->first, *one) + " is ours and not in the journal");
    ++it;
  }
  std::erase_if(strays_, [&](const InstanceKey& key) {
    const bool gone = machine.find(key.first)->find(key.second) == nullptr;
    if (gone) protected_.erase(key);
    return gone;
  });
  check_floors(machine);
}

void FleetOracle::removed_by_others(int gpu, int gi_id) {
  strays_.erase({gpu, gi_id});
  protected_.erase({gpu, gi_id});
  floors_.clear();  // something may have been assigned to it
}

void FleetOracle::wiped(int gpu, const std::string& uuid) {
  wiped_.insert(uuid);
  const auto there = [&](const InstanceKey& key) { return key.first == gpu; };
  std::erase_if(ours_, there);
  std::erase_if(strays_, there);
  std::erase_if(protected_, there);
  held_.erase(gpu);
  floors_.clear();  // capacity that a fault took
}

// ---- the journal ----

void FleetOracle::journal_is(std::string_view text, const Machine& machine) {
  const bool again = text.size() < read_bytes_;  // cut or rewritten
  if (again) {
    intended_.clear();
    owned_.clear();
    pending_ = false;
    read_bytes_ = 0;
  }
  while (true) {
    const std::size_t end = text.find('\n', read_bytes_);
    if (end == std::string_view::npos) return;
    const bool header = read_bytes_ == 0 && text.substr(8).starts_with(" partita log 1 changes\n");
    std::vector<std::string> begun;
    if (!header) begun = read_line(text.substr(read_bytes_, end - read_bytes_), machine, again);
    if (!begun.empty() && !again) protect(begun, machine);
    read_bytes_ = end + 1;
  }
}

// Takes note of a record; of a transaction that begins its matching.
std::vector<std::string> FleetOracle::read_line(std::string_view line, const Machine& machine,
                                                bool again) {
  const auto document = line.size() > 9 && line[9] == '{'
                            ? parse_document("journal", line.substr(9))
                            : bad_input("journal", "no record");
  if (!document) {
    violate("a damaged line in the journal: " + std::string(line));
    return {};
  }
  const Node& record = document->root;
  const std::string kind = text_of(record, "record");
  std::vector<std::string> matching;
  if (kind == "begin") {
    for (const Node& one : record.find("gpu_uuids")->items) matching.push_back(one.text);
    if (!again) match(matching, number_of(record, "transaction") == transaction_, machine);
    transaction_ = number_of(record, "transaction");
    pending_ = true;
  } else if (kind == "intent") {
    const PlaceKey place = place_of(record);
    intended_.insert(place);
    std::erase_if(strays_, [&](const InstanceKey& key) {
      const SimGpu& gpu = *machine.find(key.first);
      const SimInstance* one = gpu.find(key.second);
      const bool taken =
          one != nullptr &&
          place == PlaceKey{gpu.uuid, fleet_oracle_profile_of(gpu, *one).name, one->start};
      if (taken) ours_.insert(key);
      return taken;
    });
  } else if (kind == "made") {
    intended_.erase(place_of(record));
    if (!text_of(record, "uuid").empty()) owned_.insert(text_of(record, "uuid"));
  } else if (kind == "gone") {
    owned_.erase(text_of(record, "uuid"));
  } else if (kind == "end") {
    pending_ = text_of(record, "outcome") != "done";
  }
  return matching;
}

// ---- floors ----

void FleetOracle::assignment_is(std::string_view text, const Machine& machine) {
  const auto document = parse_document("assignment", text);
  if (!document) return violate("a damaged assignment");
  assigned_.clear();
  for (const Node& one : document->root.find("segments")->items) {
    const Node* rps = one.find("throughput_rps");
    assigned_.push_back({text_of(one, "device"), text_of(one, "gpu_uuid"), text_of(one, "service"),
                         rps == nullptr ? 0 : rps->number});
  }
  check_floors(machine);
}

// What is assigned to devices that exist, on the GPUs that the target speaks of.
std::map<std::string, double> FleetOracle::capacities(const Machine& machine) const {
  std::set<std::string> devices;
  for (const SimGpu& gpu : machine.gpus()) {
    if (!managed(gpu, *operation_.target)) continue;
    for (const SimInstance& instance : gpu.instances) {
      for (const auto& compute : instance.compute) devices.insert(compute.uuid);
    }
  }
  std::map<std::string, double> up;
  for (const Running& one : assigned_) {
    if (devices.contains(one.device)) up[one.service] += one.rps;
  }
  return up;
}

void FleetOracle::promised(const actuate::Change& change, const Machine& machine) {
  floors_.clear();
  std::map<std::string, double> after;
  for (const actuate::WantedGpu& gpu : operation_.target->gpus) {
    for (const actuate::WantedInstance& one : gpu.instances) {
      after[one.segment.service] += one.segment.throughput_rps;
    }
  }
  for (const auto& [service, before] : capacities(machine)) {
    floors_[service] = operation_.min_available * std::min(before, after[service]);
  }
  for (const actuate::Affected& one : change.affected) {
    if (!one.why_below.empty()) floors_.erase(one.service);
  }
}

void FleetOracle::check_floors(const Machine& machine) {
  if (operation_.target == nullptr || floors_.empty()) return;
  std::map<std::string, double> up = capacities(machine);
  for (const auto& [service, least] : floors_) {
    if (up[service] >= least * (1 - 1e-9) - 1e-9) continue;
    violate(fmt::format("{} has {} of {} that were promised", service, up[service], least));
  }
}

}  // namespace partita::actuation_tests
