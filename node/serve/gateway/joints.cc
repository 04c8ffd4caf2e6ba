#include "serve/gateway/joints.h"

#include <algorithm>
#include <map>
#include <utility>

#include "serve/gateway/core_impl.h"
#include "serve/link/slot_memory.h"

namespace partita::serve {

std::shared_ptr<LiveService> Joints::alive(const Part& part) {
  auto service = part.service.lock();
  if (!service || !service->slots || service->slots->mark() != part.pool) return nullptr;
  return service;
}

bool Joints::alive() const {
  return std::ranges::all_of(parts_, [](const Part& part) { return alive(part) != nullptr; });
}

Joints::Part* Joints::part_of(std::size_t step) {
  const auto found = std::ranges::find(parts_, step, &Part::step);
  return found == parts_.end() ? nullptr : &*found;
}

std::shared_ptr<Joints> Joints::make(const JointDoors& doors, std::vector<JointTensor> tensors) {
  if (tensors.empty()) return nullptr;
  std::shared_ptr<Joints> made(new Joints(std::move(tensors)));
  std::map<std::string, std::size_t> parts;  // of a service
  const auto add = [&](const JointTensor::End& end) {
    if (made->part_of(end.step)) return true;
    auto service = doors.find(end.service);
    if (!service || !service->slots) return false;
    ++parts[end.service];
    made->parts_.push_back({end.step, service, service->slots->mark()});
    return true;
  };
  for (const JointTensor& tensor : made->tensors_)
    if (!add(tensor.writer) || !std::ranges::all_of(tensor.readers, add)) return nullptr;
  std::size_t lanes = kMostLanes;
  for (const Part& part : made->parts_) {
    const SlotPool& slots = *alive(part)->slots;
    const std::size_t of_service = parts[alive(part)->wanted.name];
    lanes = std::min({lanes, slots.slots() / kLaneShare / of_service, slots.free() / of_service});
  }
  if (lanes == 0) return nullptr;
  made->taken_.resize(lanes);
  for (Part& part : made->parts_) part.slots = alive(part)->slots->set_apart(lanes);
  for (const JointTensor& tensor : made->tensors_)
    if (!made->join(doors, tensor)) {
      made->undo(doors);
      return nullptr;
    }
  return made;
}

bool Joints::join(const JointDoors& doors, const JointTensor& tensor) {
  const std::size_t bytes = (tensor.bytes + kSlotPage - 1) / kSlotPage * kSlotPage;
  auto made = SlotMemory::sealed(bytes * taken_.size());
  if (!made) return false;
  const auto memory = std::make_shared<const Descriptor>(*std::move(made));
  const auto join_end = [&](const JointTensor::End& end, bool writes) {
    Part& part = *part_of(end.step);
    const auto service = alive(part);
    const SlotLayout layout = slot_layout(service->slots->model());
    auto pages = std::make_shared<JointPages>();
    pages->joint = {.offset = (writes ? layout.outputs : layout.inputs)[end.tensor],
                    .bytes = bytes,
                    .writable = writes,
                    .slots = part.slots};
    pages->memory = memory;
    Joint here = pages->joint;
    here.writable = true;  // doors write inputs, where a step has them from elsewhere
    if (!service->slots->memory().join(memory->get(), here)) {
      part.torn = !service->slots->memory().part(here);
      return false;
    }
    part.pages.push_back(pages);
    service->joints.push_back(pages);
    doors.tell(*service, pages->joint, memory->get());
    return true;
  };
  return join_end(tensor.writer, true) &&
         std::ranges::all_of(tensor.readers,
                             [&](const JointTensor::End& end) { return join_end(end, false); });
}

std::optional<std::size_t> Joints::take() {
  if (!alive()) return std::nullopt;
  for (std::size_t lane = 0; lane < taken_.size(); ++lane) {
    const bool free = !taken_[lane] && std::ranges::all_of(parts_, [&](const Part& part) {
      return alive(part)->slots->is_free_apart(part.slots[lane]);
    });
    if (!free) continue;
    taken_[lane] = true;
    return lane;
  }
  return std::nullopt;
}

std::optional<PoolSlot> Joints::slot(std::size_t lane, std::size_t step) const {
  const auto part = std::ranges::find(parts_, step, &Part::step);
  if (part == parts_.end()) return std::nullopt;
  return PoolSlot{part->pool.get(), part->slots[lane]};
}

bool Joints::undo(const JointDoors& doors) {
  if (std::ranges::count(taken_, true) > 0) return false;
  for (const Part& part : parts_)
    if (const auto service = alive(part))
      for (const std::uint32_t slot : part.slots)
        if (!service->slots->is_free_apart(slot)) return false;
  for (Part& part : parts_) {
    const auto service = alive(part);
    if (!service) continue;
    for (const auto& pages : part.pages) {
      Joint back = pages->joint;
      back.own = true;
      part.torn = !service->slots->memory().part(back) || part.torn;
      std::erase(service->joints, pages);
      doors.tell(*service, back, -1);
    }
    if (!part.torn) service->slots->put_back(part.slots);
  }
  parts_.clear();
  return true;
}

}  // namespace partita::serve
