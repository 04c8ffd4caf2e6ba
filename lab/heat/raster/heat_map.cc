#include "heat/raster/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numbers>

#include "base/base64.h"
#include "base/unicode.h"
#include "heat/raster/png_file.h"

namespace partita::raster {
namespace {

constexpr int kLevels = 254;                    // colours of the ramp; two more follow
constexpr int kNoNumber = 254, kOutline = 255;  // grey, white
constexpr int kLeastWidth = 256;
constexpr std::size_t kMostPixels = std::size_t{1} << 26;  // of an enlarged picture

using Colour = std::array<double, 3>;

// From Oklab's lightness, chroma and hue to linear red, green, blue.
Colour linear_rgb(double lightness, double chroma, double hue) {
  const double a = chroma * std::cos(hue), b = chroma * std::sin(hue);
  const double l = std::pow(lightness + 0.3963377774 * a + 0.2158037573 * b, 3);
  const double m = std::pow(lightness - 0.1055613458 * a - 0.0638541728 * b, 3);
  const double s = std::pow(lightness - 0.0894841775 * a - 1.2914855480 * b, 3);
  return {4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
          -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
          -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s};
}

bool can_be_shown(const Colour& colour) {
  return std::all_of(colour.begin(), colour.end(), [](double c) { return c >= 0 && c <= 1; });
}

// The ramp at t in 0..1: lightness grows evenly from dark to light, the hue goes from violet over
// red to yellow, the chroma is the largest up to 0.2 that a screen can show.
Colour ramp(double t) {
  const double lightness = 0.13 + 0.84 * t;
  const double hue = (290 + 180 * t) * std::numbers::pi / 180;
  double low = 0, high = 0.2;
  for (int i = 0; i < 30; ++i) {
    const double middle = (low + high) / 2;
    (can_be_shown(linear_rgb(lightness, middle, hue)) ? low : high) = middle;
  }
  return linear_rgb(lightness, low, hue);
}

std::uint8_t byte_of(double linear) {
  const double c = std::clamp(linear, 0.0, 1.0);
  const double shown = c <= 0.0031308 ? 12.92 * c : 1.055 * std::pow(c, 1 / 2.4) - 0.055;
  return static_cast<std::uint8_t>(std::lround(255 * shown));
}

std::vector<std::uint8_t> palette() {
  std::vector<std::uint8_t> bytes;
  for (int i = 0; i < kLevels; ++i)
    for (const double c : ramp(i / (kLevels - 1.0))) bytes.push_back(byte_of(c));
  bytes.insert(bytes.end(), {128, 128, 128, 255, 255, 255});
  return bytes;
}

// The ends of the scale.
struct Scale {
  double lowest = 0, highest = 0;

