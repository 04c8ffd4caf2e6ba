// Fat binaries: what nvcc and clang put into a program for its device code. A wrapper points to a
// container, a container holds members: PTX text or cubins, one per target, compressed with zstd or
// LZ4 or not at all. Values point into the bytes that were given. Every length is checked.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "image/reading.h"

namespace partita::remote::image {

inline constexpr std::uint32_t kWrapperMagic = 0x466243b1;
inline constexpr std::uint32_t kContainerMagic = 0xba55ed50;
inline constexpr std::size_t kContainerHeader = 16;
inline constexpr std::uint64_t kMaxImage = std::uint64_t{512} << 20;  // decompressed

enum class MemberKind : std::uint16_t { ptx = 1, elf = 2 };
enum class Compression : std::uint32_t { none = 0, zstd = 1, lz4 = 2 };  // as on the wire

struct Member {
  MemberKind kind = MemberKind::ptx;
  Compression compression = Compression::none;
  std::uint32_t sm = 0;  // 90 for sm_90 and compute_90
  Blob stored = {};      // as it lies there
  std::uint64_t raw_bytes = 0;
};

// Bytes of the container that begins here, its header included; nothing when none does.
std::optional<std::uint64_t> container_bytes(Blob start);

// Members of the containers that lie one behind the other in `blob` (a section .nv_fatbin, or one
// container), with zeros between them. Members of other kinds are left out.
Result<std::vector<Member>> members_of(Blob blob);

// PTX text or a cubin alone, as cuModuleLoadData gets it; its end is found here: at the NUL of a
// text, behind the tables of an ELF file. `image` may be longer than what it holds.
Result<Member> bare_member(Blob image);

// The member's image. PTX comes without the NULs behind it.
Result<std::vector<std::byte>> unpacked(const Member& member);

// The member to use on a device of this compute capability (90 for 9.0): a cubin of the same major
// version with the highest minor one that it runs, else the newest PTX that is not newer than the
// device. `ptx_only`: the back end runs PTX of every version. Nothing when none fits.
const Member* choose(std::span<const Member> members, std::uint32_t sm, bool ptx_only);

// "sm_90, compute_90": for messages.
std::string targets_text(std::span<const Member> members);

}  // namespace partita::remote::image
