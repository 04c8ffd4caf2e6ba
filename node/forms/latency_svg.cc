#include "forms/latency_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/unicode.h"
#include "forms/picture.h"
#include "forms/svg_page.h"

namespace partita::forms {
namespace {

constexpr int kLatencyWidth = 960, kLatencyRow = 34, kLatencyLeft = 220, kLatencyRight = 330;
constexpr double kMostOfSlo = 2;  // what is slower ends at the edge
constexpr int kSlowColour = 1, kFastColour = 0;

// Shares are rounded down: only all of them are 100 %.
std::string share_text(double share) {
  return fmt::format("{:.2f} %", std::floor(share * 1e4 + 1e-9) / 100);
}

double x_of(const LatencyRow& row, double ms) {
  const double share = row.slo_ms > 0 ? ms / row.slo_ms : 0;
  const double wide = kLatencyWidth - kLatencyLeft - kLatencyRight;
  return kLatencyLeft + std::clamp(share, 0.0, kMostOfSlo) / kMostOfSlo * wide;
}

void put_row(SvgPage& page, const LatencyRow& row, int y) {
  const bool good = row.attainment >= row.wanted;
  const Fill fill = fill_of(good ? kFastColour : kSlowColour);
  const double middle = y + kLatencyRow / 2.0;
  const std::string numbers = fmt::format(
      "{} {} of {} · p50 {} · p99 {}", good ? "✓" : "✗", share_text(row.attainment),
      share_text(row.wanted), duration_text(row.p50_ms / 1000), duration_text(row.p99_ms / 1000));
  page.put("<g class=\"service\"><title>{}: {}; SLO {}</title>", xml_escaped(row.name), numbers,
           row.slo_ms > 0 ? duration_text(row.slo_ms / 1000) : "unknown");
  page.put("<text x=\"{}\" y=\"{:.1f}\" font-size=\"{}\">{}</text>", kPageMargin, middle + 4,
           kPageName, xml_escaped(cut(row.name, kPageName, kLatencyLeft - kPageMargin - 12)));
  page.put("<path d=\"M{} {:.1f}H{:.1f}\" stroke=\"{}\" stroke-width=\"2\" fill=\"none\"/>",
           kLatencyLeft, middle, x_of(row, row.p99_ms), hex(darker(fill.colour)));
  page.put("{}", box_svg({kLatencyLeft + 0.0, middle - 8, x_of(row, row.p95_ms) - kLatencyLeft, 16},
                         fill));
  page.put("<path d=\"M{:.1f} {:.1f}v16\" stroke=\"#000000\" stroke-width=\"2\"/>",
           x_of(row, row.p50_ms), middle - 8);
  page.put("<text x=\"{}\" y=\"{:.1f}\" font-size=\"{}\" fill=\"{}\">{}</text></g>\n",
           kLatencyWidth - kLatencyRight + 16, middle + 4, kPageSmall, kFaint, numbers);
}

}  // namespace

std::string latency_svg(const std::string& title, const std::string& subtitle,
                        std::vector<LatencyRow> rows) {
  std::ranges::stable_sort(rows, {},
                           [](const LatencyRow& row) { return row.attainment - row.wanted; });
  SvgPage page;
  int y = page.head(title, subtitle, kLatencyWidth);
  page.begin_chips(y, kLatencyWidth);
  for (const auto& [number, name] : {std::pair{kFastColour, "p95, in time as promised"},
                                     std::pair{kSlowColour, "p95, ✗ less than promised"}})
    page.chip(hex(fill_of(number).colour), hex(darker(fill_of(number).colour)), name);
  page.line_chip("stroke=\"#667080\" stroke-width=\"2\"", "to p99");
  page.line_chip(fmt::format("stroke=\"{}\" stroke-width=\"1\" stroke-dasharray=\"4 3\"", kInk),
                 "objective of each service");
  y = page.end_chips() + 8;
  const int top = y;
  const std::size_t shown = std::min(rows.size(), kMostLatencyRows);
  for (std::size_t i = 0; i < shown; ++i, y += kLatencyRow) put_row(page, rows[i], y);
  const double objective = x_of({"", 1, 0, 0, 0, 0, 0}, 1);
  page.put(
      "<path d=\"M{0:.1f} {1}V{2}\" stroke=\"{3}\" stroke-width=\"1\" stroke-dasharray=\"4 3\" "
      "fill=\"none\"/>\n",
      objective, top, y, kInk);
  if (shown < rows.size())
    page.note(kPageMargin, y + 14, fmt::format("... and {} more", rows.size() - shown));
  return std::move(page).page(kLatencyWidth, y + kPageMargin, title, subtitle);
}

}  // namespace partita::forms
