#include "serve/link/slot_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace partita::serve {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr const char* kContext = "shared slots";

tl::unexpected<Error> memory_error(std::string_view doing) {
  return environment_error(kContext, fmt::format("{}: {}", doing, std::strerror(errno)));
}

// Bytes of all slots; 0 when there are none or too many.
std::size_t size_of_all(std::uint64_t slot_bytes, std::uint32_t slots) {
  std::uint64_t size = 0;
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  return __builtin_mul_overflow(slot_bytes, slots, &size) || size > kMost ? 0 : size;
}

// What cannot be touched without SIGBUS is refused.
Result<void> check_memory(int fd, std::size_t size, std::string_view frame) {
  if (fd < 0) return bad_input(kContext, fmt::format("no descriptor came beside {}", frame));
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals)
    return bad_input(kContext, "the memory is not sealed against shrinking and growing");
  struct stat found {};
  if (::fstat(fd, &found) != 0) return memory_error("cannot look at them");
  if (found.st_size == static_cast<off_t>(size)) return {};
  return bad_input(kContext, fmt::format("the memory has {} bytes, {} says {}",
                                         static_cast<long>(found.st_size), frame, size));
}

// The same addresses, other pages.
bool remap(char* at, std::size_t bytes, int fd, std::size_t from, bool writable) {
  const int rights = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  return ::mmap(at, bytes, rights, MAP_SHARED | MAP_FIXED, fd, static_cast<off_t>(from)) == at;
}

}  // namespace

SlotMemory::SlotMemory(Descriptor fd, char* start, std::size_t slot_bytes, std::uint32_t slots)
    : fd_(std::move(fd)), start_(start), slot_bytes_(slot_bytes), slots_(slots) {}

SlotMemory::SlotMemory(SlotMemory&& other) noexcept
    : fd_(std::move(other.fd_)),
      start_(std::exchange(other.start_, nullptr)),
      slot_bytes_(other.slot_bytes_),
      slots_(other.slots_) {}

SlotMemory& SlotMemory::operator=(SlotMemory&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(start_, other.start_);
  std::swap(slot_bytes_, other.slot_bytes_);
  std::swap(slots_, other.slots_);
  return *this;
}

SlotMemory::~SlotMemory() {
  if (start_ != nullptr) ::munmap(start_, slot_bytes_ * slots_);
}

Result<SlotMemory> SlotMemory::map(Descriptor fd, std::size_t slot_bytes, std::uint32_t slots) {
  void* start =
      ::mmap(nullptr, slot_bytes * slots, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (start == MAP_FAILED) return memory_error("cannot map them");
  return SlotMemory(std::move(fd), static_cast<char*>(start), slot_bytes, slots);
}

Result<Descriptor> SlotMemory::sealed(std::size_t size) {
  Descriptor fd(::memfd_create("partita-slots", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd.get() < 0) return memory_error("cannot make a memfd");
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0)
    return memory_error(fmt::format("cannot get {} MiB", size >> 20));
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return memory_error("cannot seal them");
  return fd;
}

Result<SlotMemory> SlotMemory::create(std::uint64_t slot_bytes, std::uint32_t slots) {
  const std::size_t size = size_of_all(slot_bytes, slots);
  if (size == 0) return bad_input(kContext, "this many bytes cannot be");
  Descriptor fd = TRY(sealed(size));
  return map(std::move(fd), slot_bytes, slots);
}

Result<SlotMemory> SlotMemory::attach(Descriptor fd, std::uint64_t slot_bytes,
                                      std::uint32_t slots) {
  const std::size_t size = size_of_all(slot_bytes, slots);
  if (size == 0) return bad_input(kContext, "this many bytes cannot be");
  TRY(check_memory(fd.get(), size, "REGION"));
  return map(std::move(fd), slot_bytes, slots);
}

bool SlotMemory::holds(const Joint& joint) const {
  const auto there = [&](std::uint32_t slot) { return slot < slots_; };
  return joint.offset % kSlotPage == 0 && joint.bytes % kSlotPage == 0 && joint.bytes > 0 &&
         joint.bytes <= slot_bytes_ && joint.offset <= slot_bytes_ - joint.bytes &&
         std::ranges::all_of(joint.slots, there);
}

Result<void> SlotMemory::join(int fd, const Joint& joint) {
  if (!holds(joint)) return bad_input(kContext, "JOINT says what no slot has");
  TRY(check_memory(fd, joint.bytes * joint.slots.size(), "JOINT"));
  for (std::size_t i = 0; i < joint.slots.size(); ++i)
    if (!remap(base(joint.slots[i]) + joint.offset, joint.bytes, fd, i * joint.bytes,
               joint.writable))
      return memory_error("cannot map them in common");
  return {};
}

Result<void> SlotMemory::part(const Joint& joint) {
  if (!holds(joint)) return bad_input(kContext, "JOINT says what no slot has");
  for (const std::uint32_t slot : joint.slots)
    if (!remap(base(slot) + joint.offset, joint.bytes, fd_.get(), slot * slot_bytes_ + joint.offset,
               true))
      return memory_error("cannot map them alone");
  return {};
}

char* SlotMemory::base(std::uint32_t slot) const {
  CHECK(slot < slots_);
  return start_ + (slot * slot_bytes_);
}

}  // namespace partita::serve
