#include "serve/standin/standin.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/append.h"
#include "base/door/address.h"
#include "base/door/listener.h"
#include "serve/oip/json_scan.h"
#include "serve/openai/openai_request.h"
#include "serve/openai/prefix_index.h"
#include "serve/standin/token_stepper.h"

namespace partita::serve {
namespace {

constexpr std::size_t kMostBody = 32u << 20;
constexpr int kDefaultOut = 16;

// What the engine wants to know beside what the gateway does.
struct Wanted {
  int out = kDefaultOut;
  std::string user = "-";
};

Wanted wanted_of(std::string_view body) {
  Wanted wanted;
  JsonScan scan(body);
  scan.object([&](const std::string& key) {
    if ((key == "max_tokens" || key == "max_completion_tokens") && scan.peek() != 'n')
      wanted.out = static_cast<int>(std::clamp<std::int64_t>(scan.integer(), 1, 1'000'000));
    else if (key == "user" && scan.peek() == '"')
      wanted.user = scan.string();
    else
      scan.skip();
  });
  return wanted;
}

int words_in(std::string_view text) { return 1 + static_cast<int>(std::ranges::count(text, ' ')); }

Reply error_of(int status, std::string_view message) {
  Reply reply{.status = status, .text = R"({"error":{"message":)"};
  append_json_string(reply.text, message);
  reply.text += R"(,"type":"invalid_request_error","param":null,"code":null}})";
  return reply;
}

class StandinSteps;

class Completing final : public Exchange {
 public:
  Completing(StandinSteps& engine, HeadFacts facts) : engine_(engine), facts_(std::move(facts)) {}
  ~Completing() override { Completing::give_back(); }
  const HeadFacts& facts() const override { return facts_; }
  Step begin() override;
  Step on_text() override;
  void give_back() override;
  void token(int index, bool last);

 private:
  void add_event(std::string_view word, bool last);
  void add_usage(std::string& out) const;
  void answer_whole();

  StandinSteps& engine_;
  HeadFacts facts_;
  std::uint64_t id_ = 0;  // 0: none is under way
  Wanted wanted_ = {};
  int prompt_ = 1, cached_ = 0;
  bool chat_ = false, streams_ = false, says_usage_ = false;
  std::string words_ = {};
};

}  // namespace

struct Standin::Impl final : Site {
  Impl(Loop& loop, StandinOptions given);
  std::shared_ptr<Exchange> route(const HttpHead& head, const Peer& peer) override;
  Reply refusal(int status, std::string_view message) override { return error_of(status, message); }

  const StandinOptions options;
  DoorLimits limits = {};
  DoorCounts counts = {};
  std::unique_ptr<StandinSteps> engine;
  Desk desk{.site = *this, .limits = limits, .counts = counts};
  std::unique_ptr<DoorListener> listener = {};
};

namespace {

// The steps, in real time: each begins when the one before is over.
class StandinSteps {
 public:
  StandinSteps(Loop& loop, const StandinOptions& options)
      : options_(options),
        stepper_(options.spec),
        prefixes_(
            static_cast<std::size_t>(std::clamp<std::int64_t>(options.spec.blocks, 1, 1'000'000))),
        timer_(loop, [this](std::int64_t due) { step(due); }) {}

  std::uint64_t add(Completing* who, int prompt, int out, const PrefixHashes& hashes, int& cached) {
    const auto blocks = static_cast<double>(prefixes_.known(hashes));
    const double share = hashes.empty() ? 0 : blocks / static_cast<double>(hashes.size() + 1);
    cached = std::clamp(static_cast<int>(share * prompt), 0, prompt - 1);
    const std::uint64_t id = ++last_;
    if (!stepper_.add({.id = id, .prompt = prompt, .cached = cached, .out = out})) return 0;
    prefixes_.add(hashes);
    who_[id] = who;
    if (!stepping_) begin(Loop::now_ns());
    return id;
  }
  void remove(std::uint64_t id) {
    who_.erase(id);
    stepper_.remove(id);
  }
  const StandinOptions& options() const { return options_; }
  std::string metrics() const {
    std::string text;
    const auto add = [&](const char* name, const std::string& labels, double value) {
      append(text, "{}{{model_name=\"{}\"{}}} {}\n", name, options_.model, labels, value);
    };
    const auto room = static_cast<double>(stepper_.most_tokens());
    add("vllm:kv_cache_usage_perc", "", static_cast<double>(stepper_.tokens_held()) / room);
    add("vllm:cache_config_info",
        fmt::format(",block_size=\"{}\",num_gpu_blocks=\"{}\"", profile::kBlockTokens,
                    options_.spec.blocks),
        1);
    add("vllm:num_requests_running", "", stepper_.running());
    add("vllm:num_requests_waiting", "", stepper_.waiting());
    add("vllm:num_preemptions_total", "", 0);
    return text;
  }
  int open() const { return stepper_.running() + stepper_.waiting(); }
  long tokens = 0, requests = 0;

