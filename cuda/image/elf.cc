#include "image/elf.h"

namespace partita::remote::image {
namespace {

constexpr std::uint32_t kMagic = 0x464c457f, kNoBits = 8;
constexpr std::uint64_t kSectionHeader = 64;
constexpr std::byte k64Bit{2}, kLittleEndian{1};

struct RawSection {
  std::uint32_t name, type;
  std::uint64_t flags, address, offset, size;
  std::uint32_t link, info;
};

}  // namespace

Result<std::vector<Section>> sections_of(Blob elf) {
  const auto magic = read_at<std::uint32_t>(elf, 0);
  const auto table = read_at<std::uint64_t>(elf, 40);
  const auto each = read_at<std::uint16_t>(elf, 58), count = read_at<std::uint16_t>(elf, 60);
  const auto names_at = read_at<std::uint16_t>(elf, 62);
  if (!names_at || *magic != kMagic || elf[4] != k64Bit || elf[5] != kLittleEndian)
    return bad_input("", "not a 64-bit ELF file");
  if (*each<kSectionHeader&& * count> 0) return bad_input("", "its section headers are cut");
  std::vector<RawSection> raw;
  for (std::uint64_t i = 0; i < *count; ++i) {
    if (*table > elf.size()) return bad_input("", "its section headers lie outside");
    const auto section = read_at<RawSection>(elf, *table + i * *each);
    if (!section) return bad_input("", "its section headers lie outside");
    raw.push_back(*section);
  }
  Blob names;
  if (*names_at < raw.size())
    names = slice(elf, raw[*names_at].offset, raw[*names_at].size).value_or(Blob{});
  std::vector<Section> sections;
  for (const RawSection& section : raw) {
    Blob bytes;
    if (section.type != kNoBits && section.type != 0) {
      const auto inside = slice(elf, section.offset, section.size);
      if (!inside) return bad_input("", "a section lies outside");
      bytes = *inside;
    }
    sections.push_back({.name = text_at(names, section.name),
                        .type = section.type,
                        .link = section.link,
                        .info = section.info,
                        .address = section.address,
                        .bytes = bytes});
  }
  return sections;
}

const Section* find_section_type(std::span<const Section> sections, std::uint32_t type) {
  for (const Section& section : sections)
    if (section.type == type) return &section;
  return nullptr;
}

}  // namespace partita::remote::image
