#include "drivers/hip_mask/board.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include "base/parse_number.h"

namespace partita::drivers::hip_mask {
namespace {

constexpr int kCountLimit = 1 << 20;  // of anything that a node tells, addresses excepted

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// The lines "name value".
std::map<std::string_view, std::int64_t, std::less<>> numbers_of(std::string_view text) {
  std::map<std::string_view, std::int64_t, std::less<>> numbers;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos) continue;
    const std::optional<long> value = parse_number<long>(line.substr(space + 1));
    if (value) numbers[line.substr(0, space)] = *value;
  }
  return numbers;
}

// The shipped topology that the board is by name, else by architecture; nullptr when none is.
const hw::Topology* shipped(const HipFacts& facts) {
  static constexpr std::pair<int, std::string_view> kOfArchitecture[] = {
      {90006, "MI50"}, {90008, "MI100"}, {90010, "MI210"}, {90402, "MI300X"}};
  const std::string name = lower_case(facts.name);
  const hw::Topology* found = nullptr;
  for (const hw::Topology& topology : hw::builtin_topologies()) {
    if (topology.unit_name != "CU" || name.find(lower_case(topology.name)) == std::string::npos)
      continue;
    if (!found || topology.name.size() > found->name.size()) found = &topology;
  }
  if (found || !facts.kfd) return found;
  for (const auto& [gfx, of_name] : kOfArchitecture)
    for (const hw::Topology& topology : hw::builtin_topologies())
      if (gfx == facts.kfd->gfx && topology.name == of_name) found = &topology;
  return found;
}

// Clusters of equal size, or one of all CUs where it is not known which cluster has fewer.
hw::Topology generic(int cus, int clusters, int step, bool dies) {
  const bool equal = clusters > 0 && clusters <= hw::kMaxClusters && cus % (clusters * step) == 0;
  if (!equal) clusters = 1;
  hw::Topology topology = hw::generic_topology(clusters, cus / clusters);
  topology.cluster_name = !equal ? "GPU" : dies ? "XCD" : "SE";
  topology.unit_name = "CU";
  if (dies) topology.dies = clusters;
  topology.atoms = {step};
  topology.source = "the kernel driver amdgpu and HIP";
  return topology;
}

std::string why_generic(const HipFacts& facts, int cus, const hw::Topology* known,
                        const hw::Topology& topology) {
  std::string note;
  if (known) {
    note = fmt::format("{} has {} CUs in {} clusters, this board {}: ", known->name, known->units(),
                       known->clusters(), cus);
  }
  if (topology.clusters() > 1)
    return note + fmt::format("a generic topology of {} {} clusters of {} CUs", topology.clusters(),
                              topology.cluster_name, topology.units_in[0]);
  return note + (facts.kfd ? "its clusters have different numbers of CUs, so it is one cluster"
                           : "the kernel driver does not tell its clusters, so it is one cluster");
}

}  // namespace

std::optional<KfdNode> parse_kfd_node(std::string_view text) {
  const auto numbers = numbers_of(text);
  const auto number = [&](std::string_view name, std::int64_t otherwise) {
    const auto found = numbers.find(name);
    return found == numbers.end() ? otherwise : found->second;
  };
  const auto count = [&](std::string_view name, std::int64_t otherwise) {
    const std::int64_t value = number(name, otherwise);
    return value >= 0 && value <= kCountLimit ? static_cast<int>(value) : 0;
  };
  const int simds = count("simd_count", 0), per_cu = count("simd_per_cu", 0);
  const int arrays = count("array_count", 0), per_engine = count("simd_arrays_per_engine", 0);
  if (simds < 1 || per_cu < 1 || arrays < 1 || per_engine < 1) return std::nullopt;
  const std::int64_t location = number("location_id", 0);
  return KfdNode{.gfx = count("gfx_target_version", 0),
                 .cus = simds / per_cu,
                 .engines = arrays / per_engine,
                 .xccs = std::max(1, count("num_xcc", 1)),
                 .domain = count("domain", 0),
                 .bus = static_cast<int>(location >> 8 & 0xFF),
                 .device = static_cast<int>(location >> 3 & 0x1F)};
}

std::vector<KfdNode> read_kfd_nodes(const std::string& folder) {
  std::error_code none;
  std::vector<std::filesystem::path> paths;
  for (auto at = std::filesystem::directory_iterator(folder, none);
       !none && at != std::filesystem::directory_iterator(); at.increment(none))
    paths.push_back(at->path() / "properties");
  std::ranges::sort(paths);
  std::vector<KfdNode> nodes;
  for (const std::filesystem::path& path : paths) {
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (const auto node = parse_kfd_node(text)) nodes.push_back(*node);
  }
  return nodes;
}

Result<HipBoard> board_of(const HipFacts& facts) {
  const bool pairs = facts.major >= 10;
  const int step = pairs ? 2 : 1;
  const int cus =
      facts.kfd ? facts.kfd->cus : step * std::max(facts.physical, facts.multiprocessors);
  const int xccs = facts.kfd ? facts.kfd->xccs : facts.xccs;
  const int clusters = xccs > 1 ? xccs : facts.kfd ? facts.kfd->engines : xccs;
  if (cus < step || cus > hw::kMaxUnits)
    return failed(
        {ErrorCode::limit, fmt::format("{} CUs; masks have 1 to {}", cus, hw::kMaxUnits), {}});
  HipBoard board;
  board.name = facts.name;
  board.major = facts.major;
  board.minor = facts.minor;
  board.told = facts.multiprocessors;
  if (board.name.empty())
    board.name = facts.kfd ? fmt::format("gfx {}", facts.kfd->gfx) : "AMD GPU";
  const hw::Topology* known = shipped(facts);
  const bool dies = xccs > 1 || (known && known->dies > 1 && !facts.kfd);
  const bool fits = known && known->units() == cus &&
                    (clusters < 2 || clusters == known->clusters()) && (known->dies > 1) == dies;
  board.topology = fits ? *known : generic(cus, clusters, step, dies);
  if (xccs > 1 && board.topology.dies == 1)
    return failed({ErrorCode::not_supported,
                   fmt::format("its {} dies have different numbers of CUs, {} in all", xccs, cus),
                   {}});
  if (!fits) board.note = why_generic(facts, cus, known, board.topology);
  board.layout = layout_of(board.topology, dies && board.topology.clusters() > 1, step);
  board.bits = TRY(bits_of_units(board.layout));
  return board;
}

}  // namespace partita::drivers::hip_mask
