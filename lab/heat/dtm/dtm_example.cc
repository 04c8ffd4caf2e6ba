#include "heat/dtm/dtm_example.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace partita::dtm {
namespace {

constexpr double kMm = 1e-3, kIdleWatts = 17.4;

// Ten blocks of an SM: name, and where as shares of its width and height.
struct Part {
  std::string_view name;
  double x, y, width, height;
};
constexpr std::array<Part, 10> kParts = {{{"EXE_T", 0, 0.68, 0.45, 0.32},
                                          {"SFU_T", 0.45, 0.68, 0.17, 0.32},
                                          {"MEM_T", 0.62, 0.68, 0.38, 0.32},
                                          {"REG_A", 0, 0.32, 0.21, 0.36},
                                          {"REG_B", 0.21, 0.32, 0.21, 0.36},
                                          {"SHD_MEM", 0.42, 0.32, 0.32, 0.36},
                                          {"I_CACHE", 0.74, 0.32, 0.26, 0.36},
                                          {"EXE_B", 0, 0, 0.45, 0.32},
                                          {"SFU_B", 0.45, 0, 0.17, 0.32},
                                          {"MEM_B", 0.62, 0, 0.38, 0.32}}};

// Watts of the whole chip at the highest clock, by kind of block.
struct Mix {
  std::string_view name;
  double exe, sfu, registers, shared, l1, front, l2, io;
  double memory_share;
  double quiet;  // what the second half of each phase uses of it
};
constexpr std::array<Mix, 8> kMixes = {{{"compute", 17, 3, 7, 3, 2, 6, 1, 1, 0.02, 1},
                                        {"stencil", 9, 1, 5, 6, 4, 4, 3, 3, 0.25, 0.9},
                                        {"graph", 3, 0, 2, 1, 5, 3, 5, 6, 0.70, 0.8},
                                        {"matrix", 12, 0, 7, 6, 3, 5, 2, 2, 0.10, 1},
                                        {"clusters", 6, 2, 4, 1, 6, 3, 4, 5, 0.50, 0.6},
                                        {"solver", 2, 5, 2, 0, 1, 3, 1, 1, 0.05, 0.3},
                                        {"alignment", 3, 0, 2, 4, 2, 3, 2, 3, 0.40, 0.2},
                                        {"wavelet", 6, 1, 4, 4, 4, 3, 4, 4, 0.35, 0.7}}};

double watts_of(const Mix& mix, std::string_view block) {
  const auto is = [&](std::string_view word) { return block.find(word) != block.npos; };
  if (is("EXE")) return mix.exe / 12;
  if (is("SFU")) return mix.sfu / 12;
  if (is("REG")) return mix.registers / 12;
  if (is("SHD")) return mix.shared / 6;
  if (is("MEM_")) return mix.l1 / 12;
  if (is("I_CACHE")) return mix.front / 6;
  if (is("L2")) return mix.l2;
  if (is("IO_")) return mix.io / 3;
  return 0;
}

}  // namespace

thermal::Floorplan example_plan() {
  constexpr double kColumn = 4.9, kRow = 3.1, kFirstRow = 1.5, kRight = 6.9;
  thermal::Floorplan plan;
  plan.width = 12.6 * kMm;
  plan.height = 11.7 * kMm;
  for (int sm = 0; sm < 6; ++sm)
    for (const Part& part : kParts) {
      const double x = sm % 2 == 0 ? part.x : 1 - part.x - part.width;
      plan.blocks.push_back({fmt::format("SM{}_{}", sm, part.name), part.width * kColumn * kMm,
                             part.height * kRow * kMm,
                             ((sm % 2 == 0 ? 0 : kRight) + x * kColumn) * kMm,
                             (kFirstRow + (2 - sm / 2) * kRow + part.y * kRow) * kMm});
    }
  const auto add = [&](const char* name, double x, double y, double x_end, double y_end) {
    plan.blocks.push_back({name, (x_end - x) * kMm, (y_end - y) * kMm, x * kMm, y * kMm});
  };
  add("L2", kColumn, kFirstRow, kRight, 9.3);
  add("HUB", kColumn, 9.3, kRight, 10.8);
  add("GRAPHICS", 0, 0, kRight, kFirstRow);
  add("IO_TOP", 0, 10.8, 12.6, 11.7);
  add("IO_RIGHT", 11.8, kFirstRow, 12.6, 10.8);
  add("IO_BOTTOM", kRight, 0, 12.6, kFirstRow);
  return plan;
}

thermal::PackageConfig example_package() {
  thermal::PackageConfig config;
  config.t_chip = 0.4e-3;
  config.k_chip = 120;
  config.r_convec = 0.55;  // a small cooler with a fan
  config.c_convec = 8;
  config.s_sink = 0.04;
  config.t_sink = 0.003;
  config.s_spreader = 0.02;
  config.ambient = 318.15;
  return config;
}

std::vector<double> example_idle(const thermal::Floorplan& plan) {
  std::vector<double> watts;
  double sum = 0;
  for (const thermal::Block& block : plan.blocks) {
    const double density = block.name.starts_with("IO") ? 2.5 : block.name == "GRAPHICS" ? 0.4 : 1;
    watts.push_back(density * block.width * block.height);
    sum += watts.back();
  }
  for (double& one : watts) one *= kIdleWatts / sum;
  return watts;
}

std::vector<HotWork> example_workloads(const thermal::Floorplan& plan) {
  std::vector<HotWork> all;
  for (const Mix& mix : kMixes) {
    HotWork work;
    work.name = mix.name;
    work.row = Seconds{0.05};
    work.work = Seconds{4};
    work.memory_share = mix.memory_share;
    for (const double share : {1.0, mix.quiet}) {
      std::vector<double> row;
      for (const thermal::Block& block : plan.blocks)
        row.push_back(share * watts_of(mix, block.name));
      work.rows.push_back(std::move(row));
    }
    all.push_back(std::move(work));
  }
  return all;
}

}  // namespace partita::dtm
