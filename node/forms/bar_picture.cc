#include "forms/bar_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/unicode.h"
#include "forms/picture.h"
#include "forms/svg_page.h"

namespace partita::forms {
namespace {

constexpr int kBarsWidth = 960, kBarsLeft = 210, kBarsRight = 780;
constexpr int kThick = 20, kThin = 8, kBetweenRows = 16;
constexpr double kBarTicks = 5;

// Round numbers up to the largest, some five steps.
double bar_step(double most) {
  const double rough = most / kBarTicks, power = std::pow(10, std::floor(std::log10(rough)));
  return power * (rough / power > 5 ? 10 : rough / power > 2 ? 5 : rough / power > 1 ? 2 : 1);
}

double most_amount(const BarPicture& picture) {
  double most = 0;
  for (const AmountRow& row : picture.rows)
    for (const AmountBar& bar : row.bars) {
      CHECK(std::isfinite(bar.value) && std::isfinite(bar.error));
      most = std::max(most, bar.value + bar.error);
    }
  return most > 0 ? most : 1;
}

class Bars {
 public:
  Bars(SvgPage& page, double most) : page_(page), most_(most) {}

  double x(double value) const {
    return kBarsLeft + std::max(0.0, value) / most_ * (kBarsRight - kBarsLeft);
  }

  void bar(const AmountBar& bar, double y, double height, const Fill& fill) {
    const double part = std::clamp(bar.part, 0.0, bar.value);
    const auto put = [&](double from, double to, const Fill& with) {
      if (to > from)
        page_.put("{}\n", box_svg({.x = x(from),
                                   .y = y,
                                   .width = x(to) - x(from),
                                   .height = height,
                                   .radius = 0,
                                   .stroke = 1},
                                  with));
    };
    put(part, bar.value, fill);
    put(0, part, {fill.colour, 1});
    if (bar.error <= 0) return;
    const double low = x(bar.value - bar.error), high = x(bar.value + bar.error);
    const double middle = y + height / 2;
    page_.put(
        "<path d=\"M{0:.1f} {2:.1f}H{1:.1f}M{0:.1f} {3:.1f}V{4:.1f}M{1:.1f} {3:.1f}V{4:.1f}\" "
        "stroke=\"{5}\" stroke-width=\"1.6\" fill=\"none\"/>\n",
        low, high, middle, middle - 5, middle + 5, kInk);
  }

 private:
  SvgPage& page_;
  double most_;
};

std::string amount_text(double value) {
  return value >= 1e6 ? fmt::format("{:.3g}", value) : fmt::format("{:.5g}", value);
}

}  // namespace

std::string bar_svg(const BarPicture& picture) {
  SvgPage page;
  const int top = page.head(picture.title, picture.subtitle, kBarsWidth) + 8;
  const double step = bar_step(most_amount(picture));
  const double most = std::ceil(most_amount(picture) / step - 1e-9) * step;
  const std::size_t rows = std::min(picture.rows.size(), kMostBarRows);
  const auto thin = static_cast<int>(picture.series.empty() ? 0 : picture.series.size() - 1);
  const int row_height = kThick + thin * (kThin + 2) + kBetweenRows;
  const double bottom = top + static_cast<double>(rows) * row_height;
  Bars bars(page, most);
  for (int i = 0; i * step <= most * (1 + 1e-9); ++i) {
    page.put("<path d=\"M{:.1f} {}V{:.1f}\" stroke=\"{}\" fill=\"none\"/>\n", bars.x(i * step), top,
             bottom, kPageLine);
    page.note(bars.x(i * step) - 8, bottom + 16,
              i == 0 ? "0 " + picture.unit : amount_text(i * step));
  }
  for (std::size_t r = 0; r < rows; ++r) {
    const AmountRow& row = picture.rows[r];
    double y = top + static_cast<double>(r) * row_height + kBetweenRows / 2.0;
    page.put("<text x=\"{}\" y=\"{:.1f}\" font-size=\"{}\">{}</text>\n", kPageMargin, y + 15,
             kPageName, xml_escaped(cut(row.name, kPageName, kBarsLeft - kPageMargin - 12)));
    for (std::size_t s = 0; s < row.bars.size(); ++s) {
      const double height = s == 0 ? kThick : kThin;
      bars.bar(row.bars[s], y, height, fill_of(static_cast<int>(s)));
      if (s == 0) page.note(bars.x(row.bars[s].value + row.bars[s].error) + 8, y + 14, row.note);
      y += height + 2;
    }
  }
  page.begin_chips(static_cast<int>(bottom) + 34, kBarsWidth);
  for (std::size_t s = 0; s < picture.series.size(); ++s) {
    const Fill fill = fill_of(static_cast<int>(s));
    page.chip(hex(fill.colour), hex(darker(fill.colour)), picture.series[s]);
  }
  if (!picture.part.empty())
    page.chip("url(#hatch1)", hex(darker(fill_of(0).colour)), picture.part);
  if (rows < picture.rows.size())
    page.chip("none", "none", fmt::format("and {} more", picture.rows.size() - rows));
  const int height = page.end_chips() + 10;
  return std::move(page).page(kBarsWidth, height, picture.title,
                              fmt::format("{} of {} by {}", picture.unit, picture.rows.size(),
                                          picture.series.empty() ? "" : picture.series.front()));
}

}  // namespace partita::forms
