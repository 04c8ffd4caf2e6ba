#include "decide/traces.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>

#include "decide/input.h"
#include "forms/serving_forms.h"
#include "forms/traffic_forms.h"
#include "llm/engine/workload.h"

namespace partita::decide {
namespace {

using Trace = std::shared_ptr<const plan::TrafficTrace>;

// What was read so far: a file that serves all services is read and kept once.
class TraceShelf {
 public:
  explicit TraceShelf(Files& files) : files_(files) {}

  // `where` says who names the file, should it not be there.
  Result<Trace> get(const std::string& path, const forms::TraceRows& rows,
                    const std::string& where) {
    auto text = texts_.find(path);
    if (text == texts_.end()) {
      Result<std::string> read = files_.read(path);
      if (!read) return bad_input(where, fmt::format("trace {}: {}", path, read.error().message));
      text = texts_.emplace(path, std::move(*read)).first;
    }
    // Services that the file does not name have the same of it.
    const bool named = rows.required || text->second.find(rows.name) != std::string::npos;
    auto key = std::tuple(path, named ? rows.name : std::string(), rows.required);
    if (const auto known = traces_.find(key); known != traces_.end()) return known->second;
    auto trace = TRY(forms::parse_traffic_trace(path, text->second, rows));
    return traces_[std::move(key)] = std::make_shared<const plan::TrafficTrace>(std::move(trace));
  }

 private:
  Files& files_;
  std::map<std::string, std::string> texts_;
  std::map<std::tuple<std::string, std::string, bool>, Trace> traces_;
};

// The lengths of services with tokens; a file is read once.
class LengthShelf {
 public:
  explicit LengthShelf(Files& files) : files_(files) {}

  Result<void> load(const std::string& services_file, plan::TokenTrace& declared) {
    const std::string path = beside(services_file, declared.file);
    auto known = known_.find(path);
    if (known == known_.end()) {
      const Result<std::string> text = files_.read(path);
      if (!text)
        return bad_input(fmt::format("{}:{}", services_file, declared.line),
                         fmt::format("trace {}: {}", path, text.error().message));
      auto trace = TRY(llm::parse_token_trace(path, *text));
      known = known_.emplace(path, std::make_shared<const Requests>(std::move(trace))).first;
    }
    declared.requests = known->second;
    return {};
  }

 private:
  using Requests = std::vector<plan::TracedRequest>;
  Files& files_;
  std::map<std::string, std::shared_ptr<const Requests>> known_;
};

// A trace says the rate of its service's own clients where the file does not.
void add_mean(plan::Service& service, const std::vector<plan::Service>& services) {
  static constexpr double kRounding = 1e-9;
  const Rps own = service.rate - plan::rate_from_pipelines(services, service.name);
  if (own.value > kRounding * service.rate.value) return;
  const Rps mean = std::get<plan::TraceArrivals>(service.traffic.arrivals).trace->mean();
  service.rate += mean;
  for (plan::RateAt& entry : service.traffic.rates) entry.rate += mean;
}

}  // namespace

Result<std::vector<plan::Service>> with_traces(Files& files, const std::string& services_file,
                                               std::vector<plan::Service> services) {
  TraceShelf shelf(files);
  LengthShelf lengths(files);
  for (plan::Service& service : services) {
    auto* const tokens =
        service.tokens ? std::get_if<plan::TokenTrace>(&service.tokens->lengths) : nullptr;
    if (tokens && !tokens->requests) TRY(lengths.load(services_file, *tokens));
    auto* declared = std::get_if<plan::TraceArrivals>(&service.traffic.arrivals);
    if (declared == nullptr) continue;
    const bool by_row = !declared->row.empty();
    const std::string path = beside(services_file, declared->file);
    declared->trace =
        TRY(shelf.get(path, {by_row ? declared->row : service.name, by_row},
                      services_file.empty() ? declared->file
                                            : fmt::format("{}:{}", services_file, declared->line)));
    add_mean(service, services);
  }
  return services;
}

Result<TokenTraces> token_traces(Files& files, const std::string& services_file,
                                 const std::string& text) {
  auto parsed =
      TRY(forms::parse_services_file(services_file, text, files_beside(files, services_file)));
  LengthShelf lengths(files);
  TokenTraces traces;
  for (plan::Service& service : parsed.services) {
    auto* const tokens =
        service.tokens ? std::get_if<plan::TokenTrace>(&service.tokens->lengths) : nullptr;
    if (tokens == nullptr || tokens->requests) continue;
    TRY(lengths.load(services_file, *tokens));
    traces.emplace(tokens->file, tokens->requests);
  }
  return traces;
}

namespace {

Node node_of(Node::Kind kind, int line) {
  Node node;
  node.kind = kind;
  node.line = line;
  return node;
}

using Requests = std::vector<plan::TracedRequest>;

// Parts of as many requests each, in the order of some length.
std::vector<Requests> in_parts(Requests requests, int plan::TracedRequest::*length) {
  std::ranges::stable_sort(requests, {}, length);
  const auto at = [&](std::size_t part) {
    return requests.begin() + static_cast<std::ptrdiff_t>(part * requests.size() / kPartsWritten);
  };
  std::vector<Requests> parts;
  for (std::size_t part = 0; part < kPartsWritten; ++part)
    parts.emplace_back(at(part), at(part + 1));
  return parts;
}

plan::TracedRequest mean_of(const Requests& requests) {
  double in = 0, out = 0;
  for (const plan::TracedRequest& one : requests) in += one.in, out += one.out;
  const auto count = static_cast<double>(requests.size());
  return {.in = static_cast<int>(std::lround(in / count)),
          .out = static_cast<int>(std::lround(out / count))};
}

Node pairs_of(Requests requests, int line) {
  if (requests.size() > kPartsWritten * kPartsWritten) {
    Requests means;
    for (Requests& part : in_parts(std::move(requests), &plan::TracedRequest::in))
      for (const Requests& cell : in_parts(std::move(part), &plan::TracedRequest::out))
        means.push_back(mean_of(cell));
    requests = std::move(means);
  }
  Node pairs = node_of(Node::Kind::list, line);
  for (const plan::TracedRequest& one : requests) {
    Node& pair = pairs.items.emplace_back(node_of(Node::Kind::list, line));
    for (const int tokens : {one.in, one.out})
      pair.items.emplace_back(node_of(Node::Kind::number, line)).number = tokens;
  }
  return pairs;
}

Node* member(Node* object, std::string_view key) {
  if (object == nullptr) return nullptr;
  const auto found = std::ranges::find(object->members, key, &Node::Member::key);
  return found == object->members.end() ? nullptr : &found->value;
}

}  // namespace

Result<bool> write_lengths(Files& files, Document& services) {
  LengthShelf lengths(files);
  bool written = false;
  Node* const list =
      services.root.kind == Node::Kind::list ? &services.root : member(&services.root, "services");
  if (list == nullptr) return false;
  for (Node& service : list->items) {
    Node* const file = member(member(&service, "tokens"), "trace");
    if (file == nullptr || file->kind != Node::Kind::string) continue;
    plan::TokenTrace trace{.file = file->text, .line = file->line};
    TRY(lengths.load(services.file, trace));
    *file = pairs_of(*trace.requests, file->line);
    written = true;
  }
  return written;
}

}  // namespace partita::decide