  std::uint8_t level(double value) const {
    if (!std::isfinite(value)) return kNoNumber;
    if (!(highest > lowest)) return 0;
    const double share = (value / 2 - lowest / 2) / (highest / 2 - lowest / 2);
    return static_cast<std::uint8_t>(std::lround((kLevels - 1) * std::clamp(share, 0.0, 1.0)));
  }
};

Scale scale_of(const Grid& grid, const HeatMapOptions& options) {
  double lowest = std::numeric_limits<double>::infinity(), highest = -lowest;
  for (const double value : grid.values) {
    if (!std::isfinite(value)) continue;
    lowest = std::min(lowest, value);
    highest = std::max(highest, value);
  }
  if (lowest > highest) lowest = highest = 0;  // no number at all
  return {options.lowest.value_or(lowest), options.highest.value_or(highest)};
}

int zoom_of(const Grid& grid) {
  if (grid.cols >= kLeastWidth) return 1;
  int zoom = (kLeastWidth + grid.cols - 1) / grid.cols;
  zoom += zoom % 2;
  while (zoom > 1 && grid.values.size() * static_cast<std::size_t>(zoom * zoom) > kMostPixels)
    zoom -= zoom > 2 ? 2 : 1;
  return zoom;
}

PngPicture pixels(const Grid& grid, const Scale& scale, int zoom) {
  PngPicture picture{grid.cols * zoom, grid.rows * zoom, {}, palette(), ""};
  picture.bytes.reserve(grid.values.size() * static_cast<std::size_t>(zoom * zoom));
  for (int row = 0; row < grid.rows; ++row) {
    const auto begin = picture.bytes.size();
    for (int col = 0; col < grid.cols; ++col)
      picture.bytes.insert(picture.bytes.end(), static_cast<std::size_t>(zoom),
                           scale.level(grid.at(row, col)));
    const std::vector<std::uint8_t> line(picture.bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                                         picture.bytes.end());
    for (int i = 1; i < zoom; ++i)
      picture.bytes.insert(picture.bytes.end(), line.begin(), line.end());
  }
  return picture;
}

// One pixel wide, inside the picture.
void draw(PngPicture& picture, const Outline& outline) {
  const auto pixel = [](double share, int size) {
    const double clamped = std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0.0;
    return std::min(static_cast<int>(clamped * size), size - 1);
  };
  const int left = pixel(outline.x, picture.width);
  const int right = pixel(outline.x + outline.width, picture.width);
  const int top = pixel(outline.y, picture.height);
  const int bottom = pixel(outline.y + outline.height, picture.height);
  const auto paint = [&](int x, int y) {
    picture.bytes[static_cast<std::size_t>(y) * static_cast<std::size_t>(picture.width) +
                  static_cast<std::size_t>(x)] = kOutline;
  };
  for (int x = left; x <= right; ++x) paint(x, top), paint(x, bottom);
  for (int y = top; y <= bottom; ++y) paint(left, y), paint(right, y);
}

constexpr int kPicture = 640, kTallest = 900, kMargin = 24, kHead = 34, kBar = 18;

struct Frame {
  double width = kPicture, height = kPicture;
  double bar() const { return kMargin + width + 16; }
  int page_width() const { return static_cast<int>(std::lround(bar() + kBar + 88)); }
  int page_height() const { return static_cast<int>(std::lround(height + kHead + kMargin)); }
};

Frame frame_of(const Grid& grid) {
  Frame frame;
  frame.height = frame.width * grid.rows / grid.cols;
  if (frame.height > kTallest) {
    frame.height = kTallest;
    frame.width = std::max(20.0, frame.height * grid.cols / grid.rows);
  }
  frame.height = std::max(frame.height, 60.0);
  return frame;
}

std::string outline_svg(const Outline& outline, const Frame& frame) {
  const double x = kMargin + outline.x * frame.width, y = kHead + outline.y * frame.height;
  const double width = outline.width * frame.width, height = outline.height * frame.height;
  std::string text = fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"none\" "
      "stroke=\"#ffffff\" stroke-width=\"1\"><title>{}</title></rect>\n",
      x, y, width, height, xml_escaped(outline.name));
  // A name that does not fit is turned, then made smaller, then left to the tooltip.
  const double length = std::max(1, columns(outline.name));
  const bool turned = height > 1.3 * width;
  const double room = turned ? height : width, thickness = turned ? width : height;
  const double size = std::min({11.0, 0.8 * thickness, (room - 2) / (0.6 * length)});
  if (size < 4.5) return text;
  const double cx = x + width / 2, cy = y + height / 2;
  text += fmt::format(
      "<text x=\"{0:.2f}\" y=\"{1:.2f}\" font-size=\"{2:.1f}\" text-anchor=\"middle\" "
      "dominant-baseline=\"central\" fill=\"#ffffff\" stroke=\"#000000\" stroke-width=\"2\" "
      "stroke-opacity=\"0.55\" paint-order=\"stroke\"{3}>{4}</text>\n",
      cx, cy, size, turned ? fmt::format(" transform=\"rotate(-90 {:.2f} {:.2f})\"", cx, cy) : "",
      xml_escaped(outline.name));
  return text;
}

// A step of 1, 2 or 5 times a power of ten, about five to the scale.
double tick_step(double span) {
  const double rough = span / 5, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough) return factor * power;
  return 10 * power;
}

