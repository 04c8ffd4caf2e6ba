#include "llm/runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/document.h"
#include "base/parse_number.h"
#include "base/unicode.h"
#include "profile/csv.h"

namespace partita::llm {
namespace {

using Path = std::initializer_list<std::string_view>;
constexpr double kMostTokensOfRun = 1e8, kMostConcurrency = 1e7, kShortestMs = 1e-6,
                 kLongestMs = 1e9;

// ---- what a run says ----

struct Run {
  Configuration configuration = {};
  std::optional<double> in, out, ttft_ms, tpot_ms;
  std::optional<double> in_flight;            // of a closed loop
  std::optional<double> rate, latency_ms;     // requests/s, mean of whole answers
  std::optional<double> completed, failures;  // requests
  Percentiles ttft_at = {}, tpot_at = {}, itl_at = {};
  std::optional<double> itl_ms;
  std::vector<std::string> notes = {};  // what was made of what the file says
};

const Node* at(const Node& root, Path path) {
  const Node* node = &root;
  for (const std::string_view key : path)
    if (node != nullptr) node = node->find(key);
  return node;
}

// The first of these that is a number, or text that is one (--metadata writes such).
std::optional<double> number(const Node& root, std::initializer_list<Path> paths) {
  for (const Path& path : paths) {
    const Node* const node = at(root, path);
    if (node == nullptr) continue;
    if (node->kind == Node::Kind::number) return node->number;
    if (node->kind != Node::Kind::string) continue;
    std::string_view text = node->text;
    const auto value = take_number<double>(text);
    if (value && text.empty() && std::isfinite(*value)) return *value;
  }
  return std::nullopt;
}

std::optional<int> count(const Node& root, std::initializer_list<Path> paths) {
  const std::optional<double> value = number(root, paths);
  if (!value || !(*value >= 1 && *value <= 1e6)) return std::nullopt;
  return static_cast<int>(*value);
}

std::string text(const Node& root, std::initializer_list<Path> paths) {
  for (const Path& path : paths)
    if (const Node* const node = at(root, path); node && node->kind == Node::Kind::string)
      return node->text;
  return "";
}

std::optional<double> ratio(std::optional<double> a, std::optional<double> b) {
  return a && b && *b > 0 ? std::optional(*a / *b) : std::nullopt;
}

std::optional<Millis> time(std::optional<double> ms) {
  return ms ? std::optional(Millis{*ms}) : std::nullopt;
}

// ---- vLLM and SGLang ----

// "ttft", "tpot" or "itl"; the median always has that name, others those that were asked for.
Percentiles written_percentiles(const Node& root, const std::string& what) {
  const auto of = [&](const char* at) {
    return number(root, {{fmt::format("{}_{}_ms", at, what)}});
  };
  const std::optional<double> median = of("median");
  return {time(median ? median : of("p50")), time(of("p90")), time(of("p99"))};
}

// Seconds; where nothing is written, by straight lines between neighbours, as numpy has them.
void add_percentiles(std::vector<double> seconds, Percentiles& percentiles) {
  if (seconds.empty()) return;
  std::ranges::sort(seconds);
  for (std::size_t i = 0; i < std::size(kPercentiles); ++i) {
    std::optional<Millis>& one = percentiles.*kPercentiles[i];
    if (one) continue;
    const double place = kPercents[i] / 100 * static_cast<double>(seconds.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const double above = seconds[std::min(below + 1, seconds.size() - 1)];
    const double part = place - static_cast<double>(below);
    one = Millis{1e3 * (seconds[below] + part * (above - seconds[below]))};
  }
}

// Numbers of a list, and, of a list of lists, the sum of each.
std::vector<double> numbers(const Node& root, std::string_view key) {
  std::vector<double> all;
  const Node* const list = root.find(key);
  for (const Node& item : list ? list->items : std::vector<Node>{}) {
    double sum = item.number;
    for (const Node& one : item.items) sum += one.number;
    all.push_back(sum);
  }
  return all;
}

// Detailed runs have every request; where the means are not written they tell them. Seconds there;
// requests that failed have a time of 0 to a first token that never came.
void add_details(const Node& root, Run& run) {
  std::vector<double> first = numbers(root, "ttfts");
  const std::vector<double> rest = numbers(root, "itls"), tokens = numbers(root, "output_lens");
  std::erase_if(first, [](double time) { return time <= 0; });
  if (!run.ttft_ms && !first.empty())
    run.ttft_ms =
        1e3 * std::accumulate(first.begin(), first.end(), 0.0) / static_cast<double>(first.size());
  add_percentiles(std::move(first), run.ttft_at);
  std::vector<double> gaps;
  if (const Node* const lists = root.find("itls"))
    for (const Node& list : lists->items)
      for (const Node& gap : list.items) gaps.push_back(gap.number);
  add_percentiles(std::move(gaps), run.itl_at);
  if (rest.empty() || rest.size() != tokens.size()) return;
  std::vector<double> each;
  for (std::size_t i = 0; i < rest.size(); ++i)
    if (tokens[i] >= 2) each.push_back(rest[i] / (tokens[i] - 1));
  if (!run.tpot_ms && !each.empty())
    run.tpot_ms =
        1e3 * std::accumulate(each.begin(), each.end(), 0.0) / static_cast<double>(each.size());
  add_percentiles(std::move(each), run.tpot_at);
}

std::string lower(std::string word) {
  std::ranges::transform(word, word.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return word;
}

// As points have it; empty: the server took it from the model, which the file does not show.
std::string precision_of(const Node& server) {
  const std::string weights = lower(text(server, {{"quantization"}}));
  if (!weights.empty()) return weights;
  const std::string type = text(server, {{"dtype"}});
  return type == "bfloat16" ? "bf16" : type == "float16" || type == "half" ? "fp16" : "";
}

// What the first of the GPUs that share a layer says of its memory, where it does: GiB of weights.
void add_memory(const Node& server, Configuration& c) {
  const Node* const states = server.find("internal_states");
  const Node* const first =
      states != nullptr && !states->items.empty() ? &states->items.front() : nullptr;
  const auto weights =
      first != nullptr ? number(*first, {{"memory_usage", "weight"}}) : std::nullopt;
  const double share = c.tensor.value_or(1) * c.pipeline.value_or(1);
  if (weights && *weights > 0 && *weights * 1024 * share <= kMostTokensOfRun)
    c.weights_mib = static_cast<int>(std::lround(*weights * 1024 * share));
  const auto room = number(server, {{"max_total_num_tokens"}});
  if (room && *room >= 1 && *room <= kMostTokensOfRun) c.kv_tokens = static_cast<int>(*room);
}

// SGLang's --dp-size N: N replicas of --tp-size GPUs each, of which one is taken. With
// --enable-dp-attention the GPUs of --tp-size, among which each holds 1/N of the requests.
void add_server(const Node& server, Run& run) {
  run.configuration.precision = precision_of(server);
  add_memory(server, run.configuration);
  run.configuration.step_tokens = count(server, {{"chunked_prefill_size"}});  // -1: no chunks
  const std::optional<int> ranks = count(server, {{"dp_size"}});
  if (!ranks || *ranks == 1) return;
  const Node* const together = server.find("enable_dp_attention");
  std::optional<int>& tensor = run.configuration.tensor;
  if (together != nullptr && together->kind == Node::Kind::boolean && together->boolean) {
    run.configuration.attention_data = ranks;
    if (tensor && *tensor % *ranks == 0) *tensor /= *ranks;
    return;
  }
  const double share = *ranks;
  for (std::optional<double>* const of_all : {&run.in_flight, &run.rate})
    if (*of_all) **of_all /= share;
  run.notes.push_back(fmt::format(
      "{} replicas were measured together (dp_size): taken for one, with its share of the requests",
      *ranks));
}

Run openai_run(const Node& root, const char* backend) {
  Run run;
  run.configuration.backend = backend;
  run.configuration.model = text(root, {{"model_id"}, {"server_info", "model_path"}});
  run.configuration.version = text(root, {{"server_info", "version"}});
  run.configuration.tensor =
      count(root, {{"tensor_parallel_size"}, {"tp"}, {"server_info", "tp_size"}});
  run.configuration.pipeline =
      count(root, {{"pipeline_parallel_size"}, {"pp"}, {"server_info", "pp_size"}});
  run.completed = number(root, {{"completed"}});
  run.failures = number(root, {{"failed"}});
  run.in = ratio(number(root, {{"total_input_tokens"}}), run.completed);
  run.out = ratio(number(root, {{"total_output_tokens"}}), run.completed);
  run.ttft_ms = number(root, {{"mean_ttft_ms"}});
  run.tpot_ms = number(root, {{"mean_tpot_ms"}});
  run.itl_ms = number(root, {{"mean_itl_ms"}});
  run.ttft_at = written_percentiles(root, "ttft");
  run.tpot_at = written_percentiles(root, "tpot");
  run.itl_at = written_percentiles(root, "itl");
  add_details(root, run);
  run.rate = ratio(run.completed, number(root, {{"duration"}}));
  run.latency_ms = number(root, {{"mean_e2el_ms"}, {"mean_e2e_latency_ms"}});
  const std::optional<double> most = number(root, {{"max_concurrency"}});
  if (most && !number(root, {{"request_rate"}}))  // "inf": all that may be in flight are
    run.in_flight = std::min(*most, run.completed.value_or(*most));
  if (const Node* const server = root.find("server_info")) add_server(*server, run);
  return run;
}

// ---- trtllm-bench ----

Run trtllm_run(const Node& root) {
  Run run;
  run.configuration.backend = "trtllm";
  run.configuration.version = text(root, {{"engine", "version"}});
  run.configuration.model = text(root, {{"engine", "model"}});
  run.configuration.precision =
      lower(text(root, {{"engine", "quantization"}, {"engine", "dtype"}}));
  run.configuration.tensor = count(root, {{"world_info", "tp_size"}});
  run.configuration.pipeline = count(root, {{"world_info", "pp_size"}});
  run.configuration.experts = count(root, {{"world_info", "ep_size"}});
  run.configuration.step_tokens = count(root, {{"world_info", "max_num_tokens"}});
  run.completed = number(root, {{"request_info", "num_requests"}});
  run.in = number(root, {{"request_info", "avg_input_length"}});
  run.out = number(root, {{"request_info", "avg_output_length"}});
  run.in_flight = number(root, {{"request_info", "avg_num_concurrent_requests"}});
  run.ttft_ms = number(root, {{"streaming_metrics", "avg_ttft_ms"}});
  run.tpot_ms = number(root, {{"streaming_metrics", "avg_tpot_ms"}});
  const auto percentiles = [&](std::string_view of) {
    const auto at = [&](std::string_view word) {
      return time(number(root, {{"streaming_metrics", of, word}}));
    };
    return Percentiles{at("p50"), at("p90"), at("p99")};
  };
  run.ttft_at = percentiles("ttft_percentiles");
  run.tpot_at = percentiles("tpot_percentiles");
  return run;
}

// ---- genai-perf and aiperf ----

struct Metric {
  double mean = 0;
  Percentiles at = {};
};
using Metrics = std::map<std::string, Metric>;  // by the keys of the JSON form

Run metrics_run(const Metrics& metrics) {
  const auto known = [&](const char* name) {
    const auto found = metrics.find(name);
    return found == metrics.end() ? std::nullopt : std::optional(found->second.mean);
  };
  const auto percentiles = [&](const char* name) {
    const auto found = metrics.find(name);
    return found == metrics.end() ? Percentiles{} : found->second.at;
  };
  Run run;
  run.in = known("input_sequence_length");
  run.out = known("output_sequence_length");
  run.ttft_ms = known("time_to_first_token");
  run.tpot_ms = known("inter_token_latency");  // of each request the mean
  run.itl_ms = known("inter_chunk_latency");
  run.ttft_at = percentiles("time_to_first_token");
  run.tpot_at = percentiles("inter_token_latency");
  run.itl_at = percentiles("inter_chunk_latency");
  run.rate = known("request_throughput");
  run.latency_ms = known("request_latency");
  run.completed = known("request_count");
  run.failures = known("error_request_count");
  return run;
}

bool in_ms(const std::string& name) {
  return name == "time_to_first_token" || name == "inter_token_latency" ||
         name == "inter_chunk_latency" || name == "request_latency";
}
Error wrong_unit(const std::string& name, const std::string& unit, const std::string& place) {
  return {ErrorCode::bad_input, fmt::format("{} is in {}, must be in ms", name, unit), place};
}

// The first model, wherever a version of the tool writes it.
std::string model_of(const Node& config) {
  for (const Path& path : {Path{"endpoint", "model_names"}, Path{"model_names"},
                           Path{"models", "items"}, Path{"model"}}) {
    const Node* const node = at(config, path);
    if (node == nullptr) continue;
    const Node& first = node->items.empty() ? *node : node->items.front();
    if (first.kind == Node::Kind::string) return first.text;
    if (const std::string name = text(first, {{"name"}}); !name.empty()) return name;
  }
  return "";
}

std::optional<double> concurrency_of(const Node& config) {
  if (const Node* const phases = config.find("phases"))
    for (const Node& phase : phases->items)
      if (text(phase, {{"name"}}) == "profiling") return number(phase, {{"concurrency"}});
  return number(
      config,
      {{"loadgen", "concurrency"}, {"perf_analyzer", "stimulus", "concurrency"}, {"concurrency"}});
}

Result<Run> aiperf_json(const Document& document) {
  Metrics metrics;
  for (const Node::Member& member : document.root.members) {
    const std::optional<double> mean = number(member.value, {{"avg"}});
    if (!mean) continue;
    const std::string unit = text(member.value, {{"unit"}});
    if (in_ms(member.key) && !unit.empty() && unit != "ms")
      return failed(wrong_unit(member.key, unit, document.at(member.value)));
    const auto at = [&](const char* word) { return time(number(member.value, {{word}})); };
    metrics[member.key] = {*mean, {at("p50"), at("p90"), at("p99")}};
  }
  Run run = metrics_run(metrics);
  if (const Node* const config = document.root.find("input_config")) {
    run.configuration.model = model_of(*config);
    run.in_flight = concurrency_of(*config);
  }
  const Node* const cancelled = document.root.find("was_cancelled");
  if (cancelled != nullptr && cancelled->kind == Node::Kind::boolean && cancelled->boolean)
    run.notes.push_back("the run was cancelled; the times are of what had ended by then");
  return run;
}

// "1,146.31"
std::optional<double> grouped_number(std::string cell) {
  std::erase(cell, ',');
  std::string_view left = cell;
  const auto value = take_number<double>(left);
  return value && left.empty() && std::isfinite(*value) ? std::optional(*value) : std::nullopt;
}

// "Time To First Token (ms)" as the key of the JSON form, and its unit.
std::pair<std::string, std::string> key_of(const std::string& title) {
  const std::size_t open = title.find(" (");
  std::string key = lower(title.substr(0, open));
  std::ranges::replace(key, ' ', '_');
  if (open == std::string::npos) return {key, ""};
  return {key, title.substr(open + 2, title.find(')', open) - open - 2)};
}

// Of a row of such a table, by its header.
Percentiles percentiles_of(const profile::Csv& csv, const profile::CsvRow& row) {
  const auto at = [&](const char* word) -> std::optional<Millis> {
    const int column = csv.column(word);
    return column < 0 ? std::nullopt
                      : time(grouped_number(row.cells[static_cast<std::size_t>(column)]));
  };
  return {at("p50"), at("p90"), at("p99")};
}

// Tables one below the other, with blank lines between; the first two columns are a title and a
// mean, or the only value.
Result<Run> aiperf_csv(const std::string& file, std::string_view content) {
  Metrics metrics;
  std::string table;  // parse_csv takes one, with plain line ends
  for (std::size_t i = 0; i < content.size(); ++i)
    if (content.substr(i, 2) != "\r\n") table += content[i];
  std::size_t begin = 0, lines = 0;
  while (begin < table.size()) {
    const std::size_t end = std::min(table.find("\n\n", begin), table.size());
    const std::string part = table.substr(begin, end - begin);
    if (part.find_first_not_of("\n ") != std::string::npos) {
      const auto csv = profile::parse_csv(file, part);
      if (!csv)  // once more, for its line
        return failed(profile::parse_csv(file, std::string(lines, '\n') + part).error());
      for (const profile::CsvRow& row : csv->rows) {
        if (csv->header.cells[0] != "Metric" || row.cells.size() < 2) continue;
        const auto [key, unit] = key_of(row.cells[0]);
        if (in_ms(key) && unit != "ms") {
          const auto line = static_cast<std::size_t>(row.line) + lines;
          return failed(wrong_unit(key, unit, fmt::format("{}:{}", file, line)));
        }
        if (const auto value = grouped_number(row.cells[1]))
          metrics[key] = {*value, percentiles_of(*csv, row)};
      }
    }
    lines += static_cast<std::size_t>(std::ranges::count(part, '\n')) + 2;
    begin = end + 2;
  }
  return metrics_run(metrics);
}

// ---- texts ----

// Python writes NaN and Infinity, which are no JSON: nothing is known of them.
std::string without_infinities(std::string_view json) {
  constexpr std::string_view kWords[] = {"-Infinity", "Infinity", "NaN"};
  std::string out;
  bool quoted = false;
  while (!json.empty()) {
    const auto* const word = std::ranges::find_if(
        kWords, [&](std::string_view one) { return !quoted && json.starts_with(one); });
    if (word != std::end(kWords)) {
      out += "null";
      json.remove_prefix(word->size());
      continue;
    }
    const std::size_t taken = quoted && json[0] == '\\' && json.size() > 1 ? 2 : 1;
    if (json[0] == '"') quoted = !quoted;
    out += json.substr(0, taken);
    json.remove_prefix(taken);
  }
  return out;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines(1);
  for (const char c : text) c == '\n' ? void(lines.emplace_back()) : lines.back().push_back(c);
  return lines;
}

// Whether every line is an object: JSON lines, or what --append-result leaves.
bool has_lines(const std::vector<std::string>& lines) {
  int objects = 0;
  for (const std::string& line : lines) {
    const std::size_t first = line.find_first_not_of(" \r\t");
    if (first == std::string::npos) continue;
    const std::size_t last = line.find_last_not_of(" \r\t");
    if (line[first] != '{' || line[last] != '}') return false;
    ++objects;
  }
  return objects > 0;
}

Result<Run> run_of(RunForm form, const std::string& file, const std::string& json) {
  const auto document = parse_document(file, json);
  if (!document) return failed(document.error());
  if (document->root.kind != Node::Kind::object)
    return bad_input(file + ":1", "not the JSON object of a run");
  const Node& root = document->root;
  switch (form) {
    case RunForm::aiperf:
      return aiperf_json(*document);
    case RunForm::trtllm:
      return trtllm_run(root);
    case RunForm::sglang:
      if (root.find("tokenizer_id") != nullptr)  // which SGLang's tool never writes
        return bad_input(file + ":1", "this is a run of `vllm bench serve`: --form vllm");
      return openai_run(root, "sglang");
    case RunForm::vllm:
      break;
  }
  if (root.find("mean_e2e_latency_ms") != nullptr)
    return bad_input(file + ":1", "this is a run of SGLang's bench_serving: --form sglang");
  return openai_run(root, "vllm");
}

Result<std::vector<Run>> runs_of(RunForm form, const std::string& file, std::string_view text) {
  std::vector<Run> runs;
  if (form == RunForm::aiperf && text.substr(0, text.find_first_of("{\n")).find("Metric") == 0) {
    auto run = aiperf_csv(file, text);
    if (!run) return failed(run.error());
    return std::vector<Run>{*std::move(run)};
  }
  const std::string json = without_infinities(text);
  const std::vector<std::string> lines = lines_of(json);
  const bool many = has_lines(lines);
  for (std::size_t i = 0; i < (many ? lines.size() : 1); ++i) {
    const std::string& one = many ? lines[i] : json;
    if (many && one.find('{') == std::string::npos) continue;
    Result<Run> run = run_of(form, file, one);
    if (!run) run = run_of(form, file, std::string(i, '\n') + one);  // says which line it was
    if (!run) return failed(run.error());
    runs.push_back(*std::move(run));
  }
  return runs;
}

// ---- points ----

// What is told, by the columns of points_csv.
constexpr std::pair<std::string_view, std::string Configuration::*> kTexts[] = {
    {"system", &Configuration::system},       {"backend", &Configuration::backend},
    {"version", &Configuration::version},     {"model", &Configuration::model},
    {"precision", &Configuration::precision}, {"profile", &Configuration::profile}};
constexpr std::pair<std::string_view, std::optional<int> Configuration::*> kNumbers[] = {
    {"tp", &Configuration::tensor},
    {"pp", &Configuration::pipeline},
    {"attention_dp", &Configuration::attention_data},
    {"moe_tp", &Configuration::expert_tensor},
    {"moe_ep", &Configuration::experts},
    {"step_tokens", &Configuration::step_tokens},
    {"kv_tokens", &Configuration::kv_tokens},
    {"kv_move_ns", &Configuration::kv_move_ns},
    {"units", &Configuration::units},
    {"weights_mib", &Configuration::weights_mib},
    {"kv_token_bytes", &Configuration::kv_token_bytes}};

// Notes that are said once of all runs.
class Notes {
 public:
  void add(std::string sentence) {
    if (std::ranges::count(all_, sentence) == 0) all_.push_back(std::move(sentence));
  }
  void add_unsaid(const Configuration& c) {
    if (c.tensor.value_or(0) == 0 && c.profile.empty())
      add("tp is not said: taken for one whole GPU (--told tp=N, --told profile=3g.40gb)");
    for (const auto& [name, value] : {std::pair{"system", &c.system},
                                      {"backend", &c.backend},
                                      {"version", &c.version},
                                      {"precision", &c.precision}})
      if (value->empty()) add(fmt::format("{0} is not said (--told {0}=...)", name));
  }
  // What the file says stands.
  Configuration with_told(Configuration c, const Configuration& told) {
    for (const auto& [name, member] : kTexts) take(name, c.*member, told.*member);
    for (const auto& [name, member] : kNumbers) take(name, c.*member, told.*member);
    return c;
  }
  std::vector<std::string> all() && { return std::move(all_); }

 private:
  template <class T>
  void take(std::string_view name, T& value, const T& told) {
    if (value == T{}) value = told;
    if (told != T{} && value != told)
      add(fmt::format("--told {}=... is not what a run says itself, which stands", name));
  }
  std::vector<std::string> all_;
};

// Requests in flight, and how that is known.
std::optional<double> in_flight(const Run& run, const ToldOfRuns& told, Notes& notes) {
  if (run.in_flight) return run.in_flight;
  if (told.concurrency) return told.concurrency;
  if (!run.rate || !run.ttft_ms || !run.tpot_ms || !run.out) return std::nullopt;
  notes.add(
      "how many were in flight is not said: the mean by Little's law (--told "
      "concurrency=N)");
  const double whole = run.latency_ms.value_or(*run.ttft_ms + *run.tpot_ms * (*run.out - 1));
  return std::max(1.0, *run.rate * whole / 1e3);
}

Result<double> needed(const std::string& file, const char* what, std::optional<double> value,
                      profile::NumberRange range) {
  if (!value) return bad_input(file, fmt::format("a run does not say {}", what));
  if (!(*value >= range.min && *value <= range.max))
    return bad_input(
        file, fmt::format("{} is {:g}, must be {:g} to {:g}", what, *value, range.min, range.max));
  return *value;
}

Result<Point> point_of(const std::string& file, const Run& run, std::optional<double> flight) {
  if (run.completed && *run.completed < 1)
    return bad_input(file, "a run of which no request was completed");
  const auto in = needed(file, "the tokens in", run.in, {0.5, kMostTokensOfRun});
  if (!in) return failed(in.error());
  const auto out = needed(file, "the tokens out", run.out, {0.5, kMostTokensOfRun});
  if (!out) return failed(out.error());
  const auto ttft = needed(file, "the time to the first token (is it a run with streaming?)",
                           run.ttft_ms, {kShortestMs, kLongestMs});
  if (!ttft) return failed(ttft.error());
  const auto tpot =
      needed(file, "the time per token after the first", run.tpot_ms, {kShortestMs, kLongestMs});
  if (!tpot) return failed(tpot.error());
  const auto concurrency = needed(file, "how many requests were in flight, or their rate", flight,
                                  {1e-9, kMostConcurrency});
  if (!concurrency) return failed(concurrency.error());
  const auto whole = [](double tokens) {
    return std::max(1, static_cast<int>(std::lround(tokens)));
  };
  return Point{
      {whole(*in), whole(*out)}, std::max(1.0, *concurrency), Millis{*ttft}, Millis{*tpot}};
}

void add_tails(const Run& run, Point& point, Notes& notes) {
  const auto fine = [](std::optional<Millis> ms) {
    return ms && ms->value >= kShortestMs && ms->value <= kLongestMs;
  };
  if (const auto itl = time(run.itl_ms); fine(itl)) point.itl = itl;
  for (const auto& [name, from, to] : {std::tuple{"TTFT", &run.ttft_at, &point.ttft_at},
                                       {"TPOT", &run.tpot_at, &point.tpot_at},
                                       {"ITL", &run.itl_at, &point.itl_at}}) {
    for (const auto at : kPercentiles)
      if (fine(from->*at)) to->*at = from->*at;
    if (fault_of(*to).empty()) continue;
    *to = {};
    notes.add(fmt::format("percentiles of {} do not ascend: they are left out", name));
  }
}

Result<void> check_names(const std::string& file, const Configuration& c) {
  for (const std::string* name :
       {&c.system, &c.backend, &c.version, &c.model, &c.precision, &c.profile})
    if (const std::string fault = name->empty() ? "" : name_fault(*name); !fault.empty())
      return bad_input(file, fmt::format("'{}' {}", utf8(printable(*name)), fault));
  return {};
}

Result<void> take_told(const std::string& word, ToldOfRuns& told) {
  const std::size_t equals = word.find('=');
  const std::string key = word.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
  Configuration& c = told.configuration;
  const auto named = [&](const auto& column) { return column.first == key; };
  if (const auto* const found = std::ranges::find_if(kTexts, named);
      found != std::end(kTexts) && !value.empty()) {
    c.*found->second = value;
    return {};
  }
  const std::optional<double> number = grouped_number(value);
  const double most = key.starts_with("kv_") || key == "step_tokens" || key == "weights_mib"
                          ? kMostTokensOfRun
                          : 1e6;
  const bool whole = number && *number >= 1 && *number <= most && *number == std::floor(*number);
  if (const auto* const found = std::ranges::find_if(kNumbers, named);
      found != std::end(kNumbers) && whole) {
    c.*found->second = static_cast<int>(*number);
    return {};
  }
  if (key == "concurrency" && number && *number >= 1 && *number <= kMostConcurrency) {
    told.concurrency = number;
    return {};
  }
  return bad_input("--told " + word,
                   "must be COLUMN=VALUE: system, backend, version, model, precision or profile "
                   "with a text; tp, pp, attention_dp, moe_tp, moe_ep, step_tokens, kv_tokens, "
                   "kv_move_ns, units, weights_mib, kv_token_bytes or concurrency with a number");
}

}  // namespace

std::optional<RunForm> run_form(std::string_view word) {
  constexpr std::pair<std::string_view, RunForm> kWords[] = {{"vllm", RunForm::vllm},
                                                             {"sglang", RunForm::sglang},
                                                             {"aiperf", RunForm::aiperf},
                                                             {"genai-perf", RunForm::aiperf},
                                                             {"trtllm-bench", RunForm::trtllm}};
  for (const auto& [name, form] : kWords)
    if (name == word) return form;
  return std::nullopt;
}

std::vector<std::string> files_of_runs(RunForm form, std::vector<std::string> names) {
  const auto is_one = [&](const std::string& name) {
    if (form != RunForm::aiperf)
      return (name.ends_with(".json") && !name.ends_with(".pytorch.json")) ||
             name.ends_with(".jsonl");
    for (const std::string end : {"aiperf", "genai_perf"}) {
      if (name.ends_with(end + ".json")) return true;
      if (name.ends_with(end + ".csv"))  // of the same run, and it says less
        return std::ranges::count(names, name.substr(0, name.size() - 3) + "json") == 0;
    }
    return false;
  };
  std::vector<std::string> runs;
  std::ranges::copy_if(names, std::back_inserter(runs), is_one);
  return runs;
}

Result<ToldOfRuns> parse_told(const std::vector<std::string>& words) {
  ToldOfRuns told;
  for (const std::string& word : words)
    if (const auto taken = take_told(word, told); !taken) return failed(taken.error());
  return told;
}

Result<ImportedRuns> import_runs(RunForm form, const std::string& file, std::string_view text,
                                 const ToldOfRuns& told) {
  const auto runs = runs_of(form, file, text);
  if (!runs) return failed(runs.error());
  ImportedRuns imported;
  Notes notes;
  std::map<Configuration, std::size_t> places;
  for (const Run& run : *runs) {
    Configuration configuration = notes.with_told(run.configuration, told.configuration);
    if (configuration.model.empty())
      return bad_input(file, "a run does not say which model it was: --told model=NAME");
    if (const auto named = check_names(file, configuration); !named) return failed(named.error());
    auto point = point_of(file, run, in_flight(run, told, notes));
    if (!point) return failed(point.error());
    notes.add_unsaid(configuration);
    for (const std::string& note : run.notes) notes.add(note);
    if (run.failures.value_or(0) > 0)
      notes.add("some requests failed; the times are of the others");
    add_tails(run, *point, notes);
    // The same engine started again has a little more room, or less: what fits is the least.
    const std::optional<int> room = std::exchange(configuration.kv_tokens, std::nullopt);
    const auto [place, added] = places.emplace(configuration, imported.measured.size());
    configuration.kv_tokens = room;
    if (added) imported.measured.push_back({configuration, {}});
    Measured& measured = imported.measured[place->second];
    std::optional<int>& least = measured.configuration.kv_tokens;
    if (room) least = std::min(*room, least.value_or(*room));
    measured.points.push_back(*point);
  }
  imported.notes = std::move(notes).all();
  return imported;
}

}  // namespace partita::llm
