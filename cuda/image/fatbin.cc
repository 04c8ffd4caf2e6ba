#include "image/fatbin.h"

#include <lz4.h>
#include <zstd.h>

#include <limits>

namespace partita::remote::image {
namespace {

constexpr std::uint64_t kMemberHeader = 64;
constexpr std::uint64_t kFlagLz4 = 0x2000, kFlagZstd = 0x8000;
constexpr std::uint64_t kMostGrowth = 4096;  // raw bytes per stored one
constexpr std::uint32_t kElfMagic = 0x464c457f;
constexpr std::byte kAbiOfCuda13{8};  // from here the flags have the target one byte higher

Result<Member> member_at(Blob bytes, std::uint16_t kind, std::uint64_t payload) {
  const auto stored = read_at<std::uint32_t>(bytes, 16);
  const auto sm = read_at<std::uint32_t>(bytes, 28);
  const auto flags = read_at<std::uint64_t>(bytes, 40);
  const auto raw = read_at<std::uint64_t>(bytes, 56);
  const auto header = read_at<std::uint32_t>(bytes, 4);
  if (!stored || !sm || !flags || !raw || !header)
    return bad_input("fat binary", "a member's header is cut");
  Member member{.kind = static_cast<MemberKind>(kind), .sm = *sm};
  if ((*flags & kFlagZstd) != 0) member.compression = Compression::zstd;
  if ((*flags & kFlagLz4) != 0) member.compression = Compression::lz4;
  const bool packed = member.compression != Compression::none;
  if (packed && *stored > payload)
    return bad_input("fat binary", "a member is longer than its place");
  member.stored = bytes.subspan(*header, packed ? *stored : payload);
  member.raw_bytes = packed ? *raw : payload;
  if (member.raw_bytes > kMaxImage) return bad_input("fat binary", "a member is too large");
  return member;
}

Result<void> add_members(Blob container, std::vector<Member>& members) {
  while (!container.empty()) {
    const auto kind = read_at<std::uint16_t>(container, 0);
    const auto header = read_at<std::uint32_t>(container, 4);
    const auto payload = read_at<std::uint64_t>(container, 8);
    if (!kind || !header || !payload) return bad_input("fat binary", "a member's header is cut");
    if (*header < kMemberHeader || *header > container.size() ||
        *payload > container.size() - *header)
      return bad_input("fat binary", "a member reaches over the end");
    if (*kind == static_cast<std::uint16_t>(MemberKind::ptx) ||
        *kind == static_cast<std::uint16_t>(MemberKind::elf)) {
      Member member = TRY(member_at(container, *kind, *payload));
      members.push_back(member);
    }
    container = container.subspan(*header + *payload);
  }
  return {};
}

// Behind the last of an ELF file's tables and sections.
std::optional<std::uint64_t> elf_bytes(Blob image) {
  const auto programs = read_at<std::uint64_t>(image, 32),
             sections = read_at<std::uint64_t>(image, 40);
  const auto program_size = read_at<std::uint16_t>(image, 54),
             count = read_at<std::uint16_t>(image, 56);
  const auto section_size = read_at<std::uint16_t>(image, 58),
             many = read_at<std::uint16_t>(image, 60);
  if (!programs || !sections || !program_size || !count || !section_size || !many)
    return std::nullopt;
  const std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
  if (*programs > most || *sections > most) return std::nullopt;
  std::uint64_t end = std::max(*programs + std::uint64_t{*program_size} * *count,
                               *sections + std::uint64_t{*section_size} * *many);
  for (std::uint64_t i = 0; i < *many; ++i) {
    const std::uint64_t at = *sections + i * *section_size;
    const auto type = read_at<std::uint32_t>(image, at + 4);
    const auto offset = read_at<std::uint64_t>(image, at + 24),
               size = read_at<std::uint64_t>(image, at + 32);
    if (!type || !offset || !size) return std::nullopt;
    constexpr std::uint32_t kNobits = 8;
    if (*type == kNobits) continue;
    if (*offset > most || *size > most) return std::nullopt;
    end = std::max(end, *offset + *size);
  }
  return end;
}

bool unpack_into(const Member& member, std::vector<std::byte>& raw) {
  if (member.compression == Compression::zstd) {
    const std::size_t got =
        ZSTD_decompress(raw.data(), raw.size(), member.stored.data(), member.stored.size());
    if (ZSTD_isError(got) != 0) return false;
    raw.resize(got);
    return true;
  }
  if (raw.size() > LZ4_MAX_INPUT_SIZE || member.stored.size() > LZ4_MAX_INPUT_SIZE) return false;
  const int got = LZ4_decompress_safe(
      reinterpret_cast<const char*>(member.stored.data()), reinterpret_cast<char*>(raw.data()),
      static_cast<int>(member.stored.size()), static_cast<int>(raw.size()));
  if (got < 0) return false;
  raw.resize(static_cast<std::size_t>(got));
  return true;
}

}  // namespace

std::optional<std::uint64_t> container_bytes(Blob start) {
  const auto magic = read_at<std::uint32_t>(start, 0);
  const auto header = read_at<std::uint16_t>(start, 6);
  const auto size = read_at<std::uint64_t>(start, 8);
  if (!size || *magic != kContainerMagic || *header < kContainerHeader ||
      *size > std::numeric_limits<std::uint64_t>::max() - *header)
    return std::nullopt;
  return *header + *size;
}

Result<std::vector<Member>> members_of(Blob blob) {
  std::vector<Member> members;
  while (!blob.empty()) {
    if (blob.front() == std::byte{0}) {  // between containers
      blob = blob.subspan(1);
      continue;
    }
    const auto size = container_bytes(blob);
    if (!size || *size > blob.size())
      return bad_input("fat binary", "a container's header is wrong or cut");
    const auto header = read_at<std::uint16_t>(blob, 6);
    TRY(add_members(blob.subspan(*header, *size - *header), members));
    blob = blob.subspan(*size);
  }
  return members;
}

Result<Member> bare_member(Blob image) {
  const auto magic = read_at<std::uint32_t>(image, 0);
  if (magic && *magic == kElfMagic) {
    const auto size = elf_bytes(image);
    if (!size || *size > image.size()) return bad_input("cubin", "its tables are wrong or cut");
    const std::uint32_t flags = read_at<std::uint32_t>(image, 48).value_or(0);
    const bool shifted = image[8] >= kAbiOfCuda13;
    return Member{.kind = MemberKind::elf,
                  .sm = (shifted ? flags >> 8 : flags) & 0xff,
                  .stored = image.first(*size),
                  .raw_bytes = *size};
  }
  const auto end = std::find(image.begin(), image.end(), std::byte{0});
  const Blob text = image.first(static_cast<std::size_t>(end - image.begin()));
  const std::string_view view(reinterpret_cast<const char*>(text.data()), text.size());
  if (view.find(".version") == view.npos) return bad_input("image", "neither PTX nor a cubin");
  return Member{.kind = MemberKind::ptx, .stored = text, .raw_bytes = text.size()};
}

Result<std::vector<std::byte>> unpacked(const Member& member) {
  std::vector<std::byte> raw;
  if (member.compression == Compression::none) {
    raw.assign(member.stored.begin(), member.stored.end());
  } else {
    if (member.raw_bytes > kMaxImage || member.raw_bytes / kMostGrowth > member.stored.size())
      return bad_input("fat binary", "a member says it is far larger than its bytes can be");
    raw.resize(member.raw_bytes);
    if (!unpack_into(member, raw)) return bad_input("fat binary", "a member does not decompress");
  }
  if (member.kind == MemberKind::ptx) {
    while (!raw.empty() && raw.back() == std::byte{0}) raw.pop_back();
  }
  return raw;
}

const Member* choose(std::span<const Member> members, std::uint32_t sm, bool ptx_only) {
  const Member* best = nullptr;
  for (const Member& member : members) {
    if (member.kind != MemberKind::elf || ptx_only) continue;
    if (member.sm / 10 != sm / 10 || member.sm > sm) continue;
    if (best == nullptr || member.sm > best->sm) best = &member;
  }
  if (best != nullptr) return best;
  for (const Member& member : members) {
    if (member.kind != MemberKind::ptx || (member.sm > sm && !ptx_only)) continue;
    if (best == nullptr || member.sm > best->sm) best = &member;
  }
  return best;
}

std::string targets_text(std::span<const Member> members) {
  std::string text;
  for (const Member& member : members) {
    const std::string target =
        (member.kind == MemberKind::ptx ? "compute_" : "sm_") + std::to_string(member.sm);
    if ((", " + text + ",").find(", " + target + ",") != std::string::npos) continue;
    text += (text.empty() ? "" : ", ") + target;
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace partita::remote::image