 private:
  void begin(std::int64_t now) {
    stepping_ = !stepper_.idle();
    if (stepping_) timer_.at(now + stepper_.begin_ns());
  }
  void step(std::int64_t due) {
    for (const TokenStepper::Produced& one : stepper_.end()) {
      ++tokens;
      const auto found = who_.find(one.id);
      if (found == who_.end()) continue;
      Completing* const who = found->second;
      if (one.last) who_.erase(found);
      who->token(one.index, one.last);
    }
    begin(std::max(due, Loop::now_ns() - kCatchUp));
  }

  static constexpr std::int64_t kCatchUp = 5'000'000;  // a stopped process does not hurry after
  const StandinOptions& options_;
  TokenStepper stepper_;
  PrefixIndex prefixes_;
  std::map<std::uint64_t, Completing*> who_ = {};
  std::uint64_t last_ = 0;
  bool stepping_ = false;
  Loop::Timer timer_;
};

Step Completing::begin() {
  if (facts_.method != Method::post || facts_.content_length > kMostBody) {
    reply = error_of(facts_.method != Method::post ? 405 : 413, "a POST of at most 32 MiB");
    return Step::answer;
  }
  text_open = facts_.chunked;
  text_wanted = text_open ? kMostBody : facts_.content_length;
  return Step::text;
}

Step Completing::on_text() {
  ++engine_.requests;
  const auto request = parse_openai_request(text);
  if (!request) {
    reply = error_of(400, request.error().message);
    return Step::answer;
  }
  if (request->model != engine_.options().model) {
    reply = error_of(404, "The model `" + request->model + "` does not exist.");
    return Step::answer;
  }
  if (request->sequences > 1 && facts_.path != "/v1/embeddings") {
    reply = error_of(400, "it gives one answer to one prompt: no n, best_of or list of prompts");
    return Step::answer;
  }
  wanted_ = wanted_of(text);
  chat_ = facts_.path == "/v1/chat/completions";
  streams_ = request->stream;
  says_usage_ = request->usage_asked;
  prompt_ = words_in(request->prompt);
  if (facts_.path == "/v1/embeddings") wanted_.out = 1;
  id_ = engine_.add(this, prompt_, wanted_.out, prefix_hashes(request->prompt), cached_);
  if (id_ == 0) {
    reply = error_of(400, "prompt and answer are longer than the cache");
    return Step::answer;
  }
  text = {};
  return streams_ ? Step::stream : Step::backend;
}

void Completing::add_event(std::string_view word, bool last) {
  append(pieces, R"(data: {{"id":"standin-{}","object":"{}","created":0,"model":)", id_,
         chat_ ? "chat.completion.chunk" : "text_completion");
  append_json_string(pieces, engine_.options().model);
  pieces +=
      chat_ ? R"(,"choices":[{"index":0,"delta":{"content":)" : R"(,"choices":[{"index":0,"text":)";
  append_json_string(pieces, word);
  pieces += chat_ ? R"(},"finish_reason":)" : R"(,"finish_reason":)";
  pieces += last ? "\"length\"}]}\n\n" : "null}]}\n\n";
}

void Completing::add_usage(std::string& out) const {
  append(out,
         R"("usage":{{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},)"
         R"("prompt_tokens_details":{{"cached_tokens":{}}}}})",
         prompt_, wanted_.out, prompt_ + wanted_.out, cached_);
}

void Completing::token(int index, bool last) {
  const auto lives = shared_from_this();  // while its connection may let it go
  const std::string word = wanted_.user + "." + std::to_string(index) + " ";
  if (!streams_) {
    words_ += word;
    if (!last) return;
    answer_whole();
    end();
    return;
  }
  if (!std::exchange(stream_begun, true)) {
    reply.content_type = "text/event-stream; charset=utf-8";
    if (chat_)
      append(pieces,
             "data: {{\"id\":\"standin-{}\",\"object\":\"chat.completion.chunk\",\"choices\":"
             "[{{\"index\":0,\"delta\":{{\"role\":\"assistant\",\"content\":\"\"}}}}]}}\n\n",
             id_);
  }
  add_event(word, last);
  if (!last) {
    if (wake) wake();
    return;
  }
  if (says_usage_) {
    append(pieces, R"(data: {{"id":"standin-{}","choices":[],)", id_);
    add_usage(pieces);
    pieces += "}\n\n";
  }
  pieces += "data: [DONE]\n\n";
  id_ = 0;
  end();
}

void Completing::answer_whole() {
  std::string out;
  if (facts_.path == "/v1/embeddings") {
    out = R"({"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5]}],)";
    wanted_.out = 0;
  } else {
    append(out, R"({{"id":"standin-{}","object":"{}","created":0,"choices":[{{"index":0,)", id_,
           chat_ ? "chat.completion" : "text_completion");
    out += chat_ ? R"("message":{"role":"assistant","content":)" : R"("text":)";
    append_json_string(out, words_);
    out += chat_ ? R"(},"finish_reason":"length"}],)" : R"(,"finish_reason":"length"}],)";
  }
  out += R"("model":)";
  append_json_string(out, engine_.options().model);
  out += ',';
  add_usage(out);
  reply.text = out + "}";
  id_ = 0;
}

