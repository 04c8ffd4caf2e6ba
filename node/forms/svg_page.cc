#include "forms/svg_page.h"

#include "base/unicode.h"
#include "forms/picture.h"

namespace partita::forms {
namespace {

// Attributes say what is drawn on a light screen; this says what to draw on a dark one.
constexpr std::string_view kDarkStyle = R"(<style>@media (prefers-color-scheme: dark) {
.partita {fill: #e6edf3}
.partita [fill="#ffffff"] {fill: #14181f}
.partita [stroke="#ffffff"] {stroke: #14181f}
.partita [fill="#1c2430"] {fill: #e6edf3}
.partita [stroke="#1c2430"] {stroke: #e6edf3}
.partita [fill="#667080"] {fill: #a3adba}
.partita [fill="#f3f5f7"] {fill: #1e252e}
.partita [fill="#e6eaef"] {fill: #333c48}
.partita [fill="#cfe8f7"] {fill: #1f4257}
.partita [stroke="#d5dae0"] {stroke: #47515f}
.partita .on text, .partita .on [fill="#1c2430"] {fill: #1c2430}
}</style>
)";

constexpr std::string_view kHatchPatterns[kHatchings] = {
    "<path d=\"M-1 1l2 -2M0 8l8 -8M7 9l2 -2\"/>", "<path d=\"M-1 7l2 2M0 0l8 8M7 -1l2 2\"/>",
    "<circle cx=\"2\" cy=\"2\" r=\"0.7\"/><circle cx=\"6\" cy=\"6\" r=\"0.7\"/>",
    "<path d=\"M0 2h8M0 6h8\"/>"};

std::string hatch_patterns() {
  std::string text = "<defs>\n";
  for (int i = 0; i < kHatchings; ++i)
    text += fmt::format(
        "<pattern id=\"hatch{}\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\"><g "
        "fill=\"none\" stroke=\"#000000\" stroke-width=\"1.4\" stroke-opacity=\"0.4\">{}</g>"
        "</pattern>\n",
        i + 1, kHatchPatterns[i]);
  return text + "</defs>\n";
}

}  // namespace

std::string svg_document(int width, int height, std::string_view title, std::string_view about,
                         std::string_view body) {
  const bool hatched = body.find("url(#hatch") != body.npos;
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"partita\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" role=\"img\" aria-labelledby=\"title about\" "
      "font-family=\"system-ui, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif\" "
      "fill=\"{2}\">\n<title id=\"title\">{3}</title>\n<desc id=\"about\">{4}</desc>\n{5}{6}"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n{7}</svg>\n",
      width, height, kInk, xml_escaped(title), xml_escaped(about), kDarkStyle,
      hatched ? hatch_patterns() : "", body);
}

Fill fill_of(int n) { return {distinct_colour(n), n / kDistinctColours % (1 + kHatchings)}; }

std::string box_svg(const SvgBox& box, const Fill& fill) {
  const auto rect = [&](std::string_view paint, std::string_view edge) {
    return fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\"{} fill=\"{}\"{}/>",
        box.x, box.y, box.width, box.height,
        box.radius > 0 ? fmt::format(" rx=\"{}\"", box.radius) : "", paint, edge);
  };
  const std::string edge =
      fmt::format(" stroke=\"{}\" stroke-width=\"{}\"", hex(darker(fill.colour)), box.stroke);
  if (fill.hatching == 0) return rect(hex(fill.colour), edge);
  return rect(hex(fill.colour), "") + rect(fmt::format("url(#hatch{})", fill.hatching), edge);
}

std::string rim(const Fill& fill) {
  if (fill.hatching == 0) return "";
  return fmt::format(
      " stroke=\"{}\" stroke-width=\"4\" stroke-linejoin=\"round\" "
      "paint-order=\"stroke\"",
      hex(fill.colour));
}

int SvgPage::head(std::string_view title, std::string_view subtitle, int width) {
  const double room = width - 2 * kPageMargin;
  put("<text x=\"{}\" y=\"{}\" font-size=\"{}\" font-weight=\"600\">{}</text>\n", kPageMargin,
      kPageMargin + kPageTitle, kPageTitle, xml_escaped(cut(title, kPageTitle * 1.1, room)));
  put("<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\">{}</text>\n", kPageMargin,
      kPageMargin + kPageTitle + 22, kPageName, kFaint,
      xml_escaped(cut(subtitle, kPageName, room)));
  return kPageMargin + kPageTitle + 40;
}

void SvgPage::note(double x, double y, std::string_view text) {
  put("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" fill=\"{}\">{}</text>\n", x, y, kPageSmall,
      kFaint, xml_escaped(text));
}

void SvgPage::begin_chips(int y, int width) {
  chip_x_ = kPageMargin;
  chip_y_ = y;
  chip_width_ = width;
}

double SvgPage::place(std::string_view name) {
  const double wide = 40 + text_width(name, kPageName);
  if (chip_x_ > kPageMargin && chip_x_ + wide > chip_width_ - kPageMargin) {
    chip_x_ = kPageMargin;
    chip_y_ += 20;
  }
  return std::exchange(chip_x_, chip_x_ + wide);
}

void SvgPage::chip(std::string_view fill, std::string_view stroke, std::string_view name) {
  const double x = place(name);
  put("<g class=\"legend\"><rect x=\"{:.1f}\" y=\"{}\" width=\"12\" height=\"12\" rx=\"2\" "
      "fill=\"{}\" stroke=\"{}\"/><text x=\"{:.1f}\" y=\"{}\" font-size=\"{}\" "
      "fill=\"{}\">{}</text></g>\n",
      x, chip_y_, fill, stroke, x + 18, chip_y_ + 11, kPageName, kFaint, xml_escaped(name));
}

void SvgPage::sign_chip(std::string_view path, std::string_view name) {
  const double x = place(name);
  put("<g class=\"legend\"><path transform=\"translate({:.1f} {})\" d=\"{}\"/><text x=\"{:.1f}\" "
      "y=\"{}\" font-size=\"{}\" fill=\"{}\">{}</text></g>\n",
      x, chip_y_, path, x + 18, chip_y_ + 11, kPageName, kFaint, xml_escaped(name));
}

void SvgPage::line_chip(std::string_view attributes, std::string_view name) {
  const double x = place(name);
  put("<g class=\"legend\"><path d=\"M{:.1f} {}h16\" fill=\"none\" {}/><text x=\"{:.1f}\" "
      "y=\"{}\" font-size=\"{}\" fill=\"{}\">{}</text></g>\n",
      x - 2, chip_y_ + 6, attributes, x + 18, chip_y_ + 11, kPageName, kFaint, xml_escaped(name));
}

std::string SvgPage::page(int width, int height, std::string_view title,
                          std::string_view about) && {
  return svg_document(width, height, title, about, text_);
}

}  // namespace partita::forms
