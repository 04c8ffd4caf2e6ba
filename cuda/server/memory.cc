#include "server/memory.h"

#include "server/gemm.h"

namespace partita::remote::server {

tl::unexpected<Refused> not_held(std::string_view doing, DevicePointer at, std::uint64_t bytes) {
  return refuse(kInvalidValue, fmt::format("{} {} bytes at {:#x}: no allocation holds them", doing,
                                           bytes, at.value));
}

// ---- allocations ----

Done Memory::on(const Alloc& op) {
  const DeviceSnapshot& device = work_.backend().device();
  const std::uint64_t at = op.address.value;
  if (op.bytes == 0 || at % device.granule != 0 || op.bytes % device.granule != 0)
    return refuse(kInvalidValue, fmt::format("{} bytes at {:#x}: not multiples of {}", op.bytes, at,
                                             device.granule));
  if (at < device.arena || op.bytes > device.arena_bytes ||
      at - device.arena > device.arena_bytes - op.bytes)
    return refuse(kInvalidValue,
                  fmt::format("{} bytes at {:#x} lie outside the arena", op.bytes, at));
  switch (allocations_.meets(at, op.bytes)) {
    case Allocations::Meets::live:
      return refuse(kInvalidValue,
                    fmt::format("{} bytes at {:#x}: something is allocated there", op.bytes, at));
    case Allocations::Meets::going:
      stalled_ = true;  // until release_later() is through
      return {};
    case Allocations::Meets::nothing:
      break;
  }
  if (allocations_.ranges().size() >= limits_.allocations)
    return refuse(kOutOfMemory, fmt::format("{} allocations are the limit", limits_.allocations));
  if (op.bytes > limits_.memory || out_.counts.memory > limits_.memory - op.bytes)
    return refuse(kOutOfMemory,
                  fmt::format("{} bytes more than the {} in use; {} are the session's limit",
                              op.bytes, out_.counts.memory, limits_.memory));
  if (Done done = work_.backend().allocate(at, op.bytes); !done) return done;
  allocations_.add(at, op.bytes);
  out_.counts.memory += op.bytes;
  return {};
}

// The range cannot be used from now on and is gone once what was enqueued has finished.
void Memory::release_later(std::uint64_t address, std::uint64_t bytes) {
  work_.fence([this, address, bytes] {
    work_.backend().release(address);
    allocations_.remove(address);
    out_.counts.memory -= bytes;
    stalled_ = false;
  });
}

Done Memory::on(const Free& op) {
  const std::optional<std::uint64_t> bytes = allocations_.leave(op.address.value);
  if (!bytes)
    return refuse(kInvalidValue, fmt::format("nothing is allocated at {:#x}", op.address.value));
  release_later(op.address.value, *bytes);
  return {};
}

// Later than it could be, when other streams have work; but nothing then uses what is gone.
Done Memory::on(const FreeOnStream& op) {
  if (streams_.find(op.stream) == nullptr) return streams_.missing(op.stream);
  return on(Free{op.address});
}

Reply<HeapLimit> Memory::on(const HeapLimit& op) {
  const std::uint64_t more = op.bytes - std::min(op.bytes, kHeapBytes);
  const std::uint64_t others = out_.counts.memory - heap_;
  if (more > limits_.memory - std::min(others, limits_.memory))
    return refuse(kOutOfMemory,
                  fmt::format("a heap of {} bytes beside the {} in use; {} and {} are the "
                              "session's limits",
                              op.bytes, others, limits_.memory, kHeapBytes));
  if (Answered<void> done = work_.backend().limit_heap(op.bytes); !done)
    return tl::unexpected<Refused>(done.error());
  heap_ = more;
  out_.counts.memory = others + heap_;
  return NoReply{};
}

// ---- copies ----

// Straight from the device's memory where that is ours to see: at once, or holding the stream while
// the answer is written.
void Memory::copy_out(std::uint32_t request, const CopyOut& op) {
  const auto mapped = work_.backend().mapped(op.from.value, op.bytes, false);
  out_.settle<CopyOut>(request, work_.dead(), {}, work_.dead() != 0 ? Bytes{} : Bytes(mapped));
}

Reply<CopyOut> Memory::on(const CopyOut& op) {
  const Answered<Captured*> stream = streams_.to_wait_for(op.stream);
  if (!stream) return tl::unexpected<Refused>(stream.error());
  const Id id = (*stream)->id;
  if (work_.dead() != 0) return refuse(work_.dead(), {});
  if (!allocations_.holds(op.from.value, op.bytes))
    return not_held("copying out", op.from, op.bytes);
  if (op.bytes == 0) return NoReply{};
  work_.backend().request_ended(false);
  const std::uint32_t request = out_.owe<CopyOut>();
  const bool mapped = !work_.backend().mapped(op.from.value, op.bytes, false).empty();
  if (mapped && work_.backend().finished(ObjectKind::stream, id)) {
    work_.poll();
    copy_out(request, op);
    return std::nullopt;
  }
  StreamWork work;
  if (mapped) {
    work = HoldWork{work_.wait_for([this, request, op](Completed& held) {
      copy_out(request, op);
      work_.backend().resume(held.hold);
    })};
  } else {
    work = CopyOutWork{op.from.value, op.bytes, work_.wait_for([this, request](Completed& copied) {
                         out_.settle<CopyOut>(request, work_.dead(), {},
                                              work_.dead() != 0 ? Bytes{} : Bytes(copied.bytes));
                       })};
  }
  if (const Done done = work_.backend().enqueue(id, std::move(work)); !done)
    out_.settle<CopyOut>(request, done.error().status);
  return std::nullopt;
}

Done Memory::on(const CopyOutLater& op) {
  const Captured* const stream = streams_.find(op.stream);
  if (stream == nullptr) return streams_.missing(op.stream);
  if (work_.dead() != 0) return refuse(work_.dead(), {});
  if (!allocations_.holds(op.from.value, op.bytes))
    return not_held("copying out", op.from, op.bytes);
  if (op.bytes > limits_.staging_at_most)
    return refuse(kOutOfMemory, fmt::format("{} bytes at once; {} are the limit", op.bytes,
                                            limits_.staging_at_most));
  if (op.bytes == 0) {
    work_.watch(ObjectKind::stream, stream->id,
                [this, token = op.token] { out_.put(CopiedOut{token}); });
    return {};
  }
  const std::uint64_t tag = work_.wait_for(
      [this, token = op.token](Completed& copied) {
        if (work_.dead() == 0) out_.put(CopiedOut{token}, copied.bytes);
      },
      stream->capture != 0);
  captures_.keep(*stream, tag);
  return streams_.submit(op.stream, CopyOutWork{op.from.value, op.bytes, tag});
}

Answered<CopyWork> Memory::checked(const CopyDevice& op) const {
  if (!allocations_.holds_rows(op.to.value, op.width, op.to_pitch, op.rows))
    return not_held("copying to", op.to, op.width);
  if (!allocations_.holds_rows(op.from.value, op.width, op.from_pitch, op.rows))
    return not_held("copying from", op.from, op.width);
  return CopyWork{op.to.value,   op.from.value, op.to_pitch,
                  op.from_pitch, op.width,      op.width == 0 ? 0 : op.rows};
}

Answered<SetWork> Memory::checked(const Set& op) const {
  if (op.element != 1 && op.element != 2 && op.element != 4)
    return refuse(kInvalidValue, fmt::format("elements of {} bytes", op.element));
  std::uint64_t width = 0;
  if (__builtin_mul_overflow(op.count, std::uint64_t{op.element}, &width) ||
      !allocations_.holds_rows(op.to.value, width, op.pitch, op.rows))
    return not_held("setting", op.to, width);
  if (op.to.value % op.element != 0 || (op.rows > 1 && op.pitch % op.element != 0))
    return refuse(kInvalidValue,
                  fmt::format("{:#x} is no multiple of {}", op.to.value, op.element));
  return SetWork{op.to.value, op.value, op.element, op.count, op.count == 0 ? 0 : op.rows,
                 op.pitch};
}

Answered<GemmWork> Memory::checked(const Gemm& op) const {
  if (const char* problem = wrong_in(op)) return refuse(kInvalidValue, problem);
  for (const auto& [at, bytes] : operands(op))
    if (!allocations_.holds(at, bytes)) return not_held("a matrix", {at}, bytes);
  return GemmWork{op};
}

Done Memory::on(const Gemm& op) {
  Answered<GemmWork> work = checked(op);
  if (!work) return tl::unexpected<Refused>(work.error());
  return streams_.submit(op.stream, *work);
}

Done Memory::on(const CopyDevice& op) {
  Answered<CopyWork> work = checked(op);
  if (!work) return tl::unexpected<Refused>(work.error());
  return streams_.submit(op.stream, *work);
}

Done Memory::on(const Set& op) {
  Answered<SetWork> work = checked(op);
  if (!work) return tl::unexpected<Refused>(work.error());
  return streams_.submit(op.stream, *work);
}

}  // namespace partita::remote::server
