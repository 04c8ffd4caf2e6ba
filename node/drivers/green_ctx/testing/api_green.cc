// SM resources and green contexts. A resource remembers in its internal bytes which split it comes
// from; one that somebody changed, or made, is none.
#include <algorithm>
#include <cstring>
#include <set>

#include "drivers/green_ctx/testing/api.h"
#include "drivers/green_ctx/testing/world.h"

namespace partita::fake_cuda {
namespace {

using Needs = Call::Needs;

constexpr std::uint64_t kSeal = 0x5EA15EA15EA15EA1;

struct Inside {
  std::uint64_t seal = kSeal;
  int device = 0;
  int split = -1;  // -1: of the device itself; -2: of a green context
  int group = 0;
};

struct Rules {
  unsigned least = 0, alignment = 0;
};

Rules rules_of(int major) {
  if (major >= 9) return {8, 8};
  return {major == 8 ? 4u : 2u, 2};
}

abi::Resource resource_of(const World& world, const Inside& inside, std::size_t sms) {
  abi::Resource resource = {};
  resource.type = 1;
  std::memcpy(resource.internal, &inside, sizeof inside);
  resource.sm.count = static_cast<unsigned>(sms);
  if (world.config.tells_rules) {
    const Rules rules = rules_of(world.config.major);
    resource.sm.min_partition = rules.least;
    resource.sm.alignment = rules.alignment;
  }
  return resource;
}

// What a resource was made as; seal 0 when it was not made here.
Inside inside_of(const World& world, const abi::Resource& resource) {
  Inside inside;
  std::memcpy(&inside, resource.internal, sizeof inside);
  const Inside none{.seal = 0};
  if (resource.type != 1 || inside.seal != kSeal) return none;
  if (inside.split < 0) return inside;
  if (static_cast<std::size_t>(inside.split) >= world.splits.size()) return none;
  const auto& groups = world.splits[static_cast<std::size_t>(inside.split)];
  if (static_cast<std::size_t>(inside.group) >= groups.size()) return none;
  const auto& group = groups[static_cast<std::size_t>(inside.group)];
  return group.sms.size() == resource.sm.count ? inside : none;
}

}  // namespace

extern "C" {

Return cuDeviceGetDevResource(abi::Device device, abi::Resource* resource, int type) {
  Call call("cuDeviceGetDevResource", Needs::initialised);
  if (call.code() != Return::success) return call.code();
  if (device < 0 || device >= call->config.devices) return Return::invalid_device;
  if (type != 1) return Return::invalid_resource_type;
  *resource = resource_of(*call, {.device = device}, static_cast<std::size_t>(call->config.sms));
  return Return::success;
}

Return cuDevSmResourceSplitByCount(abi::Resource* result, unsigned* count, const abi::Resource* of,
                                   abi::Resource* rest, unsigned flags, unsigned least) {
  Call call("cuDevSmResourceSplitByCount", Needs::initialised);
  if (call.code() != Return::success) return call.code();
  if (!count || !of || flags > 3 || (result && *count == 0)) return Return::invalid_value;
  const Inside inside = inside_of(*call, *of);
  if (inside.seal != kSeal) return Return::invalid_resource_type;
  if (inside.split != -1) return Return::invalid_resource_configuration;
  if (least > of->sm.count) return Return::invalid_value;
  const Rules rules = (flags & 1) != 0 ? Rules{2, 2} : rules_of(call->config.major);
  const unsigned size =
      std::max(rules.least, (least + rules.alignment - 1) / rules.alignment * rules.alignment);
  const unsigned possible = of->sm.count / size;
  const unsigned made = result ? std::min(*count, possible) : possible;
  *count = made;
  if (!result) return Return::success;
  const Place all = call->whole(inside.device);
  const int split = static_cast<int>(call->splits.size());
  std::vector<Group> groups;
  for (unsigned i = 0; i <= made; ++i) {
    const auto first = all.sms.begin() + i * size;
    groups.push_back({inside.device, {first, i < made ? first + size : all.sms.end()}});
  }
  call->splits.push_back(groups);
  for (unsigned i = 0; i <= made; ++i) {
    abi::Resource* const out = i < made ? result + i : rest;
    if (out)
      *out = resource_of(*call,
                         {.device = inside.device, .split = split, .group = static_cast<int>(i)},
                         groups[i].sms.size());
  }
  return Return::success;
}

Return cuDevResourceGenerateDesc(abi::ResourceDesc* description, abi::Resource* resources,
                                 unsigned count) {
  Call call("cuDevResourceGenerateDesc", Needs::initialised);
  if (call.code() != Return::success) return call.code();
  if (!description || !resources || count == 0) return Return::invalid_value;
  Group all;
  std::set<int> groups, splits;
  for (unsigned i = 0; i < count; ++i) {
    const Inside inside = inside_of(*call, resources[i]);
    if (inside.seal != kSeal) return Return::invalid_resource_type;
    splits.insert(inside.split);
    if (!groups.insert(inside.group).second || splits.size() > 1 ||
        (inside.split < 0 && count > 1) || resources[i].sm.count == 0)
      return Return::invalid_resource_configuration;
    all.device = inside.device;
    const auto& sms = inside.split < 0 ? call->whole(inside.device).sms
                                       : call->splits[static_cast<std::size_t>(inside.split)]
                                                     [static_cast<std::size_t>(inside.group)]
                                                         .sms;
    all.sms.insert(all.sms.end(), sms.begin(), sms.end());
  }
  *description = call->handle<abi::ResourceDesc>();
  call->descriptions[*description] = all;
  return Return::success;
}

Return cuGreenCtxCreate(abi::GreenContext* green, abi::ResourceDesc description, abi::Device device,
                        unsigned flags) {
  Call call("cuGreenCtxCreate", Needs::initialised);
  if (call.code() != Return::success) return call.code();
  const auto known = call->descriptions.find(description);
  if (known == call->descriptions.end() || flags != 1) return Return::invalid_value;
  if (device != known->second.device) return Return::invalid_device;
  if (static_cast<int>(call->greens.size()) >= call->config.max_contexts ||
      call->taken() + kContextBytes > call->config.memory)
    return Return::out_of_memory;
  Place place{device, known->second.sms};
  for (const int sm : call->whole(device).sms) {  // a hazard that can be asked for
    const bool own = std::ranges::find(known->second.sms, sm) != known->second.sms.end();
    const auto more = static_cast<std::size_t>(call->config.leaks_sms);
    if (!own && place.sms.size() < known->second.sms.size() + more) place.sms.push_back(sm);
  }
  *green = call->handle<abi::GreenContext>();
  call->greens[*green] = {std::make_shared<const Place>(place), call->handle<abi::Context>()};
  if (call->primary[device]++ == 0) call->contexts[device] = call->handle<abi::Context>();
  return Return::success;
}

Return cuGreenCtxDestroy(abi::GreenContext green) {
  Call call("cuGreenCtxDestroy", Needs::nothing);
  if (call.code() != Return::success) return call.code();
  const auto known = call->greens.find(green);
  if (known == call->greens.end())
    return call->was_made(green) ? Return::context_is_destroyed : Return::invalid_context;
  --call->primary[known->second.place->device];
  call->greens.erase(known);
  return Return::success;
}

Return cuCtxFromGreenCtx(abi::Context* context, abi::GreenContext green) {
  Call call("cuCtxFromGreenCtx", Needs::initialised);
  if (call.code() != Return::success) return call.code();
  const auto known = call->greens.find(green);
  if (known == call->greens.end()) return Return::invalid_context;
  *context = known->second.context;
  return Return::success;
}

Return cuGreenCtxGetDevResource(abi::GreenContext green, abi::Resource* resource, int type) {
  Call call("cuGreenCtxGetDevResource", Needs::initialised);
  if (call.code() != Return::success) return call.code();
  const auto known = call->greens.find(green);
  if (known == call->greens.end()) return Return::invalid_context;
  if (type != 1) return Return::invalid_resource_type;
  *resource =
      resource_of(*call, {.device = known->second.place->device, .split = -2},
                  known->second.place->sms.size() +
                      static_cast<std::size_t>(call->config.adds_sms - call->config.leaks_sms));
  return Return::success;
}

Return cuGreenCtxStreamCreate(abi::Stream* stream, abi::GreenContext green, unsigned flags, int) {
  Call call("cuGreenCtxStreamCreate", Needs::initialised);
  if (call.code() != Return::success) return call.code();
  const auto known = call->greens.find(green);
  if (known == call->greens.end()) return Return::invalid_context;
  if (flags != abi::kStreamNonBlocking) return Return::invalid_value;
  *stream = call->handle<abi::Stream>();
  call->streams[*stream] =
      std::make_shared<Stream>(Stream{.place = known->second.place, .green = green});
  return Return::success;
}
}

}  // namespace partita::fake_cuda
