#include "profile/kernel_trace.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/median.h"
#include "base/repeats.h"
#include "profile/csv.h"

namespace partita::profile {
namespace {

constexpr double kMaxNs = 9e18, kNsPerUs = 1e3, kLeastUs = 1e-3;

int column_of(const Csv& csv, std::string_view older, std::string_view newer) {
  return std::max(csv.column(older), csv.column(newer));
}

// Of a kernel's descriptor, the kernel's.
std::string kernel_of(std::string_view name) {
  for (const std::string_view end : {" [clone .kd]", ".kd"})
    if (name.ends_with(end)) name.remove_suffix(end.size());
  return std::string(name);
}

}  // namespace

void in_order(KernelTrace& trace) { std::ranges::stable_sort(trace, {}, &TracedKernel::begin_us); }

Result<KernelTrace> parse_rocprof(const std::string& file, std::string_view text) {
  const Csv csv = TRY(parse_csv(file, text));
  const int name = column_of(csv, "KernelName", "Kernel_Name");
  const int begin = column_of(csv, "BeginNs", "Start_Timestamp");
  const int end = column_of(csv, "EndNs", "End_Timestamp");
  if (name < 0 || begin < 0 || end < 0)
    return bad_input(csv.at(csv.header),
                     "has no columns KernelName, BeginNs and EndNs (rocprof) or Kernel_Name, "
                     "Start_Timestamp and End_Timestamp (rocprofv3)");
  KernelTrace trace;
  for (const CsvRow& row : csv.rows) {
    const auto from = csv_number(csv, row, begin, {0, kMaxNs});
    const auto to = csv_number(csv, row, end, {0, kMaxNs});
    if (!from) return failed(from.error());
    if (!to) return failed(to.error());
    if (*to < *from) return bad_input(csv.at(row), "it ends before it begins");
    trace.push_back({kernel_of(row.cells[static_cast<std::size_t>(name)]), *from / kNsPerUs,
                     (*to - *from) / kNsPerUs});
  }
  in_order(trace);
  return trace;
}

Result<std::string> traced_request_csv(const std::string& file, const KernelTrace& trace,
                                       int units) {
  std::vector<std::string> names;
  for (const TracedKernel& kernel : trace) names.push_back(kernel.name);
  const std::vector<std::size_t> ends = repeats(names);
  if (ends.empty()) return bad_input(file, "its kernels repeat no request");
  const std::size_t first = ends.front(), period = ends[1] - first;
  std::string text = "index,kernel,units,time_us\n";
  for (std::size_t k = 0; k < period; ++k) {
    std::vector<double> times;
    for (std::size_t i = first + k; i < ends.back(); i += period) times.push_back(trace[i].us);
    text += fmt::format("{},{},{},{:.3f}\n", k, csv_cell(names[first + k]), units,
                        std::max(median(times), kLeastUs));
  }
  return text;
}

}  // namespace partita::profile
