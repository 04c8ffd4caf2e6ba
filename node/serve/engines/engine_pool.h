// EnginePool: the language models that a gateway serves, by name, each an EngineService. Loop
// thread only; the loop outlives it, and it outlives the calls that it let in.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/engines/engine_service.h"

namespace partita::serve {

class EnginePool {
 public:
  EnginePool(Loop& loop, EngineOptions options, std::function<void(const std::string&)> say);
  ~EnginePool();
  EnginePool(const EnginePool&) = delete;
  EnginePool& operator=(const EnginePool&) = delete;

  // These from now on. What stays is not disturbed; what is gone ends what it has.
  void serve(const std::vector<TokenService>& services);
  EngineService* find(std::string_view service) const;  // null: there is none such
  // By name; services that are gone and not yet idle are not among them.
  const std::map<std::string, std::unique_ptr<EngineService>, std::less<>>& services() const {
    return services_;
  }
  // Engines that were taken away and still have requests, with the name of their service.
  std::vector<std::pair<std::string, const EngineReplica*>> leaving() const;
  bool ready() const;  // all are
  bool idle() const;   // no request is under way
  void close_doors();  // lets nothing in any more
  // How long a request of this key that another node is to have has to wait; 0: not at all, it is
  // under way until its use ended, with so many tokens more than it asked for.
  std::int64_t key_begun(const std::string& key, const KeyLimits& limits, const KeyAsk& asked);
  void key_ended(const std::string& key, double more_tokens);
  // Tokens that an answer of it usually has: of the service's here, else of those at other nodes.
  double usual_out(const std::string& service) const;
  void answered_elsewhere(const std::string& service, double tokens_of_one);
  std::string metrics() const;
  void on_change(std::function<void()> function) { desk_.changed = std::move(function); }

 private:
  void tick(std::int64_t now);

  const EngineOptions options_;
  EngineDesk desk_;
  std::map<std::string, std::unique_ptr<EngineService>, std::less<>> services_ = {};
  std::vector<std::unique_ptr<EngineService>> ending_ = {};
  std::map<std::string, MeanOut> elsewhere_ = {};  // bounded by what other nodes carry
  Loop::Timer timer_;
};

}  // namespace partita::serve
