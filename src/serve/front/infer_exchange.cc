// An inference request of the Open Inference Protocol over HTTP: in JSON or binary form, or with
// tensors in shared memory.
#include <algorithm>
#include <utility>

#include "serve/front/gateway_exchange.h"
#include "serve/oip/answer.h"
#include "serve/oip/bind.h"
#include "serve/oip/infer_request.h"
#include "serve/oip/tensor_json.h"
#include "serve/wire/texts.h"

namespace partita::serve {

namespace {

constexpr std::size_t kMaxBinaryJson = 1u << 20;  // the JSON before binary tensors

class InferExchange final : public GatewayExchange {
 public:
  InferExchange(Door& door, RequestFacts facts, std::string name)
      : GatewayExchange(door, std::move(facts)) {
    service = std::move(name);
  }

  Step begin() override;
  Step on_part(std::string_view beginning) override;
  Step on_text() override;
  Step on_filled() override;
  void finish() override;

 private:
  RequestHead wishes(bool again) const {
    RequestHead head;
    head.again = again;
    head.timeout_ns = wanted_.timeout_ns;
    head.priority = wanted_.priority;
    return head;
  }
  // Whether the slots are still for the model that the request was checked against.
  bool same_tensors() const {
    const ModelSpec* now = door_.backend.model(service);
    return now != nullptr && now->inputs == model_->inputs && now->outputs == model_->outputs;
  }
  std::vector<std::span<char>> rows_of(int tensor);
  Result<void> spread(std::size_t input, std::string_view bytes);
  Result<void> place(std::size_t input);
  Result<void> gather();
  Result<void> share_outputs();
  void answer();