void Completing::give_back() {
  if (id_ != 0) engine_.remove(std::exchange(id_, 0));
}

}  // namespace

Standin::Impl::Impl(Loop& loop, StandinOptions given)
    : options(std::move(given)), engine(std::make_unique<StandinSteps>(loop, options)) {}

std::shared_ptr<Exchange> Standin::Impl::route(const HttpHead& head, const Peer&) {
  HeadFacts facts;
  facts.method = head.method;
  facts.method_name = head.method_name;
  facts.path = head.target.substr(0, head.target.find('?'));
  facts.content_length = head.content_length.value_or(0);
  facts.chunked = head.chunked;
  if (facts.path == "/v1/chat/completions" || facts.path == "/v1/completions" ||
      facts.path == "/v1/embeddings")
    return std::make_shared<Completing>(*engine, std::move(facts));
  Reply reply = error_of(404, "Not Found");
  if (facts.path == "/health") reply = {.text = ""};
  if (facts.path == "/metrics" && options.metrics) reply = {.text = engine->metrics()};
  if (facts.path == "/v1/models") {
    reply = {.text = R"({"object":"list","data":[{"id":)"};
    append_json_string(reply.text, options.model);
    reply.text += R"(,"object":"model","created":0,"owned_by":"partita"}]})";
  }
  return std::make_shared<AnsweredExchange>(std::move(facts), std::move(reply));
}

Standin::Standin(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Standin::~Standin() = default;

Result<std::unique_ptr<Standin>> Standin::open(Loop& loop, StandinOptions options) {
  const auto address = TRY(parse_listen_address(options.listen));
  TRY(check_exposure(options.listen, address, false, false));
  const auto fd = TRY(listen_on(options.listen, address));
  auto impl = std::make_unique<Impl>(loop, std::move(options));
  impl->listener = DoorListener::open(loop, impl->desk, fd);
  return std::unique_ptr<Standin>(new Standin(std::move(impl)));
}

int Standin::port() const { return impl_->listener->port(); }
int Standin::open_requests() const { return impl_->engine->open(); }
long Standin::tokens_produced() const { return impl_->engine->tokens; }
long Standin::requests() const { return impl_->engine->requests; }
void Standin::drain() { impl_->listener->drain(); }

}  // namespace partita::serve
