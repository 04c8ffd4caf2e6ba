// An inference request of the Open Inference Protocol over HTTP: in JSON or binary form, or with
// tensors in shared memory.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/door/gzip.h"
#include "base/door/loop.h"
#include "base/index.h"
#include "serve/front/gateway_exchange.h"
#include "serve/front/grpc_ask.h"
#include "serve/oip/answer.h"
#include "serve/oip/bind.h"
#include "serve/oip/infer_request.h"
#include "serve/oip/tensor_json.h"
#include "serve/wire/texts.h"

namespace partita::serve {

namespace {

constexpr std::size_t kMaxBinaryJson = 1u << 20;  // the JSON before binary tensors
// Of rows whose slots are claimed before they come.
constexpr std::size_t kClaimBytes = 1u << 16, kClaimRows = 64;

class InferExchange final : public GatewayExchange, private Filling {
 public:
  InferExchange(Door& door, RequestFacts facts, AskedModel asked, bool any_bucket)
      : GatewayExchange(door, std::move(facts)),
        any_bucket_(any_bucket),
        of_set_(std::move(asked.of_set)) {
    service = std::move(asked.service);
  }
  ~InferExchange() override { door_.filling.erase(this); }

  Step begin() override;
  Step on_part(std::string_view beginning) override;
  Step on_text() override;
  Step on_filled() override;
  void finish() override;

 private:
  RequestHead wishes(bool again) const {
    RequestHead head = head_of(wanted_, of_set_);
    head.again = again;
    return head;
  }
  // Whether the slots are still for the model that the request was checked against.
  bool same_tensors() const {
    const ModelSpec* now = door_.backend.model(service);
    return now != nullptr && now->inputs == model_->inputs && now->outputs == model_->outputs;
  }
  bool fills(std::string_view wanted) const override { return service == wanted; }
  int rows_held() const override { return claimed_; }
  void evict() override;
  Step deny_or_go(const Denial& denial);
  std::optional<Step> unpack();
  Step fill_from(std::string_view bytes);
  bool claim(int rows);
  Step no_memory();
  Step next_rows();
  Step all_here();
  InputRow input_row() {
    return [this](int item, int tensor) { return door_.backend.input(*request_, item, tensor); };
  }
  std::vector<std::span<char>> places(std::size_t input) {
    return input_places(*model_, bound_, input, input_row());
  }
  Result<void> spread(std::size_t input, std::string_view bytes);
  Result<void> place(std::size_t input);
  const SharedMemory* regions() const { return may_share() ? &door_.shared_memory : nullptr; }
  void answer();

  Result<BoundRequest> bound();

