// FaultStore: the way of one node to the fleet's store, which can be cut, loses calls, and at a
// chosen call kills whoever calls (everything fails from then on). An adaptor around Store.
#pragma once

#include <memory>

#include "base/rng.h"
#include "fleet/etcd/store.h"

namespace partita::fleet {

class FaultStore final : public Store {
 public:
  FaultStore(Store& store, Rng rng) : store_(store), rng_(rng) {}

  void cut(bool is_cut) { cut_ = is_cut; }
  // Every so many calls one fails, before it is done or after; 0: none does.
  void lose(double share) { lost_ = share; }
  // After so many more calls.
  void kill_after(int calls) { kill_after_ = calls; }
  bool killed() const { return killed_; }

  Result<Range> range(const Places& places) override {
    return call([&] { return store_.range(places); });
  }
  Result<long> read(const Places& places, const Hear& hear) override {
    return call([&] {
      return store_.read(places, [&](const KeyValue& one, std::uint64_t stamp) {
        if (answers_) hear(one, stamp);
      });
    });
  }
  Result<Committed> commit(const Transaction& transaction) override {
    return call([&] { return store_.commit(transaction); });
  }
  Result<long> grant(int seconds) override {
    return call([&] { return store_.grant(seconds); });
  }
  Result<void> keep_alive(long lease) override {
    return call([&] { return store_.keep_alive(lease); });
  }
  Result<void> revoke(long lease) override {
    return call([&] { return store_.revoke(lease); });
  }
  Result<std::unique_ptr<Watch>> watch(const Places& places, long after) override {
    auto watch = call([&] { return store_.watch(places, after); });
    if (!watch) return watch;
    return std::make_unique<CutWatch>(*this, *std::move(watch));
  }
  Result<void> compact(long revision) override {
    return call([&] { return store_.compact(revision); });
  }

 private:
  // Nothing comes while the way is cut, and nobody says so.
  struct CutWatch final : Watch {
    CutWatch(FaultStore& store, std::unique_ptr<Watch> watch)
        : of(store), inner(std::move(watch)) {}
    Result<std::vector<SeenChange>> take() override {
      if (of.cut_ || of.killed_) return std::vector<SeenChange>{};
      return inner->take();
    }
    FaultStore& of;
    std::unique_ptr<Watch> inner;
  };

  template <class Call>
  auto call(const Call& does) -> decltype(does()) {
    const auto no_answer = [] { return environment_error("store", "no answer"); };
    if (kill_after_ == 0) killed_ = true;
    if (kill_after_ >= 0) --kill_after_;
    if (cut_ || killed_) return no_answer();
    const double draw = rng_.uniform();
    if (draw < lost_ / 2) return no_answer();
    answers_ = draw >= lost_;
    auto answer = does();
    if (!answers_) return no_answer();
    return answer;
  }

  Store& store_;
  Rng rng_;
  bool cut_ = false, killed_ = false, answers_ = true;
  double lost_ = 0;
  int kill_after_ = -1;
};

}  // namespace partita::fleet
