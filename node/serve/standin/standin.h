// Standin: an HTTP server of OpenAI's API (chat and other completions, streamed or not, embeddings,
// models, health, metrics) that takes the time of the engine it is told. A prompt has as many
// tokens as words; an answer as many as max_tokens says (16), each "USER.NUMBER " with the
// request's "user", so that whoever reads it sees whether one is missing, twice there, or
// another's. Prefixes of prompts are cached. Loop thread only.
#pragma once

#include <memory>
#include <string>

#include "base/door/loop.h"
#include "base/result.h"
#include "profile/token_engine.h"

namespace partita::serve {

struct StandinOptions {
  std::string listen = "127.0.0.1:0";
  std::string model = "standin";
  profile::EngineSpec spec = {};
  bool metrics = true;  // /metrics, under vLLM's names
};

class Standin {
 public:
  static Result<std::unique_ptr<Standin>> open(Loop& loop, StandinOptions options);
  ~Standin();
  Standin(const Standin&) = delete;
  Standin& operator=(const Standin&) = delete;

  int port() const;
  int open_requests() const;     // that wait or run
  long tokens_produced() const;  // of answers, whoever got them
  long requests() const;         // that came
  void drain();                  // as DoorListener::drain

 private:
  struct Impl;
  explicit Standin(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace partita::serve
