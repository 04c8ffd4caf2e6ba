#include "forms/layout_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/unicode.h"
#include "forms/picture.h"
#include "forms/svg_page.h"

namespace partita::forms {
namespace {

std::string lines_escaped(std::string_view text) {
  const std::size_t end = text.find('\n');
  const std::string line = xml_escaped(text.substr(0, end));
  return end == text.npos ? line : line + '\n' + lines_escaped(text.substr(end + 1));
}

constexpr int kLayoutWidth = 1000, kLayoutRow = 42, kLayoutGap = 8, kLayoutInset = 2;
constexpr std::size_t kMostLayoutLegend = 60;

class LayoutDrawing {
 public:
  explicit LayoutDrawing(const LayoutPicture& picture) : picture_(picture) {
    for (const LayoutRow& row : picture.rows) {
      head_ = std::max(head_, std::min(200.0, text_width(row.label, kPageName)) + 12);
      for (const LayoutBox& box : row.boxes)
        if (!box.service.empty()) order_.emplace(box.service, static_cast<int>(order_.size()));
    }
  }

  std::string draw() && {
    int y = page_.head(picture_.title, picture_.subtitle, kLayoutWidth);
    y = legend(y) + 10;
    const std::size_t shown = std::min(picture_.rows.size(), kMostLayoutRows);
    for (std::size_t i = 0; i < shown; ++i, y += kLayoutRow + kLayoutGap) row(picture_.rows[i], y);
    if (shown < picture_.rows.size())
      page_.note(kPageMargin, y + 14, fmt::format("... and {} more", picture_.rows.size() - shown));
    return std::move(page_).page(kLayoutWidth, y + kPageMargin, picture_.title, picture_.subtitle);
  }

 private:
  int legend(int y) {
    page_.begin_chips(y, kLayoutWidth);
    std::vector<std::string> names(order_.size());
    for (const auto& [name, number] : order_) names[static_cast<std::size_t>(number)] = name;
    for (std::size_t i = 0; i < std::min(names.size(), kMostLayoutLegend); ++i) {
      const Rgb colour = fill_of(static_cast<int>(i)).colour;
      page_.chip(hex(colour), hex(darker(colour)), cut(names[i], kPageName, 220));
    }
    if (picture_.change) {
      page_.line_chip(fmt::format("stroke=\"{}\" stroke-width=\"3\"", kInk), "+ is created");
      page_.line_chip(
          fmt::format("stroke=\"{}\" stroke-width=\"2\" stroke-dasharray=\"3 3\"", kInk),
          "− is destroyed");
    }
    return page_.end_chips();
  }

  void row(const LayoutRow& row, int y) {
    const int slices = std::clamp(row.slices, 1, kMostLayoutSlices);
    const double left = kPageMargin + head_, wide = kLayoutWidth - kPageMargin - left;
    const double slice = wide / slices;
    page_.put("<g><title>{}</title><text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\">{}</text>",
              xml_escaped(row.facts), kPageMargin, y + 26, kPageName, kFaint,
              xml_escaped(cut(row.label, kPageName, head_ - 10)));
    page_.put(
        "<rect x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" rx=\"5\" fill=\"{}\" "
        "stroke=\"{}\"/><path d=\"",
        left, y, wide, kLayoutRow, kPageGround, kPageLine);
    for (int i = 1; i < slices; ++i) page_.put("M{:.1f} {}v{}", left + i * slice, y, kLayoutRow);
    page_.put("\" fill=\"none\" stroke=\"{}\" stroke-dasharray=\"2 3\"/></g>\n", kPageLine);
    for (const LayoutBox& box : row.boxes) {
      const int start = std::clamp(box.start, 0, slices - 1);
      const int size = std::clamp(box.size, 1, slices - start);
      draw_box(box, left + start * slice, y, size * slice);
    }
  }

  void draw_box(const LayoutBox& box, double x, double y, double width) {
    const bool known = !box.service.empty();
    const Fill fill = known ? fill_of(order_.at(box.service)) : Fill{{207, 213, 220}};
    const SvgBox area{x + kLayoutInset, y + kLayoutInset, width - 2 * kLayoutInset,
                      kLayoutRow - 2 * kLayoutInset, 4};
    page_.put("<g class=\"instance on\"><title>{}</title>", lines_escaped(box.facts));
    if (box.fate == BoxFate::goes)
      page_.put(
          "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" rx=\"4\" "
          "fill=\"#ffffff\" stroke=\"{}\" stroke-width=\"2\" stroke-dasharray=\"3 3\"/></g>"
          "<g class=\"instance\">",
          area.x, area.y, area.width, area.height, kInk);
    else
      page_.put("{}", box_svg({area.x, area.y, area.width, area.height, 4,
                               box.fate == BoxFate::comes ? 3.0 : 1.0},
                              fill));
    const double room = area.width - 10;
    const std::string sign = box.fate == BoxFate::goes    ? "− "
                             : box.fate == BoxFate::comes ? "+ "
                                                          : "";
    const std::string name = sign + (known ? box.service : "free") + (box.busy ? " •" : "");
    const std::string edge = box.fate == BoxFate::goes ? "" : rim(fill);
    page_.put("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" font-weight=\"600\"{}>{}</text>",
              x + 7, y + 18, kPageName, edge, xml_escaped(cut(name, kPageName * 1.1, room)));
    page_.put("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\"{}>{}</text></g>\n", x + 7, y + 33,
              kPageSmall, edge, xml_escaped(cut(box.about, kPageSmall, room)));
  }

  const LayoutPicture& picture_;
  SvgPage page_;
  std::map<std::string, int> order_;
  double head_ = 40;
};

}  // namespace

std::string layout_svg(const LayoutPicture& picture) { return LayoutDrawing(picture).draw(); }

}  // namespace partita::forms
