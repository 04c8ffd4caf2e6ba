// graph_run_svg of graph_forms.h.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/append.h"
#include "base/index.h"
#include "base/terminal.h"
#include "base/unicode.h"
#include "forms/gantt.h"
#include "forms/graph_forms.h"
#include "forms/graph_rows.h"
#include "forms/picture.h"
#include "forms/svg_page.h"

namespace partita::forms {
namespace {

constexpr int kGraphMargin = 28, kGraphPlotWidth = 1000, kGap = 8;
constexpr int kGraphTitleSize = 20, kGraphNameSize = 13, kGraphSmallSize = 11;
constexpr int kLeastRow = 26, kGraphMostTicks = 12;
constexpr double kMapWidth = 132, kGraphLeastWidth = 1.2;
constexpr int kMapCell = 6;  // pixels of a cluster's row at most
constexpr const char* kUsed = "#3b6fd4";
constexpr const char* kUnused = "#e6eaef";

class GraphSvg {
 public:
  explicit GraphSvg(const GraphResult& result)
      : problem_(result.problem),
        run_(result.run),
        result_(result),
        rows_(rows_of(result.run)),
        length_(std::max<std::int64_t>(1, run_ns(result.run))) {
    if (!run_.tasks.empty())
      begin_ = std::ranges::min_element(run_.tasks, {}, &GraphTaskRun::begin_ns)->begin_ns;
    const int clusters = run_.topology.clusters();
    map_row_ = std::clamp(200 / std::max(1, clusters), 3, kMapCell);
    lane_height_ = std::max(kLeastRow, clusters * map_row_ + 2);
    names_ = static_cast<int>(text_width("thread 00", kGraphNameSize));
    left_ = kGraphMargin + names_ + static_cast<int>(kMapWidth) + 2 * kGap;
  }

  std::string draw() && {
    title();
    const int top = kGraphMargin + kGraphTitleSize + 44;
    int y = top;
    const auto shown = std::min<std::size_t>(rows_.size(), kMaxGraphSvgRows);
    for (std::size_t i = 0; i < shown; ++i) y = row(rows_[i], y) + kGap;
    y = axis(top - 4, y);
    y = left_out(rows_.size() - shown, y);
    return svg_document(left_ + kGraphPlotWidth + kGraphMargin, y + kGraphMargin / 2,
                        problem_.name.empty() ? "task graph" : problem_.name,
                        "tasks on lanes and threads over time", text_);
  }

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    append(text_, format, std::forward<Args>(args)...);
  }

  double x(std::int64_t time) const {
    return left_ +
           kGraphPlotWidth * static_cast<double>(time - begin_) / static_cast<double>(length_);
  }

  void title() {
    const std::string name = problem_.name.empty() ? "task graph" : problem_.name;
    put("<text x=\"{}\" y=\"{}\" font-size=\"{}\" font-weight=\"600\">{}</text>\n", kGraphMargin,
        kGraphMargin + kGraphTitleSize, kGraphTitleSize,
        xml_escaped(cut(name, kGraphTitleSize, kGraphPlotWidth)));
    std::string facts =
        fmt::format("{}, {} on {}, {}; critical path {}, all tasks {}",
                    count_text(static_cast<long>(run_.tasks.size()), "task"), ns_text(run_ns(run_)),
                    run_.topology.name, count_text(run_.threads, "thread"),
                    ns_text(critical_path(problem_, run_).ns), ns_text(work_ns(run_)));
    if (result_.sequential)
      facts += fmt::format("; one after another {}", ns_text(run_ns(*result_.sequential)));
    put("<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\">{}</text>\n", kGraphMargin,
        kGraphMargin + kGraphTitleSize + 22, kGraphNameSize, kFaint, xml_escaped(facts));
  }

  // A row of cells per cluster, one cell per unit.
  void map(const hw::UnitMask& mask, int y) {
    const hw::Topology& topology = run_.topology;
    const int widest = std::ranges::max(topology.units_in);
    const double cell = std::min<double>(kMapCell * 2, kMapWidth / widest);
    std::string used, unused;
    std::size_t unit = 0;
    for (int cluster = 0; cluster < topology.clusters(); ++cluster) {
      for (int i = 0; i < topology.units_in[at(cluster)]; ++i, ++unit)
        (mask[unit] ? used : unused) +=
            fmt::format("M{:.2f} {}h{:.2f}v{}h-{:.2f}z", kGraphMargin + names_ + kGap + i * cell,
                        y + cluster * map_row_, cell * 0.85, map_row_ - 1, cell * 0.85);
    }
    put("<g class=\"mask\"><title>{} of {}: mask {}\n{} per {}</title>",
        count_text(static_cast<long>(mask.count()), topology.unit_name), topology.name,
        hw::mask_hex(mask), joined(hw::units_per_cluster(topology, mask), ", "),
        xml_escaped(topology.cluster_name));
    if (!unused.empty()) put("<path d=\"{}\" fill=\"{}\"/>", unused, kUnused);
    if (!used.empty()) put("<path d=\"{}\" fill=\"{}\"/>", used, kUsed);
    put("</g>\n");
  }

