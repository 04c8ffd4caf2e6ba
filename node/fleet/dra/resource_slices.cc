#include "fleet/dra/resource_slices.h"

#include <fmt/format.h>

#include "base/document.h"
#include "base/form.h"
#include "base/index.h"

namespace partita::dra {
namespace {

constexpr std::string_view kVersion = "resource.k8s.io/v1";

// {"name": {"value": "1"}, ...}
void describe_counters(Form& f, const Counters& counters) {
  for (const auto& [name, count] : counters)
    f.told_object(name, [&](Form& one) { one.told("value", std::to_string(count)); });
}

template <class T>
void attribute(Form& f, std::string_view name, std::string_view type, const T& value) {
  f.told_object(name, [&](Form& one) { one.told(type, value); });
}

void describe_device(Form& f, const Pool& pool, const PoolDevice& device) {
  const PoolGpu& gpu = pool.gpus[device.gpu];
  const hw::MigProfile& profile = gpu.model->profiles[at(device.place.profile)];
  f.told("name", device.name);
  f.told_object("attributes", [&](Form& all) {
    attribute(all, "profile", "string", profile.name);
    attribute(all, "model", "string", gpu.model->name);
    attribute(all, "parentUUID", "string", gpu.gpu.uuid);
    attribute(all, "gpu", "int", static_cast<long>(gpu.gpu.index));
    attribute(all, "start", "int", static_cast<long>(device.place.start));
    attribute(all, "computeSlices", "int", static_cast<long>(profile.gpcs));
  });
  f.told_object("capacity", [&](Form& all) {
    attribute(all, "memorySlices", "value", std::to_string(profile.size));
    if (profile.memory)
      attribute(all, "memory", "value",
                fmt::format("{}Mi", static_cast<long>(profile.memory->value)));
    if (profile.sms) attribute(all, "multiprocessors", "value", std::to_string(*profile.sms));
  });
  const auto takes = [&](Form& one, std::size_t) {
    one.told("counterSet", counters_name(gpu));
    one.told_object("counters", [&](Form& all) { describe_counters(all, device.takes); });
  };
  f.rows("consumesCounters", 1, takes, {});
}

std::vector<ResourceSlice> cut(std::size_t count, std::size_t most, const std::string& prefix,
                               std::vector<std::size_t> ResourceSlice::*part) {
  std::vector<ResourceSlice> slices;
  for (std::size_t i = 0; i < count; ++i) {
    if (i % most == 0) slices.push_back({fmt::format("{}{:03}", prefix, slices.size())});
    (slices.back().*part).push_back(i);
  }
  return slices;
}

struct Reading {
  const Document& document;
  std::string node;

  // Nothing: the slice is another driver's or node's.
  Result<void> add(const Node& object, std::vector<SliceHead>& heads) const {
    const Node* meta = object.find("metadata");
    const Node* spec = object.find("spec");
    if (meta == nullptr || spec == nullptr)
      return bad_input(document.at(object), "no ResourceSlice: metadata and spec are wanted");
    const Node* driver = spec->find("driver");
    const Node* name = spec->find("nodeName");
    if (driver == nullptr || driver->text != kDriver || name == nullptr || name->text != node)
      return {};
    SliceHead head;
    auto own = string_member(document, *meta, "name");
    if (!own) return failed(own.error());
    head.name = *std::move(own);
    if (const Node* version = meta->find("resourceVersion")) head.resource_version = version->text;
    if (const Node* pool = spec->find("pool"); pool != nullptr && pool->find("generation"))
      head.generation = static_cast<long>(pool->find("generation")->number);
    heads.push_back(std::move(head));
    return {};
  }
};

}  // namespace

std::vector<ResourceSlice> slices_of(const Pool& pool, const std::string& node) {
  std::vector<ResourceSlice> all = cut(pool.counters.size(), kMaxSetsOfSlice,
                                       node + "-partita-counters-", &ResourceSlice::counters);
  for (ResourceSlice& slice : cut(pool.devices.size(), kMaxDevicesOfSlice,
                                  node + "-partita-devices-", &ResourceSlice::devices))
    all.push_back(std::move(slice));
  return all;
}

std::string slice_json(const Pool& pool, const ResourceSlice& slice, const SliceHead& head,
                       const SliceWriting& writing) {
  const auto describe = [&](Form& f) {
    f.told("apiVersion", kVersion);
    f.told("kind", "ResourceSlice");
    f.told_object("metadata", [&](Form& meta) {
      meta.told("name", head.name);
      if (!head.resource_version.empty()) meta.told("resourceVersion", head.resource_version);
      if (writing.node_uid.empty()) return;
      const auto owner = [&](Form& one, std::size_t) {
        one.told("apiVersion", "v1");
        one.told("kind", "Node");
        one.told("name", writing.node);
        one.told("uid", writing.node_uid);
      };
      meta.rows("ownerReferences", 1, owner, {});
    });
    f.told_object("spec", [&](Form& spec) {
      spec.told("driver", kDriver);
      spec.told("nodeName", writing.node);
      spec.told_object("pool", [&](Form& of) {
        of.told("name", writing.node);
        of.told("generation", writing.generation);
        of.told("resourceSliceCount", static_cast<long>(writing.slices));
      });
      if (!slice.counters.empty())
        spec.rows("sharedCounters", slice.counters,
                  [&](Form& one, std::size_t set) {
                    one.told("name", counters_name(pool.gpus[set]));
                    one.told_object("counters",
                                    [&](Form& all) { describe_counters(all, pool.counters[set]); });
                  },
                  {});
      if (!slice.devices.empty())
        spec.rows("devices", slice.devices,
                  [&](Form& one, std::size_t device) {
                    describe_device(one, pool, pool.devices[device]);
                  },
                  {});
    });
  };
  return write_form(describe, Form::Style::compact);
}

Result<std::string> parse_node_uid(const std::string& file, std::string_view text) {
  const auto document = TRY(parse_document(file, text));
  const Node* meta = document.root.find("metadata");
  if (meta == nullptr) return bad_input(document.at(document.root), "no Node: metadata is wanted");
  return string_member(document, *meta, "uid");
}

Result<std::vector<SliceHead>> parse_slices(const std::string& file, std::string_view text,
                                            const std::string& node) {
  const auto document = parse_document(file, text);
  if (!document) return failed(document.error());
  const Reading reading{*document, node};
  std::vector<SliceHead> heads;
  if (const Node* items = document->root.find("items"); items == nullptr) {
    if (auto added = reading.add(document->root, heads); !added) return failed(added.error());
  } else {
    for (const Node& item : items->items)
      if (auto added = reading.add(item, heads); !added) return failed(added.error());
  }
  return heads;
}

}  // namespace partita::dra
