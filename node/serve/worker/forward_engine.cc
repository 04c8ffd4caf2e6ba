#include "serve/worker/forward_engine.h"

#include <fmt/format.h>

#include <cstring>
#include <numeric>

#include "base/parse_number.h"
#include "base/unicode.h"
#include "serve/wire/texts.h"
#include "serve/worker/oip_batch.h"

namespace partita::serve {
namespace {

constexpr std::uint64_t kMaxMetadata = 1u << 20, kMaxAnswerHead = 1u << 20;
// Texts may be longer than their room, which fails the item alone; up to so many times in the mean.
constexpr std::uint64_t kLongTexts = 16;
constexpr double kShownColumns = 200;

// What the server said of its refusal.
std::string refusal(const HttpResponse& answer) {
  return fmt::format(
      "the server answers {}: {}", answer.status(),
      elided(answer.body(), kShownColumns, [](char32_t c) -> double { return columns(c); }));
}

class ForwardEngine final : public Engine {
 public:
  ForwardEngine(Url url, ModelSpec spec, std::int64_t timeout_ns)
      : spec_(std::move(spec)), layout_(slot_layout(spec_)), client_(std::move(url), timeout_ns) {}
  const ModelSpec& spec() const override { return spec_; }

  Result<void> run(std::span<char* const> slots) override {
    faults_.clear();
    const std::size_t items = slots.size();
    std::vector<std::string_view> tensors;
    std::vector<std::size_t> sizes;
    TRY(gather(slots, tensors, sizes));
    const std::string json = oip_request_json(spec_, items, sizes);
    const std::size_t bytes = std::accumulate(sizes.begin(), sizes.end(), json.size());
    const std::string head =
        request_head("POST", client_.url(), "/infer") +
        fmt::format(
            "Content-Type: application/octet-stream\r\n"
            "Inference-Header-Content-Length: {}\r\nContent-Length: {}\r\n{}\r\n",
            json.size(), bytes, trace_of(slots));
    std::vector<std::string_view> pieces = {head, json};
    pieces.insert(pieces.end(), tensors.begin(), tensors.end());
    std::uint64_t most = kMaxAnswerHead;
    for (const TensorSpec& output : spec_.outputs)
      most += items * bytes_of(output) * (output.type == DataType::bytes ? kLongTexts : 1);
    const HttpResponse answer = TRY(client_.ask(pieces, most));
    if (answer.status() != 200) return environment_error("forward", refusal(answer));
    return scatter(answer, slots);
  }

 private:
  // The inputs' bytes, item by item, and how many each input has.
  Result<void> gather(std::span<char* const> slots, std::vector<std::string_view>& tensors,
                      std::vector<std::size_t>& sizes) const {
    for (std::size_t t = 0; t < spec_.inputs.size(); ++t) {
      sizes.push_back(0);
      for (const char* slot : slots) {
        const auto used =
            used_part(spec_.inputs[t], {slot + layout_.inputs[t], bytes_of(spec_.inputs[t])});
        if (!used) return bad_input(spec_.inputs[t].name, "input is not valid text");
        tensors.emplace_back(used->data(), used->size());
        sizes.back() += used->size();
      }
    }
    return {};
  }

  // A request has room for one trace: that of the first item which belongs to one.
  std::string trace_of(std::span<char* const> slots) const {
    for (const char* slot : slots) {
      const SlotTrace trace = read_slot_trace(slot + layout_.trace);
      if (!trace.parent.empty()) return trace_headers(trace);
    }
    return "";
  }

  Result<void> scatter(const HttpResponse& answer, std::span<char* const> slots) {
    const std::string_view said = answer.header("inference-header-content-length");
    const auto json_bytes = parse_number<std::uint64_t>(said);
    const auto outputs = TRY(parse_oip_answer(spec_, slots.size(), answer.body(),
                                              json_bytes ? *json_bytes : answer.body().size()));
    for (std::size_t t = 0; t < spec_.outputs.size(); ++t) {
      const std::size_t size = bytes_of(spec_.outputs[t]);
      if (spec_.outputs[t].type == DataType::bytes) {
        std::vector<std::span<char>> rows;
        for (char* slot : slots) rows.emplace_back(slot + layout_.outputs[t], size);
        const auto filled = fill_texts(outputs[t], spec_.outputs[t], rows);
        if (!filled)
          return bad_input("output '" + spec_.outputs[t].name + "'", filled.error().message);
        too_long(*filled, spec_.outputs[t]);
        continue;
      }
      for (std::size_t i = 0; i < slots.size(); ++i)
        std::memcpy(slots[i] + layout_.outputs[t], outputs[t].data() + (i * size), size);
    }
    return {};
  }

  ModelSpec spec_;
  SlotLayout layout_;
  HttpClient client_;
};

}  // namespace

Result<EnginePointer> forward_engine(const ForwardOptions& options) {
  Url url = options.url;
  if (url.path.ends_with("/infer")) url.path.resize(url.path.size() - 6);
  if (url.path.empty()) url.path = "/v2/models/" + options.name;
  HttpClient client(url, options.timeout_ns);
  const std::string request = request_head("GET", url) + "\r\n";
  const std::string_view piece = request;
  const HttpResponse answer = TRY(client.ask({&piece, 1}, kMaxMetadata));
  if (answer.status() != 200) return environment_error("--forward", refusal(answer));
  ModelSpec spec = TRY(parse_oip_metadata(answer.body(), options.max_batch, options.shapes));
  give_text_room(spec, options.text_bytes);
  TRY(check_model("--forward", spec));
  return EnginePointer(
      std::make_unique<ForwardEngine>(std::move(url), std::move(spec), options.timeout_ns));
}

}  // namespace partita::serve