std::string scale_svg(const Scale& scale, const Frame& frame, const std::string& unit) {
  Grid ramp_grid(kLevels, 1);
  for (int i = 0; i < kLevels; ++i) ramp_grid.at(i, 0) = kLevels - 1 - i;
  const std::string png = write_png(pixels(ramp_grid, {0, kLevels - 1}, 1));
  std::string text = fmt::format(
      "<image x=\"{:.2f}\" y=\"{}\" width=\"{}\" height=\"{:.2f}\" preserveAspectRatio=\"none\" "
      "href=\"data:image/png;base64,{}\"/>\n",
      frame.bar(), kHead, kBar, frame.height, base64(png));
  const auto label = [&](double value, double y, const std::string& after) {
    text += fmt::format(
        "<text x=\"{:.2f}\" y=\"{:.2f}\" font-size=\"11\" "
        "dominant-baseline=\"central\">{:.6g}{}</text>\n",
        frame.bar() + kBar + 6, y, value, after);
  };
  const std::string tail = unit.empty() ? "" : " " + xml_escaped(unit);
  const double span = scale.highest - scale.lowest;
  if (!(span > 0) || !std::isfinite(span)) {
    label(scale.lowest, kHead + frame.height / 2, tail);
    return text;
  }
  const double step = tick_step(span);
  const double first = std::ceil(scale.lowest / step - 1e-9);
  for (int i = 0; i <= 10; ++i) {
    const double value = (first + i) * step;
    if (value > scale.highest + 1e-9 * span || !std::isfinite(value)) break;
    const double y = kHead + frame.height * (scale.highest - value) / span;
    text += fmt::format("<path d=\"M{:.2f} {:.2f}h4\" stroke=\"#1c2430\"/>", frame.bar() + kBar, y);
    label(std::abs(value) < 1e-9 * step ? 0.0 : value, y, tail);
  }
  return text;
}

constexpr std::string_view kDarkScreens =
    "<style>@media (prefers-color-scheme: dark) {\n.heat {fill: #e6edf3}\n"
    ".heat [fill=\"#fefefe\"] {fill: #14181f}\n"
    ".heat [stroke=\"#1c2430\"] {stroke: #e6edf3}\n}</style>\n";

}  // namespace

std::string heat_map_png(const Grid& grid, const HeatMapOptions& options) {
  CHECK(grid.rows > 0 && grid.cols > 0);
  const Scale scale = scale_of(grid, options);
  PngPicture picture = pixels(grid, scale, zoom_of(grid));
  for (const Outline& outline : options.outlines) draw(picture, outline);
  picture.title = fmt::format("{} ({:.6g} to {:.6g}{}{})", options.title, scale.lowest,
                              scale.highest, options.unit.empty() ? "" : " ", options.unit);
  return write_png(picture);
}

std::string heat_map_svg(const Grid& grid, const HeatMapOptions& options) {
  CHECK(grid.rows > 0 && grid.cols > 0);
  const Scale scale = scale_of(grid, options);
  const Frame frame = frame_of(grid);
  const std::string title = xml_escaped(options.title);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"heat\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" role=\"img\" aria-labelledby=\"title about\" "
      "font-family=\"system-ui, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif\" "
      "fill=\"#1c2430\">\n<title id=\"title\">{2}</title>\n<desc id=\"about\">{3} x {4} values, "
      "{5:.6g} to {6:.6g} {7}</desc>\n{8}<rect width=\"{0}\" height=\"{1}\" fill=\"#fefefe\"/>\n"
      "<text x=\"{9}\" y=\"21\" font-size=\"15\">{2}</text>\n",
      frame.page_width(), frame.page_height(), title, grid.cols, grid.rows, scale.lowest,
      scale.highest, xml_escaped(options.unit), kDarkScreens, kMargin);
  svg += fmt::format(
      "<image x=\"{}\" y=\"{}\" width=\"{:.2f}\" height=\"{:.2f}\" preserveAspectRatio=\"none\" "
      "style=\"image-rendering: pixelated\" href=\"data:image/png;base64,{}\"/>\n",
      kMargin, kHead, frame.width, frame.height, base64(write_png(pixels(grid, scale, 1))));
  for (const Outline& outline : options.outlines) svg += outline_svg(outline, frame);
  svg += scale_svg(scale, frame, options.unit);
  return svg + "</svg>\n";
}

}  // namespace partita::raster
