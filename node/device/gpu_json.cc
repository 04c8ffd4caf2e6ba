#include "device/gpu_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/unicode.h"

namespace partita::device {
namespace {

constexpr std::size_t kMaxInstances = 64;  // of one GPU; compute instances of one instance too
constexpr std::size_t kMaxHolders = 1'000'000;
constexpr Range kIds{.high = 1e9};
constexpr Range kPids{.high = 4294967295.0};
constexpr Range kSlices{.high = 1023};
constexpr Range kSizes{.low = 1, .high = 1023};

// ---- writing ----

// Items on one line.
template <class Items, class Write>
void write_row(JsonWriter& out, const Items& items, Write write) {
  out.raw("[");
  bool first = true;
  for (const auto& item : items) {
    if (!first) out.raw(", ");
    write(item);
    first = false;
  }
  out.raw("]");
}

void write_holders(JsonWriter& out, const std::vector<Holder>& holders) {
  write_row(out, holders, [&](const Holder& holder) {
    out.raw("{\"pid\": ").number(static_cast<long>(holder.pid)).raw(", \"name\": ");
    write_text(out, holder.name);
    out.raw("}");
  });
}

void write_compute(JsonWriter& out, const ComputeInstance& compute) {
  out.raw("{\"ci_id\": ").number(long{compute.ci_id});
  out.raw(", \"gpcs\": ").number(long{compute.gpcs});
  out.raw(", \"uuid\": ");
  write_text(out, compute.uuid);
  out.raw("}");
}

void write_instance(JsonWriter& out, const Instance& instance, const Occupants& occupants) {
  out.raw("{\"profile\": ").string(instance.profile);
  out.raw(", \"start\": ").number(long{instance.start});
  out.raw(", \"size\": ").number(long{instance.size});
  out.raw(", \"gpcs\": ").number(long{instance.gpcs});
  out.raw(", \"profile_id\": ").number(long{instance.profile_id});
  out.raw(", \"gi_id\": ").number(long{instance.gi_id});
  out.raw(", \"uuid\": ");
  write_text(out, instance.uuid());
  out.raw(", \"busy\": ").boolean(instance.busy());
  out.raw(", \"compute\": ");
  write_row(out, instance.compute, [&](const ComputeInstance& c) { write_compute(out, c); });
  out.raw(", \"holders\": ");
  write_holders(out, instance.holders);
  const auto occupant = occupants.find(instance.uuid());
  if (!instance.uuid().empty() && occupant != occupants.end()) {
    out.raw(", \"service\": ").string(occupant->second.service);
    out.raw(", \"batch\": ").number(long{occupant->second.batch});
    out.raw(", \"processes\": ").number(long{occupant->second.processes});
  }
  out.raw("}");
}

// ---- reading ----

// Missing is `otherwise`.
int read_integer(Fields& in, std::string_view key, Range range, int otherwise) {
  return in.has(key) ? in.integer(key, range) : otherwise;
}
bool read_boolean(Fields& in, std::string_view key, bool otherwise) {
  return in.has(key) ? in.boolean(key) : otherwise;
}

std::vector<Holder> read_holders(Fields& in) {
  std::vector<Holder> holders;
  if (in.has("holders")) {
    for (const Node& item : in.list("holders", kMaxHolders)) {
      Fields holder(in, item);
      const auto pid = static_cast<std::int64_t>(holder.number("pid", kPids));
      holders.push_back({.pid = pid, .name = read_text(holder, "name")});
      if (in.error()) break;
    }
  } else if (in.has("busy") && in.boolean("busy")) {
    holders.push_back({});
  }
  std::ranges::stable_sort(holders, {}, &Holder::pid);
  return holders;
}

// What the catalogue says about the instance's profile, where the document does not.
void complete(Fields& in, const hw::GpuModel* model, Instance& instance) {
  const int at = model ? model->profile_index(instance.profile) : -1;
  const hw::MigProfile* known = at < 0 ? nullptr : &model->profiles[static_cast<std::size_t>(at)];
  for (const std::string_view key : {"size", "gpcs", "profile_id"})
    if (!known && !in.has(key))
      in.refuse(key,
                fmt::format("'{}' is missing, and the catalogue does not know the profile '{}' "
                            "of this GPU",
                            key, utf8(printable(instance.profile))));
  instance.size = read_integer(in, "size", kSizes, known ? known->size : 1);
  instance.gpcs = read_integer(in, "gpcs", kSlices, known ? known->gpcs : 0);
  instance.profile_id = read_integer(in, "profile_id", kIds, known ? known->profile_id : 0);
}

std::vector<ComputeInstance> read_compute(Fields& in, const Instance& instance,
                                          const std::string& made_up) {
  if (!in.has("compute"))
    return {{.ci_id = 0,
             .gpcs = instance.gpcs,
             .uuid = in.known("uuid") ? read_text(in, "uuid") : made_up}};
  std::vector<ComputeInstance> compute;
  for (const Node& item : in.list("compute", kMaxInstances)) {
    Fields one(in, item);
    compute.push_back({.ci_id = one.integer("ci_id", kIds),
                       .gpcs = one.integer("gpcs", kSlices),
                       .uuid = read_text(one, "uuid")});
  }
  std::ranges::stable_sort(compute, {}, &ComputeInstance::ci_id);
  return compute;
}

void read_occupant(Fields& in, const Instance& instance, Occupants& occupants) {
  constexpr Range kCounts{.high = 1e6};
  if (!in.known("service")) return;
  const Occupant occupant{.service = in.name("service"),
                          .batch = read_integer(in, "batch", kCounts, 0),
                          .processes = read_integer(in, "processes", kCounts, 0)};
  if (instance.uuid().empty()) {
    in.refuse("service", "a service is on an instance that has no compute instance with a uuid");
  } else if (!occupants.emplace(instance.uuid(), occupant).second) {
    in.refuse("service", fmt::format("the device '{}' is listed twice", instance.uuid()));
  }
}

constexpr int kNoId = -1;  // none was given

Instance read_instance(Fields in, GpuDocument& document, const hw::GpuModel* model) {
  Instance instance;
  instance.profile = in.name("profile");
  instance.start = in.integer("start", kSlices);
  complete(in, model, instance);
  instance.gi_id = read_integer(in, "gi_id", kIds, kNoId);
  instance.compute = read_compute(
      in, instance, fmt::format("MIG-gpu{}-start{}", document.gpu.index, instance.start));
  instance.holders = read_holders(in);
  read_occupant(in, instance, document.occupants);
  return instance;
}

// Who was given no number gets the start, or, where another instance has that, the lowest that is
// free.
void number_the_rest(std::vector<Instance>& instances, std::set<int> taken) {
  for (Instance& instance : instances) {
    if (instance.gi_id != kNoId) continue;
    instance.gi_id = instance.start;
    for (int id = 0; !taken.insert(instance.gi_id).second; ++id) instance.gi_id = id;
  }
}

void read_instances(Fields& in, GpuDocument& document, const hw::GpuModel* model) {
  std::set<int> ids;
  for (const Node& item : in.list("instances", kMaxInstances)) {
    document.gpu.instances.push_back(read_instance({in, item}, document, model));
    const int gi_id = document.gpu.instances.back().gi_id;
    if (gi_id != kNoId && !ids.insert(gi_id).second)
      in.refuse(item, fmt::format("two instances of this GPU have the gi_id {}", gi_id));
    if (in.error()) return;
  }
  number_the_rest(document.gpu.instances, std::move(ids));
  std::ranges::sort(document.gpu.instances, [](const Instance& a, const Instance& b) {
    return std::pair(a.start, a.gi_id) < std::pair(b.start, b.gi_id);
  });
}

}  // namespace

void write_text(JsonWriter& out, std::string_view text) {
  if (text.empty()) {
    out.raw("null");
  } else {
    out.string(utf8(printable(text)));
  }
}

std::string read_text(Fields& in, std::string_view key) {
  if (!in.known(key)) return {};
  std::string text = in.text(key);
  if (utf8(printable(text)) != text)
    in.refuse(key, fmt::format("'{}' holds characters that cannot be printed", key));
  return text;
}

void write_gpu(JsonWriter& out, const GpuState& gpu, const Occupants& occupants) {
  out.raw("{\"index\": ").number(long{gpu.index}).raw(", \"uuid\": ");
  write_text(out, gpu.uuid);
  out.raw(", \"name\": ");
  write_text(out, gpu.name);
  out.raw(", \"model\": ");
  write_text(out, gpu.model);
  out.raw(", \"pci_device_id\": ");
  write_text(out, gpu.pci_device_id);
  out.raw(", \"memory_mib\": ").number(gpu.memory.value);
  out.raw(",\n     \"mig_capable\": ").boolean(gpu.mig_capable);
  out.raw(", \"mig_enabled\": ").boolean(gpu.mig_enabled);
  out.raw(", \"mig_pending\": ").boolean(gpu.mig_pending);
  out.raw(", \"lost\": ").boolean(gpu.lost).raw(", \"holders\": ");
  write_holders(out, gpu.holders);
  out.raw(",\n     \"instances\": ");
  out.list(gpu.instances, "       ", [&](const Instance& i) { write_instance(out, i, occupants); });
  out.raw("}");
}

GpuDocument read_gpu(Fields in, const hw::Catalogue& catalogue) {
  GpuDocument document;
  GpuState& gpu = document.gpu;
  gpu.index = in.integer("index", kIds);
  if (!in.has("model")) in.refuse("model", "'model' is missing");
  gpu.model = read_text(in, "model");
  const hw::GpuModel* model = gpu.model.empty() ? nullptr : catalogue.find(gpu.model);
  gpu.uuid = read_text(in, "uuid");
  gpu.name = read_text(in, "name");
  gpu.pci_device_id = read_text(in, "pci_device_id");
  if (in.has("memory_mib")) {
    gpu.memory = Mib{in.number("memory_mib", kNotNegative)};
  } else if (model) {
    gpu.memory = model->total_memory.value_or(Mib{});
  }
  gpu.mig_capable = read_boolean(in, "mig_capable", true);
  gpu.mig_enabled = read_boolean(in, "mig_enabled", gpu.mig_capable);
  gpu.mig_pending = read_boolean(in, "mig_pending", gpu.mig_enabled);
  gpu.lost = read_boolean(in, "lost", false);
  gpu.holders = read_holders(in);
  read_instances(in, document, model);
  return document;
}

}  // namespace partita::device
