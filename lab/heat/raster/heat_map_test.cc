#include "heat/raster/heat_map.h"

#include <gtest/gtest.h>
#include <png.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace partita::raster {
namespace {

struct Picture {
  int width = 0, height = 0;
  std::vector<std::uint8_t> rgb;
  const std::uint8_t* at(int x, int y) const {
    return &rgb[3 * (static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
                     static_cast<std::size_t>(x))];
  }
};

// Read back by libpng's simple interface, which the writer does not use.
Picture decoded(const std::string& bytes) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  EXPECT_TRUE(png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()));
  image.format = PNG_FORMAT_RGB;
  Picture picture{static_cast<int>(image.width), static_cast<int>(image.height), {}};
  picture.rgb.resize(PNG_IMAGE_SIZE(image));
  EXPECT_TRUE(png_image_finish_read(&image, nullptr, picture.rgb.data(), 0, nullptr));
  return picture;
}

double luminance(const std::uint8_t* rgb) {
  const auto linear = [](int c) {
    const double v = c / 255.0;
    return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(rgb[0]) + 0.7152 * linear(rgb[1]) + 0.0722 * linear(rgb[2]);
}

Grid slope(int rows, int cols) {
  Grid grid(rows, cols);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) grid.at(r, c) = 300 + c;
  return grid;
}

TEST(HeatMap, WarmerIsLighterAndTheStepsAreEven) {
  const Picture picture = decoded(heat_map_png(slope(1, 300), {}));
  ASSERT_EQ(picture.width, 300);
  EXPECT_LT(luminance(picture.at(0, 0)), 0.01);
  EXPECT_GT(luminance(picture.at(299, 0)), 0.8);
  double last = -1, least = 1, most = 0;
  for (int x = 0; x < 300; x += 10) {
    const double lightness = std::cbrt(luminance(picture.at(x, 0)));
    if (last >= 0)
      least = std::min(least, lightness - last), most = std::max(most, lightness - last);
    last = lightness;
  }
  EXPECT_GT(least, 0.01);
  EXPECT_LT(most, 3 * least);
}

TEST(HeatMap, SmallMapsAreEnlargedByAnEvenNumberAndCellsStayWhole) {
  Grid grid(2, 3);
  grid.values = {0, 1, 2, 3, 4, 5};
  const Picture picture = decoded(heat_map_png(grid, {}));
  ASSERT_EQ(picture.width, 258);
  ASSERT_EQ(picture.height, 172);
  for (int r = 0; r < 2; ++r)
    for (int c = 0; c < 3; ++c)
      for (const int corner : {0, 85})
        EXPECT_TRUE(std::equal(picture.at(c * 86, r * 86), picture.at(c * 86, r * 86) + 3,
                               picture.at(c * 86 + corner, r * 86 + corner)));
}

TEST(HeatMap, WhatIsNoNumberIsGreyAndOutlinesAreWhite) {
  Grid grid = slope(256, 256);
  grid.at(10, 10) = std::numeric_limits<double>::quiet_NaN();
  HeatMapOptions options;
  options.outlines = {{"SM0", 0.25, 0.5, 0.25, 0.25}, {"off", -1, 0.9, 9, 9}};
  const Picture picture = decoded(heat_map_png(grid, options));
  EXPECT_EQ(std::vector<int>(picture.at(10, 10), picture.at(10, 10) + 3),
            (std::vector<int>{128, 128, 128}));
  for (const auto& [x, y] : {std::pair{64, 128}, {128, 192}, {100, 128}, {64, 150}})
    EXPECT_EQ(picture.at(x, y)[0], 255) << x << "," << y;
  EXPECT_LT(picture.at(100, 150)[0], 255);
}

TEST(HeatMap, GivenEndsOfTheScaleHoldForEveryPicture) {
  HeatMapOptions options;
  options.lowest = 0;
  options.highest = 600;
  const Picture cold = decoded(heat_map_png(Grid(256, 256, 300), options));
  const Picture warm = decoded(heat_map_png(Grid(256, 256, 900), options));
  EXPECT_GT(luminance(warm.at(0, 0)), 0.8);
  EXPECT_NEAR(std::cbrt(luminance(cold.at(0, 0))), 0.55, 0.1);
}

TEST(HeatMap, SvgHoldsPictureOutlinesTitleAndScale) {
  HeatMapOptions options{"Die <1> & \"co\"", "K", {}, {}, {{"REG & FILE", 0.1, 0.1, 0.5, 0.5}}};
  const std::string svg = heat_map_svg(slope(20, 30), options);
  for (const char* part :
       {"<svg xmlns=", "Die &lt;1&gt; &amp; &quot;co&quot;", "data:image/png;base64,iVBORw0KGgo",
        ">REG &amp; FILE</text>", ">310 K</text>", ">320 K</text>", "</svg>\n"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
}

TEST(HeatMap, AMapOfOneValueHasOneLabel) {
  const std::string svg = heat_map_svg(Grid(4, 4, 318.15), {"flat", "K", {}, {}, {}});
  EXPECT_NE(svg.find(">318.15 K</text>"), std::string::npos);
  EXPECT_NE(heat_map_svg(Grid(1, 5000, 1e300), {}).find("</svg>"), std::string::npos);
}

}  // namespace
}  // namespace partita::raster
