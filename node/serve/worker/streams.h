// Streams: what executes requests in a worker of an openai model. Each item is a request of its own
// to the server behind, on a thread of its own; its answer goes to the gateway in PARTs as it
// comes, server-sent events too. Several RUNs may run at once: such servers batch by themselves.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "serve/wire/frames.h"
#include "serve/worker/http_client.h"
#include "serve/worker/link_sender.h"

namespace partita::serve {

struct StreamOptions {
  Url url;                                    // the server; ".../completions" is used as it is
  std::string name;                           // of the model
  int max_batch = 1;                          // items of a RUN
  std::int64_t timeout_ns = 600'000'000'000;  // of an answer, whole
  std::int64_t expected_ns = 1'000'000'000;   // said to the gateway as the time of a request
};

inline constexpr int kMaxStreams = 1024;  // at once; more fail at once

// Where a request goes: /v1/chat/completions when its JSON object has "messages", else
// /v1/completions. Looks at the outermost keys alone.
bool has_messages(std::string_view json);

class Streams {
 public:
  explicit Streams(StreamOptions options);
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  const ModelSpec& spec() const { return spec_; }
  std::vector<CurvePoint> curve() const;

  // Bodies are copied out of the slots before it returns. PARTs, and a DONE after the last item's
  // end, go to `link`.
  void start(const Run& run, const std::vector<char*>& slots, std::shared_ptr<LinkSender> link);
  void cancel(const Cancel& cancel);
  bool idle();
  // Breaks all off and waits for their threads.
  void stop();

 private:
  struct Batch;  // a RUN in work
  struct Stream {
    std::jthread thread;
    std::shared_ptr<std::atomic<bool>> ended;
  };
  // Of a request: the socket to shut down when it is cancelled.
  struct Tap;

  struct Letter {
    std::string body, headers;  // headers: of its trace, or none
  };
  void work(const std::shared_ptr<Batch>& batch, std::uint32_t item, const Letter& letter);
  Result<void> pass_on(Batch& batch, std::uint32_t item, const Letter& letter);
  void reap();

  StreamOptions options_;
  ModelSpec spec_;
  SlotLayout layout_;
  std::mutex mutex_;  // guards batches_ and the taps in them
  std::map<std::uint64_t, std::shared_ptr<Batch>> batches_;
  std::vector<Stream> streams_;  // of the calling thread alone
};

}  // namespace partita::serve
