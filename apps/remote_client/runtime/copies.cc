#include "copies.h"

#include <vector>

namespace partita::remote::shim {
namespace {

using client::kInvalidDirection;
using client::kInvalidValue;
using client::kOk;

struct Direction {
  bool to_device = false, from_device = false;
  Status status = kOk;
};

bool is_devices(const void* memory, bool known) {
  return known || session().host.is_pinned(memory, 1);
}

// The addresses decide; a kind that calls one of the program's own addresses a device's is wrong,
// unless that is pinned: the device reaches it, too.
Direction direction_of(const void* to, const void* from, int kind) {
  if (kind < kHostToHost || kind > kByAddress) return {.status = kInvalidDirection};
  Direction found{.to_device = session().memory.contains(number_of(to)),
                  .from_device = session().memory.contains(number_of(from))};
  const bool says_to = kind == kHostToDevice || kind == kDeviceToDevice;
  const bool says_from = kind == kDeviceToHost || kind == kDeviceToDevice;
  if ((says_to && !is_devices(to, found.to_device)) ||
      (says_from && !is_devices(from, found.from_device)))
    found.status = kInvalidValue;
  return found;
}

// From the first row to the end of the last; more than there can be where that has no number.
std::uint64_t span_of(std::uint64_t pitch, std::uint64_t rows, std::uint64_t width) {
  std::uint64_t span = 0;
  const bool too_large =
      __builtin_mul_overflow(pitch, rows - 1, &span) || __builtin_add_overflow(span, width, &span);
  return too_large ? UINT64_MAX : span;
}

// Rows through packed memory on the device: one operation for the bytes instead of one per row.
Status rows_in(const RowsCopy& rows, void* stream) {
  const std::uint64_t bytes = rows.width * rows.rows;
  std::vector<std::byte> packed(bytes);
  const auto* from = static_cast<const std::byte*>(rows.from);
  if (const Status status = session().call_copies.wait(
          number_of(stream), from, (rows.rows - 1) * rows.from_pitch + rows.width);
      status != kOk)
    return status;
  for (std::size_t i = 0; i < rows.rows; ++i)
    std::memcpy(packed.data() + i * rows.width, from + i * rows.from_pitch, rows.width);
  const auto staging = session().memory.allocate(bytes);
  if (!staging) return staging.error();
  Status status = session().memory.copy_in(number_of(stream), *staging, packed.data(), bytes);
  const CopyDevice spread{.to = {number_of(rows.to)},
                          .from = {*staging},
                          .to_pitch = rows.to_pitch,
                          .from_pitch = rows.width,
                          .width = rows.width,
                          .rows = rows.rows};
  if (status == kOk) status = session().memory.copy(number_of(stream), spread);
  const Status freed = session().memory.release_on(number_of(stream), *staging);
  return status != kOk ? status : freed;
}

Status rows_out(const RowsCopy& rows, void* stream) {
  const std::uint64_t bytes = rows.width * rows.rows;
  const auto staging = session().memory.allocate(bytes);
  if (!staging) return staging.error();
  const CopyDevice gathered{.to = {*staging},
                            .from = {number_of(rows.from)},
                            .to_pitch = rows.width,
                            .from_pitch = rows.from_pitch,
                            .width = rows.width,
                            .rows = rows.rows};
  std::vector<std::byte> packed(bytes);
  Status status = session().memory.copy(number_of(stream), gathered);
  if (status == kOk)
    status = session().memory.copy_out(number_of(stream), packed.data(), *staging, bytes, false);
  const Status freed = session().memory.release_on(number_of(stream), *staging);
  auto* to = static_cast<std::byte*>(rows.to);
  for (std::size_t i = 0; i < rows.rows && status == kOk; ++i)
    std::memcpy(to + i * rows.to_pitch, packed.data() + i * rows.width, rows.width);
  return status != kOk ? status : freed;
}

// A row on the device, which is copied to each of the program's.
Status set_pinned(const RowsSet& set, void* stream) {
  const std::uint64_t bytes = set.count * set.element, on = number_of(stream);
  const auto row = session().memory.allocate_on(on, bytes);
  if (!row) return row.error();
  Status status =
      set_rows({handle_of(*row), bytes, set.value, set.element, set.count, 1}, stream, true);
  for (std::size_t i = 0; i < set.rows && status == kOk; ++i)
    status = session().memory.copy_out(on, static_cast<std::byte*>(set.to) + i * set.pitch, *row,
                                       bytes, true);
  const Status freed = session().memory.release_on(on, *row);
  return status != kOk ? status : freed;
}

Status each_row(const RowsCopy& rows, void* stream) {
  Status status = kOk;
  for (std::size_t i = 0; i < rows.rows && status == kOk; ++i) {
    status = copy({.to = static_cast<std::byte*>(rows.to) + i * rows.to_pitch,
                   .from = static_cast<const std::byte*>(rows.from) + i * rows.from_pitch,
                   .bytes = rows.width,
                   .kind = rows.kind},
                  stream, true);
  }
  return status;
}

}  // namespace

Status allocate_managed(void** memory, std::size_t bytes, unsigned flags) {
  constexpr unsigned kEverywhere = 1, kHost = 2;
  if (memory == nullptr || bytes == 0 || (flags != kEverywhere && flags != kHost))
    return kInvalidValue;
  const auto got = session().managed.allocate(bytes);
  if (got && flags == kHost) session().managed.attach();
  return give(got, memory);
}

Status noted(const void* memory, std::size_t bytes) {
  if (const Status status = session().ready(); status != kOk) return status;
  const auto range = session().managed.block_at(number_of(memory));
  const bool inside =
      range && bytes > 0 && bytes <= range->bytes - (number_of(memory) - range->address);
  return inside ? kOk : kInvalidValue;
}

Status attach(const void* memory, unsigned flags) {
  constexpr unsigned kEverywhere = 1, kSingle = 4;
  if (flags == 0 || flags > kSingle || (flags & (flags - 1)) != 0) return kInvalidValue;
  if (const Status status = noted(memory, 1); status != kOk) return status;
  if (flags != kEverywhere) session().managed.attach();
  return kOk;
}

Status copy(const PlainCopy& copy, void* stream, bool may_be_later) {
  if (const Status status = session().ready(); status != kOk) return status;
  if (copy.bytes == 0) return session().failure();
  if (copy.to == nullptr || copy.from == nullptr) return kInvalidValue;
  const Direction direction = direction_of(copy.to, copy.from, copy.kind);
  if (direction.status != kOk) return direction.status;
  const std::uint64_t to = number_of(copy.to), from = number_of(copy.from);
  if ((direction.to_device && !session().memory.covers(to, copy.bytes)) ||
      (direction.from_device && !session().memory.covers(from, copy.bytes)))
    return kInvalidValue;
  const std::uint64_t on = number_of(stream);
  if (direction.to_device) {
    const Status status =
        direction.from_device
            ? session().memory.copy(
                  on, CopyDevice{.to = {to}, .from = {from}, .width = copy.bytes, .rows = 1})
            : session().memory.copy_in(on, to, copy.from, copy.bytes, may_be_later);
    return status == kOk && !may_be_later ? session().managed.settle(on) : status;
  }
  if (direction.from_device)
    return session().memory.copy_out(on, copy.to, from, copy.bytes, may_be_later);
  const Status status = session().streams.synchronise(on);
  if (status == kOk) std::memmove(copy.to, copy.from, copy.bytes);
  return status;
}

Status copy_rows(const RowsCopy& rows, void* stream, bool may_be_later) {
  if (const Status status = session().ready(); status != kOk) return status;
  if (rows.width == 0 || rows.rows == 0) return session().failure();
  if (rows.width > rows.to_pitch || rows.width > rows.from_pitch) return client::kInvalidPitch;
  if (rows.rows > UINT64_MAX / rows.width) return kInvalidValue;
  if (rows.rows == 1 || (rows.to_pitch == rows.width && rows.from_pitch == rows.width))
    return copy({rows.to, rows.from, rows.width * rows.rows, rows.kind}, stream, may_be_later);
  const Direction direction = direction_of(rows.to, rows.from, rows.kind);
  if (direction.status != kOk) return direction.status;
  const std::uint64_t to_span = span_of(rows.to_pitch, rows.rows, rows.width);
  const std::uint64_t from_span = span_of(rows.from_pitch, rows.rows, rows.width);
  if ((direction.to_device && !session().memory.covers(number_of(rows.to), to_span)) ||
      (direction.from_device && !session().memory.covers(number_of(rows.from), from_span)))
    return kInvalidValue;
  if (direction.to_device && direction.from_device)
    return session().memory.copy(number_of(stream), CopyDevice{.to = {number_of(rows.to)},
                                                               .from = {number_of(rows.from)},
                                                               .to_pitch = rows.to_pitch,
                                                               .from_pitch = rows.from_pitch,
                                                               .width = rows.width,
                                                               .rows = rows.rows});
  if (is_captured(stream) || (!direction.to_device && !direction.from_device))
    return each_row(rows, stream);
  return direction.to_device ? rows_in(rows, stream) : rows_out(rows, stream);
}

client::Got<bool> sets_device(const RowsSet& set) {
  std::uint64_t row = 0;
  const std::uint64_t at = number_of(set.to) | (set.rows > 1 ? set.pitch : 0);
  if ((set.element != 1 && set.element != 2 && set.element != 4) || at % set.element != 0 ||
      __builtin_mul_overflow(set.count, std::uint64_t{set.element}, &row) ||
      (set.rows > 1 && set.pitch < row))
    return client::refused(kInvalidValue);
  if (row == 0 || set.rows == 0) return true;
  const std::uint64_t span = span_of(set.pitch, set.rows, row);
  if (session().memory.covers(number_of(set.to), span)) return true;
  return session().host.is_pinned(set.to, span) ? client::Got<bool>(false)
                                                : client::refused(kInvalidValue);
}

Status set_rows(const RowsSet& set, void* stream, bool may_be_later) {
  if (const Status status = session().ready(); status != kOk) return status;
  if (set.count == 0 || set.rows == 0) return session().failure();
  const auto is_devices = sets_device(set);
  if (!is_devices) return is_devices.error();
  const Status status = *is_devices
                            ? session().memory.set(number_of(stream), Set{.to = {number_of(set.to)},
                                                                          .value = set.value,
                                                                          .element = set.element,
                                                                          .count = set.count,
                                                                          .rows = set.rows,
                                                                          .pitch = set.pitch})
                            : set_pinned(set, stream);
  const bool waits =
      !may_be_later && (!*is_devices || session().managed.block_at(number_of(set.to)));
  return waits && status == kOk ? session().streams.synchronise(number_of(stream)) : status;
}

std::uint64_t pitched(std::size_t width, std::size_t rows, std::size_t& pitch) {
  constexpr std::size_t kPitch = 512;
  std::uint64_t bytes = 0;
  pitch = (width + kPitch - 1) / kPitch * kPitch;
  return pitch < width || __builtin_mul_overflow(pitch, rows, &bytes) ? UINT64_MAX : bytes;
}

client::Got<client::Block> symbol_of(const void* shadow) {
  const auto variable = session().kernels.modules().variable_of(shadow);
  if (!variable) return client::refused(client::kInvalidSymbol);
  const auto block = session().kernels.symbol(*variable->module, variable->name);
  if (!block && block.error() == client::kNotFound) return client::refused(client::kInvalidSymbol);
  return block;
}

}  // namespace partita::remote::shim
