#include "forms/svg_page.h"

#include "base/unicode.h"
#include "forms/picture.h"

namespace partita::forms {

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
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" role=\"img\" aria-labelledby=\"title about\" font-family=\"system-ui, 'Helvetica "
      "Neue', Arial, 'DejaVu Sans', sans-serif\" fill=\"{2}\">\n<title id=\"title\">{3}</title>\n"
      "<desc id=\"about\">{4}</desc>\n<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n"
      "{5}</svg>\n",
      width, height, kInk, xml_escaped(title), xml_escaped(about), text_);
}

}  // namespace partita::forms
