#include "image/program.h"

#include <map>

#include "image/elf.h"

namespace partita::remote::image {
namespace {

constexpr std::uint32_t kDynamic = 6, kDynamicSymbols = 11, kVersionNeeds = 0x6ffffffe,
                        kVersions = 0x6fffffff;
constexpr std::uint64_t kNeeded = 1, kRpath = 15, kRunpath = 29;
constexpr std::size_t kDynamicEntry = 16, kSymbol = 24;
constexpr int kMaxVersions = 100000;

Blob linked_strings(std::span<const Section> sections, const Section& section) {
  return section.link < sections.size() ? sections[section.link].bytes : Blob{};
}

void add_dynamic(std::span<const Section> sections, Program& program) {
  const Section* dynamic = find_section_type(sections, kDynamic);
  if (dynamic == nullptr) return;
  const Blob strings = linked_strings(sections, *dynamic);
  for (std::uint64_t at = 0; at + kDynamicEntry <= dynamic->bytes.size(); at += kDynamicEntry) {
    const auto tag = read_at<std::uint64_t>(dynamic->bytes, at);
    const auto value = read_at<std::uint64_t>(dynamic->bytes, at + 8);
    if (*tag == 0) break;
    if (*tag == kNeeded) program.needed.emplace_back(text_at(strings, *value));
    if (*tag == kRunpath) program.runpath = text_at(strings, *value);
    if (*tag == kRpath && program.runpath.empty())
      program.runpath = text_at(strings, *value);
  }
}

// Names of versions by their index in the table of versions.
std::map<std::uint16_t, std::string> version_names(std::span<const Section> sections) {
  std::map<std::uint16_t, std::string> names;
  const Section* needs = find_section_type(sections, kVersionNeeds);
  if (needs == nullptr) return names;
  const Blob strings = linked_strings(sections, *needs);
  std::uint64_t file = 0;
  for (int steps = 0; steps < kMaxVersions; ++steps) {
    const auto count = read_at<std::uint16_t>(needs->bytes, file + 2);
    const auto first = read_at<std::uint32_t>(needs->bytes, file + 8);
    const auto next_file = read_at<std::uint32_t>(needs->bytes, file + 12);
    if (!count || !first || !next_file) break;
    std::uint64_t at = file + *first;
    for (int i = 0; i < *count && steps < kMaxVersions; ++i, ++steps) {
      const auto index = read_at<std::uint16_t>(needs->bytes, at + 6);
      const auto name = read_at<std::uint32_t>(needs->bytes, at + 8);
      const auto next = read_at<std::uint32_t>(needs->bytes, at + 12);
      if (!index || !name || !next) return names;
      names[*index] = text_at(strings, *name);
      if (*next == 0) break;
      at += *next;
    }
    if (*next_file == 0) break;
    file += *next_file;
  }
  return names;
}

void add_imports(std::span<const Section> sections, Program& program) {
  const Section* symbols = find_section_type(sections, kDynamicSymbols);
  if (symbols == nullptr) return;
  const Blob strings = linked_strings(sections, *symbols);
  const Section* versions = find_section_type(sections, kVersions);
  const auto names = version_names(sections);
  for (std::uint64_t i = 1; (i + 1) * kSymbol <= symbols->bytes.size(); ++i) {
    const auto name = read_at<std::uint32_t>(symbols->bytes, i * kSymbol);
    const auto section = read_at<std::uint16_t>(symbols->bytes, i * kSymbol + 6);
    if (*section != 0 || *name == 0) continue;
    Import import{std::string(text_at(strings, *name)), {}};
    if (versions != nullptr) {
      const auto index = read_at<std::uint16_t>(versions->bytes, i * 2);
      const auto found = names.find(static_cast<std::uint16_t>(index.value_or(0) & 0x7fff));
      if (found != names.end()) import.version = found->second;
    }
    program.imports.push_back(std::move(import));
  }
  std::sort(program.imports.begin(), program.imports.end());
}

bool imports(const Program& program, std::string_view name) {
  return std::any_of(program.imports.begin(), program.imports.end(),
                     [&](const Import& import) { return import.name == name; });
}

}  // namespace

Result<Program> read_program(Blob elf) {
  const std::vector<Section> sections = TRY(sections_of(elf));
  Program program;
  add_dynamic(sections, program);
  add_imports(sections, program);
  for (const Section& section : sections) {
    if (section.name == ".nvFatBinSegment") program.has_device_code = !section.bytes.empty();
    if (section.name != ".nv_fatbin" && section.name != "__nv_relfatbin") continue;
    program.has_device_code = true;
    if (section.name != ".nv_fatbin") continue;
    Result<std::vector<Member>> members = members_of(section.bytes);
    if (members) {
      program.members.insert(program.members.end(), members->begin(), members->end());
    } else {
      program.members_problem = members.error().message;
    }
  }
  // Who registers device code and imports no such function has the runtime inside.
  program.static_runtime = program.has_device_code && !imports(program, "__cudaRegisterFatBinary");
  return program;
}

}  // namespace partita::remote::image
