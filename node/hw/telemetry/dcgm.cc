#include "hw/telemetry/dcgm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "base/parse_number.h"
#include "base/words.h"
#include "hw/telemetry/physics.h"

namespace partita::telemetry {
namespace {

// DCGM's blanks are numbers beyond these.
constexpr double kBlank = 1e14;
constexpr int kMostIndex = 1'000'000;
constexpr std::size_t kMaxWords = 4096;

// A column of dmon, a metric of the exporter, and where its value goes. `per`: DCGM's unit in ours.
struct DcgmField {
  std::string_view column, metric;
  double per = 1;
  void (*put)(GpuSample& gpu, double value) = nullptr;  // of the board
  std::optional<double> Activity::*share = nullptr;     // of what the line is about
  bool memory_used = false;
};

constexpr DcgmField kFields[] = {
    {"GRACT", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", 1, nullptr, &Activity::graphics_engine},
    {"SMACT", "DCGM_FI_PROF_SM_ACTIVE", 1, nullptr, &Activity::sm},
    {"SMOCC", "DCGM_FI_PROF_SM_OCCUPANCY", 1, nullptr, &Activity::occupancy},
    {"TENSO", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 1, nullptr, &Activity::tensor},
    {"DRAMA", "DCGM_FI_PROF_DRAM_ACTIVE", 1, nullptr, &Activity::dram},
    {"FP64A", "DCGM_FI_PROF_PIPE_FP64_ACTIVE", 1, nullptr, &Activity::fp64},
    {"FP32A", "DCGM_FI_PROF_PIPE_FP32_ACTIVE", 1, nullptr, &Activity::fp32},
    {"FP16A", "DCGM_FI_PROF_PIPE_FP16_ACTIVE", 1, nullptr, &Activity::fp16},
    {"POWER", "DCGM_FI_DEV_POWER_USAGE", 1,
     [](GpuSample& gpu, double value) { gpu.power = Watts{value}; }},
    {"TOTEC", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 1e-3,
     [](GpuSample& gpu, double value) { gpu.energy = Joules{value}; }},
    {"TMPTR", "DCGM_FI_DEV_GPU_TEMP", 1,
     [](GpuSample& gpu, double value) { gpu.temperature = Celsius{value}; }},
    {"MMTMP", "DCGM_FI_DEV_MEMORY_TEMP", 1,
     [](GpuSample& gpu, double value) { gpu.memory_temperature = Celsius{value}; }},
    {"SMCLK", "DCGM_FI_DEV_SM_CLOCK", 1,
     [](GpuSample& gpu, double value) { gpu.sm_clock = Mhz{value}; }},
    {"MMCLK", "DCGM_FI_DEV_MEM_CLOCK", 1,
     [](GpuSample& gpu, double value) { gpu.memory_clock = Mhz{value}; }},
    {"FBUSD", "DCGM_FI_DEV_FB_USED", 1, nullptr, nullptr, true},
};

// The newest header calls shares ..._UTIL_RATIO.
const DcgmField* field_of_metric(std::string_view metric) {
  for (const DcgmField& field : kFields) {
    if (metric == field.metric) return &field;
    const std::string_view stem = field.metric;
    constexpr std::string_view kOld = "_ACTIVE", kNew = "_UTIL_RATIO";
    if (stem.ends_with(kOld) && metric.ends_with(kNew) &&
        metric.substr(0, metric.size() - kNew.size()) == stem.substr(0, stem.size() - kOld.size()))
      return &field;
  }
  return nullptr;
}

// Whom a value is of.
struct Whom {
  int gpu = 0, gi_id = -1;
  std::string uuid = {}, profile = {};
};

// "3g.40gb+me": compute slices; 0 where it does not say.
int slices_of(std::string_view profile) {
  const auto slices = take_number<int>(profile);
  return slices && profile.starts_with('g') && *slices > 0 && *slices <= kMostSlices ? *slices : 0;
}

// A sample in the making: values in any order.
class Gathered {
 public:
  bool has(int gpu) const { return gpus_.contains(gpu); }

  void put(const Whom& whom, const DcgmField& field, double value) {
    GpuSample& gpu = gpus_[whom.gpu];
    gpu.index = whom.gpu;
    if (gpu.uuid.empty()) gpu.uuid = whom.uuid;
    InstanceSample* one = whom.gi_id < 0 ? nullptr : &instances_[{whom.gpu, whom.gi_id}];
    if (one) one->gi_id = whom.gi_id;
    if (one && !whom.profile.empty()) {
      one->profile = whom.profile;
      one->compute_slices = slices_of(whom.profile);
    }
    const bool first = seen_.insert_or_assign({whom.gpu, &field}, true).second;
    if (field.put != nullptr && first) field.put(gpu, value * field.per);
    if (field.share != nullptr) {
      Activity& activity = one ? one->activity : gpu.activity;
      activity.*field.share = std::min(value, 1.0);
    }
    if (field.memory_used && one) one->memory_used = Mib{value};
  }

  Sample at(Seconds time) const {
    Sample sample{.at = time, .gpus = {}};
    for (const auto& [index, gpu] : gpus_) sample.gpus.push_back(gpu);
    for (const auto& [key, one] : instances_) {
      const auto of = std::ranges::find(sample.gpus, key.first, &GpuSample::index);
      of->instances.push_back(one);
    }
    return sample;
  }

 private:
  std::map<int, GpuSample> gpus_;
  std::map<std::pair<int, int>, InstanceSample> instances_;
  std::map<std::pair<int, const DcgmField*>, bool> seen_;
};

// Lines with their numbers, without what ends them.
template <class Use>
Result<void> each_line(std::string_view text, const std::string& name, Use use) {
  for (int line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (one.ends_with('\r')) one.remove_suffix(1);
    if (one.find_first_not_of(" \t") == std::string_view::npos) continue;
    const std::string fault = use(one, line);
    if (!fault.empty()) return bad_input(fmt::format("{}:{}", name, line), fault);
  }
  return {};
}

// A number of DCGM; nothing where it has none. `fault` is set where it is no number at all.
std::optional<double> value_of(std::string_view word, std::string& fault) {
  if (word == "N/A" || word == "NaN" || word == "nan" || word == "-") return std::nullopt;
  const auto value = parse_number<double>(word);
  if (!value || !std::isfinite(*value)) {
    fault = fmt::format("'{}' is no number", word.substr(0, 40));
    return std::nullopt;
  }
  if (std::abs(*value) >= kBlank) return std::nullopt;
  if (*value < 0) fault = fmt::format("{} is negative", word.substr(0, 40));
  return fault.empty() ? value : std::nullopt;
}

// ---- the exporter's text

struct MetricLine {
  std::string_view name;
  Whom whom;
  std::string_view value, stamp;  // as written
};

// Takes `key="value"` off the front of labels; false at what is none.
bool take_label(std::string_view& labels, std::string_view& key, std::string& value) {
  const std::size_t equals = labels.find("=\"");
  if (equals == std::string_view::npos) return false;
  key = trimmed(labels.substr(0, equals));
  labels.remove_prefix(equals + 2);
  value.clear();
  while (!labels.empty() && labels.front() != '"') {
    if (labels.front() == '\\' && labels.size() > 1) labels.remove_prefix(1);
    value += labels.front();
    labels.remove_prefix(1);
  }
  if (labels.empty()) return false;
  labels.remove_prefix(1);
  if (labels.starts_with(',')) labels.remove_prefix(1);
  return true;
}

// "" when the labels tell whom the line is of.
std::string read_labels(std::string_view labels, Whom& whom) {
  bool gpu = false;
  std::string_view key;
  std::string value;
  const auto index = [&](int& out) {
    const auto number = parse_number<int>(value);
    if (number && *number >= 0 && *number <= kMostIndex) out = *number;
    return number && *number >= 0 && *number <= kMostIndex;
  };
  while (!trimmed(labels).empty()) {
    if (!take_label(labels, key, value)) return "labels are not key=\"value\" pairs";
    if (key == "gpu") {
      if (!index(whom.gpu)) return "'gpu' is no index";
      gpu = true;
    } else if (key == "GPU_I_ID" && !value.empty()) {
      if (!index(whom.gi_id)) return "'GPU_I_ID' is no index";
    } else if (key == "GPU_I_PROFILE") {
      whom.profile = value;
    } else if (key == "UUID" || key == "uuid") {
      whom.uuid = value;
    }
  }
  return gpu ? "" : "there is no label 'gpu'";
}

std::string read_metric(std::string_view line, MetricLine& out) {
  const std::size_t open = line.find('{');
  const std::size_t close = line.rfind('}');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open)
    return "a metric needs labels in braces";
  out.name = trimmed(line.substr(0, open));
  std::string_view rest = trimmed(line.substr(close + 1));
  const std::size_t blank = std::min(rest.find_first_of(" \t"), rest.size());
  out.value = rest.substr(0, blank);
  out.stamp = trimmed(rest.substr(blank));
  return read_labels(line.substr(open + 1, close - open - 1), out.whom);
}

// Samples of gathered values, checked in order.
Result<Log> checked(const std::map<double, Gathered>& gathered, const std::string& name) {
  Log log;
  Continuity continuity;
  for (const auto& [at, values] : gathered) {
    log.push_back(values.at(Seconds{at}));
    if (const std::string fault = continuity.fault_of(log.back()); !fault.empty())
      return bad_input(name, fmt::format("at {} s: {}", at, fault));
  }
  if (log.empty()) return bad_input(name, "no value of a GPU");
  return log;
}

// ---- dmon

std::vector<std::string_view> words_of(std::string_view line) {
  const bool commas = line.find(',') != std::string_view::npos;
  std::vector<std::string_view> words;
  while (!line.empty() && words.size() < kMaxWords) {
    const std::size_t end = std::min(line.find_first_of(commas ? "," : " \t"), line.size());
    const std::string_view word = trimmed(line.substr(0, end));
    if (commas || !word.empty()) words.push_back(word);
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return words;
}

class Dmon {
 public:
  explicit Dmon(DmonTimes times) : times_(times) {}

  std::string read(std::string_view line) {
    std::vector<std::string_view> words = words_of(line);
    if (words.front() == "#Entity" || words.front() == "Entity") {
      columns_.assign(words.begin() + 1, words.end());
      return {};
    }
    if (words.front() == "ID" || words.front().starts_with('#')) return {};  // units, remarks
    if (columns_.empty()) return "a row before the header '#Entity ...'";
    // "GPU 0" is two words, or one cell.
    std::string_view kind = words.front(), number;
    if (const std::size_t blank = kind.find(' '); blank != std::string_view::npos) {
      number = trimmed(kind.substr(blank));
      kind = kind.substr(0, blank);
      words.erase(words.begin());
    } else {
      if (words.size() < 2) return "a row without values";
      number = words[1];
      words.erase(words.begin(), words.begin() + 2);
    }
    if (words.size() != columns_.size())
      return fmt::format("{} values, the header has {} columns", words.size(), columns_.size());
    return row(kind, number, words);
  }

  const std::map<double, Gathered>& gathered() const { return gathered_; }

 private:
  std::string row(std::string_view kind, std::string_view number,
                  const std::vector<std::string_view>& words) {
    const auto index = parse_number<int>(number);
    if (!index || *index < 0 || *index > kMostIndex)
      return fmt::format("'{}' is no index", number.substr(0, 40));
    if (kind == "GPU") {
      if (gathered_[now()].has(*index)) ++tick_;
      gpu_ = *index;
    } else if (kind != "GPU-I") {
      return {};  // compute instances, switches, CPUs
    } else if (gpu_ < 0) {
      return "an instance before its GPU";
    }
    const Whom whom{.gpu = gpu_, .gi_id = kind == "GPU" ? -1 : *index};
    for (std::size_t i = 0; i < words.size(); ++i) {
      const auto field = std::ranges::find(kFields, columns_[i], &DcgmField::column);
      if (field == std::end(kFields)) continue;
      std::string fault;
      const auto value = value_of(words[i], fault);
      if (!fault.empty()) return fault;
      if (value) gathered_[now()].put(whom, *field, *value);
    }
    return {};
  }

  double now() const { return times_.start.value + tick_ * times_.interval.value; }

  DmonTimes times_;
  std::vector<std::string> columns_;
  std::map<double, Gathered> gathered_;
  int tick_ = 0, gpu_ = -1;
};

}  // namespace

Result<Log> read_dcgm_text(std::string_view text, const std::string& name, Seconds at) {
  std::map<double, Gathered> gathered;
  const auto read = each_line(text, name, [&](std::string_view line, int) -> std::string {
    if (line.starts_with('#')) return {};
    MetricLine metric;
    const DcgmField* field =
        field_of_metric(trimmed(line.substr(0, std::min(line.find_first_of("{ "), line.size()))));
    if (field == nullptr) return {};
    std::string fault = read_metric(line, metric);
    if (!fault.empty()) return fault;
    const auto value = value_of(metric.value, fault);
    if (!fault.empty() || !value) return fault;
    double time = at.value;
    if (!metric.stamp.empty()) {
      const auto stamp = parse_number<double>(metric.stamp);
      if (!stamp || !(*stamp >= 0 && *stamp <= kLatest.value * 1000))
        return fmt::format("'{}' is no time in milliseconds", metric.stamp.substr(0, 40));
      time = *stamp / 1000;
    }
    gathered[time].put(metric.whom, *field, *value);
    return {};
  });
  if (!read) return failed(read.error());
  return checked(gathered, name);
}

Result<Log> read_dcgm_dmon(std::string_view text, const std::string& name, DmonTimes times) {
  Dmon dmon(times);
  const auto read =
      each_line(text, name, [&](std::string_view line, int) { return dmon.read(trimmed(line)); });
  if (!read) return failed(read.error());
  return checked(dmon.gathered(), name);
}

}  // namespace partita::telemetry
