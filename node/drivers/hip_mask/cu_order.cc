#include "drivers/hip_mask/cu_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace partita::drivers::hip_mask {
namespace {

std::uint32_t field(std::uint32_t word, int low, int bits) {
  return (word >> low) & ((1u << bits) - 1);
}

// The CUs of one XCC in the order of its bits.
std::vector<CuPlace> deal(const CuLayout& layout, int xcc) {
  const int most = *std::ranges::max_element(layout.active);
  std::vector<CuPlace> dealt;
  for (int cu = 0; cu < most; cu += layout.step)
    for (int array = 0; array < layout.arrays; ++array)
      for (int engine = 0; engine < layout.engines; ++engine)
        for (int i = cu; i < cu + layout.step && i < layout.cus_of(xcc, engine, array); ++i)
          dealt.push_back({xcc, engine, array, i});
  return dealt;
}

}  // namespace

int CuLayout::cus_of(int xcc, int engine, int array) const {
  return active[static_cast<std::size_t>((xcc * engines + engine) * arrays + array)];
}

CuLayout layout_of(const hw::Topology& topology, bool dies, int step) {
  const int clusters = topology.clusters();
  return {.xccs = dies ? clusters : 1,
          .engines = dies ? 1 : clusters,
          .arrays = 1,
          .step = step,
          .active = topology.units_in};
}

Result<std::vector<CuPlace>> places_of_bits(const CuLayout& layout) {
  std::vector<std::vector<CuPlace>> dealt;
  for (int xcc = 0; xcc < layout.xccs; ++xcc) dealt.push_back(deal(layout, xcc));
  for (const std::vector<CuPlace>& places : dealt)
    if (places.size() != dealt.front().size())
      return failed({ErrorCode::not_supported, "the dies have different numbers of CUs", {}});
  for (const int cus : layout.active)
    if (cus % layout.step != 0)
      return failed({ErrorCode::not_supported, "a shader array has half a pair of CUs", {}});
  const std::size_t step = static_cast<std::size_t>(layout.step);
  std::vector<CuPlace> places;
  for (std::size_t i = 0; i < dealt.front().size(); i += step)
    for (const std::vector<CuPlace>& of_xcc : dealt)
      for (std::size_t j = i; j < i + step; ++j) places.push_back(of_xcc[j]);
  return places;
}

Result<std::vector<int>> bits_of_units(const CuLayout& layout) {
  const auto places = TRY(places_of_bits(layout));
  std::vector<int> bits(places.size());
  std::iota(bits.begin(), bits.end(), 0);
  std::ranges::stable_sort(bits, {}, [&](int bit) {
    const CuPlace& place = places[static_cast<std::size_t>(bit)];
    return layout.xccs > 1 ? place.xcc : place.engine;
  });
  return bits;
}

std::vector<std::uint32_t> cu_words(const std::vector<int>& bits, const hw::UnitMask& mask) {
  std::vector<std::uint32_t> words((bits.size() + 31) / 32);
  for (std::size_t unit = 0; unit < bits.size(); ++unit) {
    const auto bit = static_cast<std::size_t>(bits[unit]);
    if (mask[unit]) words[bit / 32] |= std::uint32_t{1} << bit % 32;
  }
  return words;
}

CuPlace site_of(SiteForm form, std::uint32_t hw_id, std::uint32_t xcc_id) {
  const auto site = [](std::uint32_t xcc, std::uint32_t engine, std::uint32_t array,
                       std::uint32_t cu) {
    return CuPlace{static_cast<int>(xcc), static_cast<int>(engine), static_cast<int>(array),
                   static_cast<int>(cu)};
  };
  switch (form) {
    case SiteForm::gfx9:
      return site(0, field(hw_id, 13, 2), field(hw_id, 12, 1), field(hw_id, 8, 4));
    case SiteForm::gfx9_wide:
      return site(field(xcc_id, 0, 4), field(hw_id, 13, 3), field(hw_id, 12, 1),
                  field(hw_id, 8, 4));
    case SiteForm::gfx10:
      return site(0, field(hw_id, 18, 2), field(hw_id, 16, 1), field(hw_id, 10, 4));
    case SiteForm::gfx11:
      break;
  }
  return site(0, field(hw_id, 18, 3), field(hw_id, 16, 1), field(hw_id, 10, 4));
}

Result<std::map<CuPlace, int>> units_of_sites(const std::set<CuPlace>& sites, int step,
                                              const std::vector<int>& bits) {
  const std::size_t cus = sites.size() * static_cast<std::size_t>(step);
  if (cus != bits.size() || sites.empty())
    return failed(
        {ErrorCode::environment, fmt::format("work ran on {} CUs of {}", cus, bits.size()), {}});
  // XCCs are numbered as they come; an engine or array that is not seen has no CU in use.
  CuLayout layout{.xccs = 0, .engines = 0, .arrays = 0, .step = step, .active = {}};
  std::map<int, int> xcc_of;
  for (const CuPlace& site : sites) {
    if (xcc_of.emplace(site.xcc, layout.xccs).second) ++layout.xccs;
    layout.engines = std::max(layout.engines, site.engine + 1);
    layout.arrays = std::max(layout.arrays, site.array + 1);
  }
  layout.active.assign(static_cast<std::size_t>(layout.xccs * layout.engines * layout.arrays), 0);
  std::map<CuPlace, CuPlace> site_at;
  for (const CuPlace& site : sites) {
    const int xcc = xcc_of[site.xcc];
    int& active = layout.active[static_cast<std::size_t>(
        (xcc * layout.engines + site.engine) * layout.arrays + site.array)];
    site_at[{xcc, site.engine, site.array, active}] = site;
    active += step;
  }
  const auto places = TRY(places_of_bits(layout));
  std::map<CuPlace, int> units;
  for (std::size_t unit = 0; unit < bits.size(); ++unit) {
    const auto found = site_at.find(places[static_cast<std::size_t>(bits[unit])]);
    if (found != site_at.end()) units.emplace(found->second, static_cast<int>(unit));
  }
  return units;
}

}  // namespace partita::drivers::hip_mask
