#include "heat/flp.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/unicode.h"
#include "heat/text_lines.h"

namespace partita::thermal {
namespace {

constexpr double kLargestDie = 0.2, kFarthest = 1, kSlack = 1.5e-6;  // metres
constexpr const char* kMetres = "metres are wanted, are these millimetres?";

Result<Block> block_of(const std::string& where, const WordLine& line) {
  const std::size_t count = line.words.size();
  if (count < 5 || count > 7)
    return bad_input(where, fmt::format("{} words; a block is 'name width height left bottom', "
                                        "perhaps with heat capacity and resistivity behind",
                                        count));
  Block block{std::string(line.words[0]), 0, 0, 0, 0};
  if (const std::string fault = name_fault(block.name); !fault.empty())
    return bad_input(where, "the block's name: " + fault);
  const auto read = [&](std::size_t word, double& value, const NumberWanted& wanted) {
    const Result<double> number = number_at(where, line.words[word], wanted);
    if (number) value = *number;
    return number;
  };
  double ignored = 0;
  Result<double> read_all = read(1, block.width, {"width", 1e-8, kLargestDie, kMetres});
  if (read_all) read_all = read(2, block.height, {"height", 1e-8, kLargestDie, kMetres});
  if (read_all) read_all = read(3, block.left, {"left", -kFarthest, kFarthest, kMetres});
  if (read_all) read_all = read(4, block.bottom, {"bottom", -kFarthest, kFarthest, kMetres});
  if (read_all && count > 5) read_all = read(5, ignored, {"heat capacity", 1e3, 1e8, "J/(m^3 K)"});
  if (read_all && count > 6) read_all = read(6, ignored, {"resistivity", 1e-6, 1e4, "m K/W"});
  if (!read_all) return failed(read_all.error());
  return block;
}

// How far two blocks lie in one another, metres; at most 0: they do not.
double overlap(const Block& a, const Block& b) {
  const double across = std::min(a.left + a.width, b.left + b.width) - std::max(a.left, b.left);
  const double up =
      std::min(a.bottom + a.height, b.bottom + b.height) - std::max(a.bottom, b.bottom);
  return std::min(across, up);
}

Result<void> check_overlaps(const std::string& file, const Floorplan& plan,
                            const std::vector<int>& lines) {
  for (std::size_t i = 0; i < plan.blocks.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (const double inside = overlap(plan.blocks[i], plan.blocks[j]); inside > kSlack)
        return bad_input(place(file, lines[i]),
                         fmt::format("{} overlaps {} of line {} by {:.3g} m", plan.blocks[i].name,
                                     plan.blocks[j].name, lines[j], inside));
  return {};
}

void move_to_origin(Floorplan& plan) {
  double left = kFarthest, bottom = kFarthest, right = -kFarthest, top = -kFarthest;
  for (const Block& block : plan.blocks) {
    left = std::min(left, block.left);
    bottom = std::min(bottom, block.bottom);
    right = std::max(right, block.left + block.width);
    top = std::max(top, block.bottom + block.height);
  }
  for (Block& block : plan.blocks) {
    block.left -= left;
    block.bottom -= bottom;
  }
  plan.width = right - left;
  plan.height = top - bottom;
}

}  // namespace

Result<Floorplan> read_flp(const std::string& file, std::string_view text) {
  const std::vector<WordLine> lines = TRY(word_lines(file, text));
  Floorplan plan;
  std::vector<int> numbers;
  std::map<std::string, int> names;
  for (const WordLine& line : lines) {
    const std::string where = place(file, line.line);
    Block block = TRY(block_of(where, line));
    const auto [first, added] = names.emplace(block.name, line.line);
    if (!added)
      return bad_input(
          where, fmt::format("block {} stands in line {} already", block.name, first->second));
    if (plan.blocks.size() == kMostBlocks)
      return bad_input(where, fmt::format("more than {} blocks", kMostBlocks));
    plan.blocks.push_back(std::move(block));
    plan.own_materials = plan.own_materials || line.words.size() > 5;
    numbers.push_back(line.line);
  }
  if (plan.blocks.empty()) return bad_input(file, "a floorplan without blocks");
  TRY(check_overlaps(file, plan, numbers));
  move_to_origin(plan);
  if (plan.width > kLargestDie || plan.height > kLargestDie)
    return bad_input(file, fmt::format("a die of {} x {} m; {}", plan.width, plan.height, kMetres));
  return plan;
}

std::string write_flp(const Floorplan& plan) {
  std::string text = "# name width height left bottom, in metres\n";
  for (const Block& b : plan.blocks)
    text += fmt::format("{}\t{:.9g}\t{:.9g}\t{:.9g}\t{:.9g}\n", b.name, b.width, b.height, b.left,
                        b.bottom);
  return text;
}

double uncovered_share(const Floorplan& plan) {
  double covered = 0;
  for (const Block& block : plan.blocks) covered += block.width * block.height;
  return std::max(0.0, 1 - covered / (plan.width * plan.height));
}

}  // namespace partita::thermal