  const bool any_bucket_;
  const std::string of_set_;
  std::shared_ptr<const ModelSpec> model_;
  InferRequest wanted_;
  BoundRequest bound_;
  struct Coming {  // a tensor in binary form, that follows the JSON
    std::size_t input = 0;
    int next_row = 0;
  };
  std::vector<Coming> coming_ = {};
  std::size_t coming_at_ = 0;
  int claimed_ = 0;                      // rows that have slots
  std::vector<std::string> texts_ = {};  // by input: BYTES in binary form, before they are spread
  OutputRegions output_regions_ = {};
  std::vector<AnsweredOutput> answered_ = {};
};

Step InferExchange::begin() {
  trace();
  if (facts_.method != Method::post) {
    reply = error_reply(405, "inference is a POST");
    reply.headers = "Allow: POST\r\n";
    return Step::answer;
  }
  if (!permitted()) return Step::answer;
  infers_ = true;
  if (!door_.backend.known(service)) return deny_or_go(not_here(door_.options.peers, service));
  if (!facts_.handed_by.empty()) door_.options.peers->count_in(service);
  model_ = door_.model(service);
  if (model_ == nullptr) {
    door_.backend.turned_away(service);
    return deny_or_go(no_worker(service));
  }
  if (model_->kind != ModelKind::tensors)
    return refuse(400, "model '" + service + "' speaks /v1/chat/completions");
  const FrontLimits& limits = door_.options.limits;
  if (facts_.content_length > limits.body_bytes)
    return refuse(413, "a body of " + std::to_string(facts_.content_length) + " bytes; " +
                           std::to_string(limits.body_bytes) + " are the limit");
  const std::uint64_t all = facts_.chunked ? limits.json_bytes : facts_.content_length;
  text_wanted = facts_.packed ? all : facts_.json_bytes.value_or(all);
  text_open = facts_.chunked && (facts_.packed || !facts_.json_bytes);
  const bool binary = text_wanted < all;
  return text_allowed(binary ? kMaxBinaryJson : limits.json_bytes) ? Step::text : Step::answer;
}

// Lets the request in, or not, before the rest of its numbers is read.
Step InferExchange::on_part(std::string_view beginning) {
  const auto first = [](const TensorSpec& input) { return input.batch_axis == 0; };
  if (facts_.packed || any_bucket_ || model_->sequences ||
      !std::ranges::all_of(model_->inputs, first))
    return Step::text;
  // What a key may have and had is counted in bytes, too, which nobody knows yet.
  if (facts_.chunked && facts_.token != nullptr) return Step::text;
  const auto rows = probe_items(beginning);
  if (!rows || *rows < 1 || *rows > kMaxRequestItems) return Step::text;  // on_text() says why not
  const auto denial = admit(static_cast<int>(*rows), wishes(false));
  if (!denial) return Step::text;
  return goes_over(*denial, true) ? Step::text : deny(*denial);
}

// Before any of its body is read.
Step InferExchange::deny_or_go(const Denial& denial) {
  return goes_over(denial, false) ? read_whole() : deny(denial);
}

// Slots for its first rows, if need be those of somebody who sends too slowly.
bool InferExchange::claim(int rows) {
  const auto taken = [&] { return door_.backend.claim(*request_, rows); };
  if (!taken() && !(door_.evict(service, this) && taken())) return false;
  claimed_ = std::max(claimed_, rows);
  return true;
}

Step InferExchange::no_memory() {
  return deny({.kind = Denial::Kind::overloaded,
               .message = "no memory for more rows of '" + service + "'",
               .retry_after_ns = 1'000'000'000});
}

void InferExchange::evict() {
  const auto kept = weak_from_this().lock();  // its connection drops it when it has ended
  scatter.clear();
  door_.filling.erase(this);
  deny({.kind = Denial::Kind::overloaded,
        .message = "its body came slowly, and others needed the memory",
        .retry_after_ns = 1'000'000'000});
  end();
}

// Fills one input of the request, or notes that its bytes come. Of the former the rows are there.
Result<void> InferExchange::place(std::size_t input) {
  const InferInput& from = wanted_.inputs[input];
  const int tensor = bound_.inputs[input];
  const bool is_text = model_->inputs[static_cast<std::size_t>(tensor)].type == DataType::bytes;
  if (from.carrier == Carrier::binary) {
    if (is_text) texts_[input].resize(from.bytes);
    coming_.push_back({.input = input});
    return {};
  }
  const auto rows = places(input);
  if (from.carrier == Carrier::json) {
    auto decoded =
        decode_json_tensor(from.json, model_->inputs[static_cast<std::size_t>(tensor)], rows);
    if (!decoded) decoded.error().context = "input '" + from.name + "', " + decoded.error().context;
    return decoded;
  }
  return read_shared(regions(), from, model_->inputs[static_cast<std::size_t>(tensor)], rows);
}

// Where the next bytes go. Slots are claimed for few rows at a time, so that who sends little holds
// little.
Step InferExchange::next_rows() {
  scatter.clear();
  while (coming_at_ < coming_.size()) {
    Coming& coming = coming_[coming_at_];
    const int tensor = bound_.inputs[coming.input];
    const TensorSpec& spec = model_->inputs[static_cast<std::size_t>(tensor)];
    if (spec.type == DataType::bytes) {
      std::string& text_of = texts_[coming.input];
      ++coming_at_;
      if (text_of.empty()) continue;
      scatter.push_back({text_of.data(), text_of.size()});
      return Step::tensors;
    }
    if (coming.next_row == bound_.items) {
      ++coming_at_;
      continue;
    }
    const Sizes sizes = input_sizes(*model_, bound_, coming.input);
    const std::size_t fit =
        std::clamp<std::size_t>(kClaimBytes / *bytes_of_item(spec, sizes), 1, kClaimRows);
    const bool in_order = spec.batch_axis == 0;
    const int last = static_cast<int>(
        std::min(in_order ? at(coming.next_row) + fit : at(bound_.items), at(bound_.items)));
    if (!claim(last)) return no_memory();
    if (!in_order) {
      for (const std::span<char> part : places(coming.input))
        scatter.push_back({part.data(), part.size()});
      coming.next_row = last;
    }
    for (; coming.next_row < last; ++coming.next_row) {
      const std::span<char> row =
          begin_item(spec, sizes, door_.backend.input(*request_, coming.next_row, tensor));
      scatter.push_back({row.data(), row.size()});
    }
    return Step::tensors;
  }
  return all_here();
}

Step InferExchange::all_here() {
  door_.filling.erase(this);
  if (!claim(bound_.items)) return no_memory();
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    if (texts_[i].empty()) continue;
    if (const auto done = spread(i, texts_[i]); !done) return refuse(400, to_string(done.error()));
  }
  texts_.clear();
  share_inputs(*model_, bound_, input_row());
  return submit(false);
}

// Text that came in binary form into its rows.
Result<void> InferExchange::spread(std::size_t input, std::string_view bytes) {
  const auto tensor = static_cast<std::size_t>(bound_.inputs[input]);
  auto done = spread_texts(bytes, model_->inputs[tensor], places(input));
  if (!done) done.error().context = "input '" + wanted_.inputs[input].name + "'";
  return done;
}

Step InferExchange::on_filled() { return going() ? hand_over() : next_rows(); }

// The request as its model, and of that the shortest bucket, takes it.
Result<BoundRequest> InferExchange::bound() {
  auto bound = bind_request(wanted_, *model_, Protocol::http);
  if (!bound || !any_bucket_) return bound;
  auto bucket = TRY(fitting_bucket(door_.backend, service, *model_, *bound));
  if (bucket == service) return bound;
  auto model = door_.model(bucket);
  if (model == nullptr) return bound;
  service = std::move(bucket);
  model_ = std::move(model);
  return bind_request(wanted_, *model_, Protocol::http);
}

// Its body as it was before it was packed, in one piece: from here on as if it had come so.
// Nothing: done.
std::optional<Step> InferExchange::unpack() {
  facts_.packed = false;
  std::optional<Step> none;
  const std::size_t packed = text.size();
  auto body = unpacked(text, door_.options.limits.json_bytes, [&](std::size_t bytes) {
    const Step step = on_growth(packed + bytes);
    if (step != Step::text) none = step;
    return !none;
  });
  if (none) return none;
  if (!body)
    return body.error() == UnpackFault::too_long
               ? refuse(413, "the body becomes too long when it is unpacked")
               : refuse(400, "the body is not what its Content-Encoding says");
  text = *std::move(body);
  text_came();
  facts_.content_length = text.size();
  facts_.chunked = false;
  if (facts_.json_bytes.value_or(0) > text.size())
    return refuse(400, "Inference-Header-Content-Length: more than the unpacked body");
  return std::nullopt;
}

// Of a body that is there whole, the bytes behind its JSON.
Step InferExchange::fill_from(std::string_view bytes) {
  Step step = next_rows();
  while (step == Step::tensors) {
    for (const iovec& part : scatter) {
      std::memcpy(part.iov_base, bytes.data(), part.iov_len);
      bytes.remove_prefix(part.iov_len);
    }
    step = next_rows();
  }
  return step;
}

Step InferExchange::on_text() {
  if (facts_.packed) {
    if (const auto refused = unpack()) return *refused;
    text_wanted = facts_.json_bytes.value_or(text.size());
  }
  if (going()) return read_rest();
  auto parsed = parse_infer_json(std::string_view(text).substr(0, text_wanted));
  if (!parsed) return refuse(400, to_string(parsed.error()));
  wanted_ = std::move(*parsed);
  auto bound_request = bound();
  if (!bound_request) return refuse(400, to_string(bound_request.error()));
  bound_ = *std::move(bound_request);
  const bool open_end = facts_.chunked && facts_.json_bytes;
  const std::uint64_t behind = open_end ? bound_.binary_bytes : facts_.content_length - text_wanted;
  if (bound_.binary_bytes != behind)
    return refuse(400, std::to_string(behind) + " bytes follow the JSON; its inputs say " +
                           std::to_string(bound_.binary_bytes));
  if (open_end) on_length(text_wanted + bound_.binary_bytes);
  auto shared = output_regions(regions(), bound_);
  if (!shared) return refuse(400, to_string(shared.error()));
  output_regions_ = *std::move(shared);
  const bool early = request_.has_value();
  if (request_ && (admitted_items_ != bound_.items || wanted_.timeout_ns || wanted_.priority != 0))
    give_back();  // what was let in early is not what came
  if (!request_)
    if (const auto denial = admit(bound_.items, wishes(early)))
      return goes_over(*denial, true) ? read_rest() : deny(*denial);
  if (!same_tensors())
    return deny(
        {.kind = Denial::Kind::not_ready,
         .message = "model '" + service + "' has just been replaced by one of other tensors",
         .retry_after_ns = 1'000'000'000});
  texts_.resize(wanted_.inputs.size());
  const bool all_come = std::ranges::all_of(
      wanted_.inputs, [](const InferInput& input) { return input.carrier == Carrier::binary; });
  if (!all_come && !claim(bound_.items)) return no_memory();
  for (std::size_t i = 0; i < wanted_.inputs.size(); ++i)
    if (const auto placed = place(i); !placed) return refuse(400, to_string(placed.error()));
  const std::string whole = std::exchange(text, {});
  for (InferInput& input : wanted_.inputs) input.json = {};
  if (whole.size() > text_wanted) return fill_from(std::string_view(whole).substr(text_wanted));
  filling_since = Loop::now_ns();
  if (!coming_.empty()) door_.filling.insert(this);
  return next_rows();
}

void InferExchange::finish() {
  if (going()) return finish_over();
  if (denial_) {
    deny(*denial_);
    return;
  }
  auto outputs = answered_of(door_.backend, *request_, *model_, bound_, output_regions_);
  if (!outputs) {
    refuse(outputs.error().http_status, outputs.error().message);
    return;
  }
  answered_ = *std::move(outputs);
  answer();
}

void InferExchange::answer() {
  const ModelSpec* model = model_.get();
  ModelSpec named;  // as it was asked for
  if (!of_set_.empty()) {
    named = *model_;
    named.name = of_set_;
    model = &named;
  }
  reply.text = infer_answer(*model, wanted_.id, bound_, answered_);
  if (!has_binary(bound_)) return compress();
  reply.content_type = "application/octet-stream";
  reply.headers = "Inference-Header-Content-Length: " + std::to_string(reply.text.size()) + "\r\n";
  for (std::size_t i = 0; i < bound_.outputs.size(); ++i) {
    if (bound_.outputs[i].carrier != Carrier::binary) continue;
    for (const std::span<const char> part : answered_[i].parts)
      if (!part.empty()) reply.spans.push_back({const_cast<char*>(part.data()), part.size()});
  }
}

}  // namespace

std::shared_ptr<Exchange> make_infer_exchange(Door& door, RequestFacts facts, AskedModel asked,
                                              bool any_bucket) {
  return std::make_shared<InferExchange>(door, std::move(facts), std::move(asked), any_bucket);
}

}  // namespace partita::serve
