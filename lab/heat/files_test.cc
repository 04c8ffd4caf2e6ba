#include <gtest/gtest.h>

#include "heat/flp.h"
#include "heat/lcf.h"
#include "heat/outputs.h"
#include "heat/ptrace.h"
#include "heat/steady.h"
#include "heat/testing/test_chips.h"
#include "heat/transient.h"

namespace partita::thermal {
namespace {

template <class T>
std::string refusal(const Result<T>& result) {
  return result ? "taken" : to_string(result.error());
}

TEST(flp, is_moved_to_the_origin_and_read_back) {
  const auto plan = read_flp("a.flp",
                             "# a comment\n\nL2\t0.004\t0.002\t0.001\t0.005\r\n"
                             "SM 0.002 0.002 0.001 0.003 # behind\nIO 2e-3 2e-3 3e-3 3e-3\n");
  ASSERT_TRUE(plan) << refusal(plan);
  EXPECT_NEAR(plan->width, 0.004, 1e-15);
  EXPECT_NEAR(plan->height, 0.004, 1e-15);
  EXPECT_EQ(plan->blocks[1].name, "SM");
  EXPECT_NEAR(plan->blocks[1].left, 0, 1e-15);
  EXPECT_NEAR(plan->blocks[0].bottom, 0.002, 1e-15);
  EXPECT_NEAR(uncovered_share(*plan), 0, 1e-12);
  const auto again = read_flp("b.flp", write_flp(*plan));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->blocks.size(), 3u);
  EXPECT_NEAR(again->blocks[2].left, plan->blocks[2].left, 1e-12);
}

TEST(flp, refuses_what_no_chip_is) {
  EXPECT_NE(refusal(read_flp("a", "SM 4 2 0 0\n")).find("a:1: width is 4"), std::string::npos);
  EXPECT_NE(refusal(read_flp("a", "SM 4 2 0 0\n")).find("millimetres"), std::string::npos);
  EXPECT_NE(refusal(read_flp("a", "A 1e-3 1e-3 0 0\nB 1e-3 1e-3 5e-4 0\n"))
                .find("a:2: B overlaps A of line 1 by 0.0005 m"),
            std::string::npos);
  EXPECT_NE(refusal(read_flp("a", "A 1e-3 1e-3 0 0\nA 1e-3 1e-3 1e-3 0\n")).find("a:2"),
            std::string::npos);
  EXPECT_NE(refusal(read_flp("a", "A 1e-3 -1e-3 0 0\n")).find("height"), std::string::npos);
  EXPECT_NE(refusal(read_flp("a", "A 1e-3 1e-3 0\n")).find("4 words"), std::string::npos);
  EXPECT_NE(refusal(read_flp("a", "A 1e-3 nan 0 0\n")).find("no number"), std::string::npos);
  EXPECT_NE(refusal(read_flp("a", "")).find("without blocks"), std::string::npos);
}

TEST(ptrace, columns_find_their_blocks) {
  const auto trace = read_ptrace("p", "b\ta\n1 2\n3\t4\n");
  ASSERT_TRUE(trace) << refusal(trace);
  const auto columns = trace_columns(*trace, {{"a", "b"}});
  ASSERT_TRUE(columns);
  EXPECT_EQ(*columns, (std::vector<int>{1, 0}));
  EXPECT_EQ(mean_watts(*trace, *columns), (std::vector<double>{3, 2}));
  // Stacks: layer after layer, where a name may stand in both.
  const auto stack = read_ptrace("p", "x a a y\n1 2 3 4\n");
  EXPECT_EQ(*trace_columns(*stack, {{"a", "x"}, {"y", "a"}}), (std::vector<int>{1, 0, 3, 2}));
}

TEST(ptrace, refuses_rows_and_names_that_do_not_fit) {
  EXPECT_NE(refusal(read_ptrace("p", "a b\n1 2\n3\n")).find("p:3: 1 numbers for the 2 blocks"),
            std::string::npos);
  EXPECT_NE(refusal(read_ptrace("p", "a b\n1 -2\n")).find("p:2: b: watts is -2"),
            std::string::npos);
  EXPECT_NE(refusal(read_ptrace("p", "a b\n")).find("without a sample"), std::string::npos);
  const auto trace = read_ptrace("p", "a b\n1 2\n");
  EXPECT_NE(refusal(trace_columns(*trace, {{"a", "c"}})).find("p:1: no watts for block c"),
            std::string::npos);
  EXPECT_NE(refusal(trace_columns(*trace, {{"a"}})).find("not in the floorplan"),
            std::string::npos);
}

TEST(config, is_read) {
  const auto config =
      read_config("c",
                  "# package\n\t\t-t_chip\t\t0.0002\n-init_file (null)\n-model_secondary 1\n"
                  "-grid_rows 32\n-grid_map_mode center\n-leakage_used 0\n-base_proc_freq 3e9\n");
  ASSERT_TRUE(config) << refusal(config);
  EXPECT_EQ(config->t_chip, 0.0002);
  EXPECT_EQ(config->init_file, "");
  EXPECT_TRUE(config->model_secondary);
  EXPECT_EQ(config->grid_rows, 32);
  EXPECT_EQ(config->grid_map_mode, MapMode::center);
}

// What HotSpot's own examples have in their files besides the simulator's keys.
TEST(config, keys_of_the_floorplanner_are_kept_by_name) {
  const auto config = read_config(
      "c",
      "-wrap_l2 1\n-l2_label L2\n-P0 0.99\n-lambdaA 5e+06\n-use_microfluidic_cooling 0\n"
      "-model_type block\n-wall_material silicon\n-t_chip 0.0002\n");
  ASSERT_TRUE(config) << refusal(config);
  EXPECT_EQ(config->other_tools,
            (std::vector<std::string>{"wrap_l2", "l2_label", "P0", "lambdaA"}));
  EXPECT_TRUE(config->block_model);
  EXPECT_EQ(config->t_chip, 0.0002);
  EXPECT_NE(refusal(read_config("c", "-use_microfluidic_cooling 1\n")).find("not modelled"),
            std::string::npos);
}

TEST(config, refuses_keys_and_numbers_that_are_wrong) {
  EXPECT_NE(refusal(read_config("c", "-t_chp 1e-4\n")).find("did you mean 't_chip'"),
            std::string::npos);
  EXPECT_NE(refusal(read_config("c", "\n-t_chip 0.15\n")).find("c:2: t_chip is 0.15"),
            std::string::npos);
  EXPECT_NE(refusal(read_config("c", "-ambient 45\n")).find("Celsius"), std::string::npos);
  EXPECT_NE(refusal(read_config("c", "-r_convec -1\n")).find("r_convec"), std::string::npos);
  EXPECT_NE(refusal(read_config("c", "-leakage_used 1\n")).find("not modelled"), std::string::npos);
  EXPECT_NE(refusal(read_config("c", "-t_chip 1e-4\n-t_chip 1e-4\n")).find("c:2: t_chip stands"),
            std::string::npos);
  EXPECT_NE(refusal(read_config("c", "t_chip 1e-4\n")).find("'-key value'"), std::string::npos);
}

TEST(materials, solids_and_fluids) {
  const auto materials =
      read_materials("m", "# x\nsilicon\nsolid\n130\n1.63e6\nwater\nfluid\n0.6\n4.18e6\n9e-4\n");
  ASSERT_TRUE(materials) << refusal(materials);
  EXPECT_EQ(materials->at("silicon").conductivity, 130);
  EXPECT_TRUE(materials->at("water").fluid);
  PackageConfig config;
  config.material_chip = "silicon";
  ASSERT_TRUE(use_materials(config, *materials));
  EXPECT_EQ(config.k_chip, 130);
  EXPECT_EQ(config.p_chip, 1.63e6);
  config.material_sink = "water";
  EXPECT_FALSE(use_materials(config, *materials));
  EXPECT_NE(refusal(read_materials("m", "a\nsolid\n1\n")).find("m:1"), std::string::npos);
  EXPECT_NE(refusal(read_materials("m", "a\ngas\n1\n1\n")).find("solid"), std::string::npos);
}

TEST(lcf, layers_by_number) {
  const auto layers =
      read_lcf("l", "1\nY\nN\nglue\n2e-5\nb.flp\n\n0\nY\nY\n1.75e6\n0.01\n1.5e-4\na.flp\n");
  ASSERT_TRUE(layers) << refusal(layers);
  ASSERT_EQ(layers->size(), 2u);
  EXPECT_TRUE((*layers)[0].power);
  EXPECT_EQ((*layers)[0].resistivity, 0.01);
  EXPECT_EQ((*layers)[1].material, "glue");
  EXPECT_EQ((*layers)[1].flp, "b.flp");
  EXPECT_NE(refusal(read_lcf("l", "0\nY\nmaybe\n")).find("l:3: power"), std::string::npos);
  EXPECT_NE(refusal(read_lcf("l", "1\nY\nY\n1.75e6\n0.01\n1e-4\na.flp\n")).find("no layer 0"),
            std::string::npos);
  EXPECT_NE(refusal(read_lcf("l", "0\nY\nY\n1.75e6\n0.01\n150\na.flp\n")).find("l:6: thickness"),
            std::string::npos);
  EXPECT_NE(refusal(read_lcf("l", "0\nY\nN\nsilicon\n1e-4\nchannels.csv\n"))
                .find("l:6: channels.csv describes microchannels, which are not modelled"),
            std::string::npos);
  EXPECT_NE(refusal(read_lcf("l", "0\nY\n")).find("the file ends where power is due"),
            std::string::npos);
}

TEST(outputs, names_stand_in_hotspots_order) {
  Chip chip = test_chip();
  chip.config.model_secondary = true;
  const auto network = make_network(chip, {8, 8, false});
  const auto lines =
      steady_lines(*network, steady_state(*network, std::vector<double>(5, 1)).solution);
  ASSERT_EQ(lines.size(), 9u * 5 + 28);
  const std::vector<std::string> firsts{"pcb_a", "solder_a", "sub_a", "c4_a",   "metal_a",
                                        "a",     "iface_a",  "hsp_a", "hsink_a"};
  for (std::size_t n = 0; n < firsts.size(); ++n) EXPECT_EQ(lines[5 * n].name, firsts[n]);
  EXPECT_EQ(lines[45].name, "inode_0");
  const auto stack = make_network(test_stack(), {8, 8, false});
  const auto stacked =
      steady_lines(*stack, steady_state(*stack, std::vector<double>(6, 1)).solution);
  EXPECT_EQ(stacked.front().name, "layer_0_a");
  EXPECT_EQ(stacked[5].name, "layer_1_whole");
  EXPECT_EQ(stacked[8].name, "hsp_whole");
  const auto again = read_steady("s", write_steady(lines));
  ASSERT_TRUE(again);
  EXPECT_NEAR((*again)[10].kelvin, lines[10].kelvin, 5e-7);
}

TEST(outputs, a_start_has_the_blocks_temperatures) {
  const auto network = make_network(test_chip(), {8, 12, false});
  std::vector<NamedKelvin> lines =
      steady_lines(*network, steady_state(*network, std::vector<double>(5, 3)).solution);
  const auto start = start_from(*network, "s", lines);
  ASSERT_TRUE(start) << refusal(start);
  const auto blocks = block_temperatures(*network, Solution{*start});
  for (std::size_t i = 0; i < blocks.size(); ++i) EXPECT_NEAR(blocks[i], lines[i].kelvin, 1e-9);
  EXPECT_EQ(start->back(), lines.back().kelvin);
  lines.pop_back();
  EXPECT_NE(refusal(start_from(*network, "s", lines)).find("no temperature for inode_11"),
            std::string::npos);
}

TEST(outputs, grids_and_traces_are_read_back) {
  const auto network = make_network(test_chip(), {3, 4, false});
  const Solution solution = steady_state(*network, std::vector<double>(5, 3)).solution;
  const std::string text = write_grid_steady(*network, solution);
  EXPECT_TRUE(text.starts_with("Layer 0:\n0\t3"));
  const auto grid = read_grid_steady("g", text);
  ASSERT_TRUE(grid) << refusal(grid);
  ASSERT_EQ(grid->layers.size(), 4u);
  EXPECT_NEAR(grid->layers[2][5], solution.kelvin[2 * 12 + 5], 5e-7);
  EXPECT_NE(refusal(read_grid_steady("g", "Layer 0:\n1\t300\n")).find("g:2: cell 0 is due"),
            std::string::npos);
  const auto trace = read_ttrace("t", write_ttrace({{"a", "b"}, {{300, 301.5}, {302, 303}}}));
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->rows[0][1], 301.5);
  EXPECT_NE(refusal(read_ttrace("t", "a b\n27 30\n300 0.2\n")).find("t:3"), std::string::npos);
}

}  // namespace
}  // namespace partita::thermal
