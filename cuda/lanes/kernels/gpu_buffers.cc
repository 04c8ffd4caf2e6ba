#include "lanes/kernels/gpu_buffers.h"

#include <set>

namespace partita::carry {

Result<void> GpuBuffers::add(std::size_t bytes, bool back) {
  Buffer buffer;
  buffer.back = back;
  buffer.host = TRY(memory_.host_bytes(bytes));
  buffer.device = TRY(memory_.allocate(bytes));
  buffers_.push_back(buffer);
  return {};
}

void GpuBuffers::begin(const std::vector<int>& kernels) {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    buffers_[i].kernels = kernels[i];
    buffers_[i].lane = buffers_[i].event = -1;
  }
}

Result<void> GpuBuffers::bring(device::LaneDriver& driver, int lane,
                               const std::vector<std::size_t>& needed) {
  std::vector<device::LaneCopy> copies;
  std::set<int> events;
  for (const std::size_t number : needed) {
    const Buffer& buffer = buffers_[number];
    if (buffer.lane < 0)
      copies.push_back({buffer.host, buffer.device, true});
    else if (buffer.event >= 0 && buffer.lane != lane)
      events.insert(buffer.event);
  }
  for (const int event : events) TRY(driver.wait_event(lane, event));
  if (copies.empty()) return {};
  TRY(memory_.copy(lane, copies));
  const int event = TRY(driver.record_event(lane));
  for (const std::size_t number : needed)
    if (Buffer& buffer = buffers_[number]; buffer.lane < 0)
      buffer.lane = lane, buffer.event = event;
  return {};
}

Result<void> GpuBuffers::leave(device::LaneDriver& driver, int lane,
                               const std::vector<std::size_t>& needed) {
  std::vector<device::LaneCopy> copies;
  for (const std::size_t number : needed)
    if (const Buffer& buffer = buffers_[number]; buffer.kernels == 1 && buffer.back)
      copies.push_back({buffer.host, buffer.device, false});
  if (!copies.empty()) TRY(memory_.copy(lane, copies));
  for (const std::size_t number : needed) {
    --buffers_[number].kernels;
    const int event = buffers_[number].event;
    if (event < 0) continue;
    TRY(driver.destroy_event(event));
    for (Buffer& buffer : buffers_)  // that went there together
      if (buffer.event == event) buffer.event = -1;
  }
  return {};
}

}  // namespace partita::carry