  std::shared_ptr<const ModelSpec> model_;
  InferRequest wanted_;
  BoundRequest bound_;
  std::vector<std::string> texts_ = {};  // by input: BYTES in binary form, before they are spread
  std::vector<std::shared_ptr<SharedRegion>> output_regions_ = {};  // by output; held until the end
  std::vector<std::vector<std::span<const char>>> answered_ = {};   // by output, by item
};

Step InferExchange::begin() {
  trace();
  if (facts_.method != Method::post) {
    reply = error_reply(405, "inference is a POST");
    reply.headers = "Allow: POST\r\n";
    return Step::answer;
  }
  if (!permitted()) return Step::answer;
  if (!door_.backend.known(service)) return refuse(404, "there is no model '" + service + "'");
  model_ = door_.model(service);
  if (model_ == nullptr) {
    door_.backend.turned_away(service);
    return deny({.kind = Denial::Kind::not_ready,
                 .message = "no worker of model '" + service + "' is ready",
                 .retry_after_ns = 1'000'000'000});
  }
  if (model_->kind != ModelKind::tensors)
    return refuse(400, "model '" + service + "' speaks /v1/chat/completions");
  const std::uint64_t limit = door_.options.limits.body_bytes;
  if (facts_.content_length > limit)
    return refuse(413, "a body of " + std::to_string(facts_.content_length) + " bytes; " +
                           std::to_string(limit) + " are the limit");
  text_wanted = facts_.json_bytes.value_or(facts_.content_length);
  const bool binary = text_wanted < facts_.content_length;
  if (!take_budget(binary ? kMaxBinaryJson : door_.options.limits.json_bytes)) return Step::answer;
  return Step::text;
}

// Lets the request in, or not, before the rest of its numbers is read.
Step InferExchange::on_part(std::string_view beginning) {
  const auto rows = probe_items(beginning);
  if (!rows || *rows < 1 || *rows > kMaxRequestItems) return Step::text;  // on_text() says why not
  const auto denial = admit(static_cast<int>(*rows), {});
  return denial ? deny(*denial) : Step::text;
}

std::vector<std::span<char>> InferExchange::rows_of(int tensor) {
  std::vector<std::span<char>> rows;
  rows.reserve(static_cast<std::size_t>(bound_.items));
  for (int item = 0; item < bound_.items; ++item)
    rows.push_back(door_.backend.input(*request_, item, tensor));
  return rows;
}

// Fills one input of the request, or notes where its bytes go.
Result<void> InferExchange::place(std::size_t input) {
  const InferInput& from = wanted_.inputs[input];
  const int tensor = bound_.inputs[input];
  const auto rows = rows_of(tensor);
  if (from.carrier == Carrier::json) {
    auto decoded =
        decode_json_tensor(from.json, model_->inputs[static_cast<std::size_t>(tensor)], rows);
    if (!decoded) decoded.error().context = "input '" + from.name + "', " + decoded.error().context;
    return decoded;
  }
  const bool is_text = model_->inputs[static_cast<std::size_t>(tensor)].type == DataType::bytes;
  if (from.carrier == Carrier::binary && is_text) {
    texts_[input].resize(from.bytes);
    scatter.push_back({texts_[input].data(), texts_[input].size()});
    return {};
  }
  if (from.carrier == Carrier::binary) {
    for (const std::span<char> row : rows) scatter.push_back({row.data(), row.size()});
    return {};
  }
  if (!may_share()) return bad_input("", "shared memory is not offered here");
  const auto region = door_.shared_memory.find(from.place.region);
  if (!region) return failed(region.error());
  std::uint64_t offset = from.place.offset;
  if (is_text) {
    std::string bytes(from.place.bytes, '\0');  // bind_request() has bounded it
    if (auto read = (*region)->read(offset, bytes); !read) return read;
    return spread(input, bytes);
  }
  for (const std::span<char> row : rows) {
    if (auto read = (*region)->read(offset, row); !read) return read;
    offset += row.size();
  }
  return {};
}

// Text that came in binary form into its rows.
Result<void> InferExchange::spread(std::size_t input, std::string_view bytes) {
  const auto tensor = static_cast<std::size_t>(bound_.inputs[input]);
  auto done = spread_texts(bytes, model_->inputs[tensor], rows_of(bound_.inputs[input]));
  if (!done) done.error().context = "input '" + wanted_.inputs[input].name + "'";
  return done;
}

Step InferExchange::on_filled() {
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    if (texts_[i].empty()) continue;
    if (const auto done = spread(i, texts_[i]); !done) return refuse(400, to_string(done.error()));
  }
  texts_.clear();
  return submit(false);
}

Step InferExchange::on_text() {
  auto parsed = parse_infer_json(text);
  if (!parsed) return refuse(400, to_string(parsed.error()));
  wanted_ = std::move(*parsed);
  auto bound = bind_request(wanted_, *model_, Protocol::http);
  if (!bound) return refuse(400, to_string(bound.error()));
  bound_ = std::move(*bound);
  const std::uint64_t behind = facts_.content_length - text_wanted;
  if (bound_.binary_bytes != behind)
    return refuse(400, std::to_string(behind) + " bytes follow the JSON; its inputs say " +
                           std::to_string(bound_.binary_bytes));
  for (const BoundOutput& output : bound_.outputs) {
    output_regions_.emplace_back();
    if (output.carrier != Carrier::shared) continue;
    if (!may_share()) return refuse(400, "shared memory is not offered here");
    auto region = door_.shared_memory.find(output.place.region);
    if (!region) return refuse(400, to_string(region.error()));
    output_regions_.back() = std::move(*region);
  }
  const bool early = request_.has_value();
  if (request_ && (admitted_items_ != bound_.items || wanted_.timeout_ns || wanted_.priority != 0))
    give_back();  // what was let in early is not what came
  if (!request_)
    if (const auto denial = admit(bound_.items, wishes(early))) return deny(*denial);
  if (!same_tensors())
    return deny(
        {.kind = Denial::Kind::not_ready,
         .message = "model '" + service + "' has just been replaced by one of other tensors",
         .retry_after_ns = 1'000'000'000});
  texts_.resize(wanted_.inputs.size());
  for (std::size_t i = 0; i < wanted_.inputs.size(); ++i)
    if (const auto placed = place(i); !placed) return refuse(400, to_string(placed.error()));
  text = {};
  for (InferInput& input : wanted_.inputs) input.json = {};
  return scatter.empty() ? submit(false) : Step::tensors;
}

// Looks once at what the worker wrote: where it is text, at how much.
Result<void> InferExchange::gather() {
  answered_.resize(model_->outputs.size());
  for (const BoundOutput& output : bound_.outputs) {
    const auto tensor = static_cast<std::size_t>(output.tensor);
    answered_[tensor].reserve(static_cast<std::size_t>(bound_.items));
    for (int item = 0; item < bound_.items; ++item) {
      const auto row = door_.backend.output(*request_, item, output.tensor);
      const auto used = used_part(model_->outputs[tensor], row);
      if (!used) return bad_input(model_->outputs[tensor].name, "the worker gave no valid text");
      answered_[tensor].push_back(*used);
    }
  }
  return {};
}

Result<void> InferExchange::share_outputs() {
  for (std::size_t i = 0; i < bound_.outputs.size(); ++i) {
    if (output_regions_[i] == nullptr) continue;
    std::uint64_t offset = bound_.outputs[i].place.offset;
    std::size_t total = 0;
    const auto& rows = answered_[static_cast<std::size_t>(bound_.outputs[i].tensor)];
    for (const std::span<const char> row : rows) total += row.size();
    if (total > bound_.outputs[i].place.bytes)
      return bad_input("", "a shared place of " + std::to_string(bound_.outputs[i].place.bytes) +
                               " bytes for " + std::to_string(total));
    for (const std::span<const char> row : rows) {
      if (auto written = output_regions_[i]->write(offset, row); !written) return written;
      offset += row.size();
    }
  }
  return {};
}

void InferExchange::finish() {
  if (denial_) {
    deny(*denial_);
  } else if (const auto gathered = gather(); !gathered) {
    refuse(500, to_string(gathered.error()));
  } else if (const auto shared = share_outputs(); !shared) {
    refuse(400, to_string(shared.error()));
  } else {
    answer();
  }
}

void InferExchange::answer() {
  const auto row = [&](int item, int tensor) {
    return answered_[static_cast<std::size_t>(tensor)][static_cast<std::size_t>(item)];
  };
  reply.text = infer_answer(*model_, wanted_.id, bound_, row);
  if (!has_binary(bound_)) return;
  reply.content_type = "application/octet-stream";
  reply.headers = "Inference-Header-Content-Length: " + std::to_string(reply.text.size()) + "\r\n";
  for (const BoundOutput& output : bound_.outputs) {
    if (output.carrier != Carrier::binary) continue;
    for (const std::span<const char> part : answered_[static_cast<std::size_t>(output.tensor)])
      reply.spans.push_back({const_cast<char*>(part.data()), part.size()});
  }
}

}  // namespace

std::shared_ptr<Exchange> make_infer_exchange(Door& door, RequestFacts facts, std::string service) {
  return std::make_shared<InferExchange>(door, std::move(facts), std::move(service));
}

}  // namespace partita::serve
