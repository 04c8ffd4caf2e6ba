// Front: the HTTP door of a gateway (Open Inference Protocol v2, OpenAI's form, gRPC-web, metrics;
// HTTP/1.1 and HTTP/2, plain or TLS, with bearer tokens) on a loop that it shares with the backend.
// Requests that cannot be served are refused before their bodies are read; bodies go straight into
// the backend's slots. Routes, headers and limits: docs/serving.md. Loop thread only.
#pragma once

#include <cstddef>
#include <memory>

#include "base/door/loop.h"
#include "base/result.h"
#include "serve/front/backend.h"
#include "serve/front/options.h"

namespace partita::serve {

class EnginePool;
class SharedMemory;

class Front {
 public:
  // Listens, or says why it cannot: bad_input for an address, a certificate, or an address that is
  // not loopback without TLS and tokens; environment for what the kernel refuses. Loop and backend
  // outlive the front. Ignores SIGPIPE in this process.
  // Requests for language models go to `engines`, where there are any.
  static Result<std::unique_ptr<Front>> open(Loop& loop, Backend& backend, FrontOptions options,
                                             EnginePool* engines = nullptr);
  ~Front();
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;

  int port() const;  // that it listens on
  std::size_t connections() const;
  SharedMemory* shared_memory();  // of clients, for other doors; null: it is not offered
  AccessLog* access_log();  // for other doors of the same gateway; null: there is none
  // Takes no connection any more, closes idle ones, and the others after their answers.
  void drain();

 private:
  struct Impl;
  explicit Front(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace partita::serve