  int row(const GraphRow& row, int y) {
    const int height = row.lane >= 0 ? lane_height_ : kLeastRow;
    put("<text x=\"{}\" y=\"{:.1f}\" font-size=\"{}\" fill=\"{}\">{}</text><rect x=\"{}\" y=\"{}\" "
        "width=\"{}\" height=\"{}\" fill=\"{}\" stroke=\"{}\"/>\n",
        kGraphMargin, y + height / 2.0 + 0.35 * kGraphNameSize, kGraphNameSize, kFaint,
        row_name(row), left_, y, kGraphPlotWidth, height, kPageGround, kPageLine);
    if (row.lane >= 0) map(row.mask, y + (height - run_.topology.clusters() * map_row_) / 2);
    for (const int task : row.tasks)
      if (boxes_++ < kMaxGraphBoxes) box(task, y, height);
    return y + height;
  }

  void box(int task, int y, int height) {
    const GraphTaskRun& its = run_.tasks[at(task)];
    const std::string& name = problem_.tasks[at(task)].name;
    const double begin = x(its.begin_ns), width = std::max(kGraphLeastWidth, x(its.end_ns) - begin);
    const Fill fill = fill_of(task);
    put("<g class=\"task on\"><title>{}\n{}\n{} to {}: {}</title>{}", xml_escaped(name),
        xml_escaped(place_text(run_, its)), ns_text(its.begin_ns - begin_),
        ns_text(its.end_ns - begin_), ns_text(its.end_ns - its.begin_ns),
        box_svg({begin, y + 0.0, width, height + 0.0, width > 8 ? 2.0 : 0.0, width > 4 ? 0.8 : 0.3},
                fill));
    constexpr double kPadding = 3, kLeastName = 2;
    const double room = width - 2 * kPadding;
    if (text_width(name, kGraphSmallSize) <= room || room >= kLeastName * kGraphSmallSize)
      put("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\"{}>{}</text>", begin + kPadding,
          y + height / 2.0 + 0.35 * kGraphSmallSize, kGraphSmallSize, rim(fill),
          xml_escaped(cut(name, kGraphSmallSize, room)));
    put("</g>\n");
  }

  int axis(int top, int bottom) {
    const std::vector<Nanos> all = ticks(length_, kGraphMostTicks);
    const AxisUnit unit = axis_unit(length_);
    put("<path d=\"");
    for (const Nanos tick : all) put("M{:.2f} {}V{}", x(begin_ + tick), top, bottom);
    put("\" stroke=\"#8a94a3\" stroke-opacity=\"0.45\" stroke-width=\"0.8\"/>\n");
    for (const Nanos tick : all)
      put("<text x=\"{:.2f}\" y=\"{}\" font-size=\"{}\" fill=\"{}\" "
          "text-anchor=\"middle\">{}{}</text>\n",
          x(begin_ + tick), bottom + 15, kGraphSmallSize, kFaint, unit.number(tick),
          tick == all.back() ? fmt::format(" {}", unit.name) : "");
    return bottom + 24;
  }

  int left_out(std::size_t rows, int y) {
    std::string text;
    if (rows > 0) text = count_text(static_cast<long>(rows), "lane or thread");
    if (boxes_ > kMaxGraphBoxes)
      text += (text.empty() ? "" : ", ") + count_text(boxes_ - kMaxGraphBoxes, "task");
    if (text.empty()) return y;
    put("<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\">not drawn: {}</text>\n", left_,
        y + 14, kGraphNameSize, kFaint, text);
    return y + 22;
  }

  const GraphProblem& problem_;
  const GraphRun& run_;
  const GraphResult& result_;
  const std::vector<GraphRow> rows_;
  const std::int64_t length_;
  std::int64_t begin_ = 0;
  int map_row_ = 0, lane_height_ = 0, names_ = 0, left_ = 0;
  long boxes_ = 0;
  std::string text_;
};

}  // namespace

std::string graph_run_svg(const GraphResult& result) { return GraphSvg(result).draw(); }

}  // namespace partita::forms
