#include "serve/worker/set_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>

namespace partita::serve {
namespace {

constexpr std::size_t kMostFailures = 10'000;  // that are remembered
constexpr std::int64_t kNanosPerMs = 1'000'000;

class SetEngine final : public Engine {
 public:
  explicit SetEngine(SetOptions options) : options_(std::move(options)) {
    std::ranges::sort(options_.models);
  }

  Result<void> open() {
    if (options_.models.empty()) options_.models = {options_.name};
    Error last{ErrorCode::bad_input, "a set of models that has none", options_.name};
    for (const std::string& model : options_.models) {
      Result<EnginePointer> first = options_.load(model);
      if (!first) {
        last = first.error();
        continue;
      }
      if ((*first)->states() != nullptr || (*first)->spec().sequences)
        return bad_input(model, "it has state; such models are in no set");
      spec_ = (*first)->spec();
      first_ = model;
      spec_.name = options_.name;
      spec_.max_batch = 1;
      spec_.set = true;
      layout_ = slot_layout(spec_);
      return {};
    }
    return failed(last);
  }
  void take_any() { options_.models.clear(); }

  const ModelSpec& spec() const override { return spec_; }
  const SetTally* set_tally() const override { return &tally_; }

  Result<void> run(std::span<char* const> slots) override {
    faults_.clear();
    filling_ = {};
    tally_ = {};
    for (std::size_t i = 0; i < slots.size(); ++i)
      if (const Result<void> ran = run_one(slots[i]); !ran)
        faults_.push_back({i, to_string(ran.error())});
    tally_.held = static_cast<std::uint32_t>(held_.size());
    return {};
  }

 private:
  struct Place {  // in the order in which models go
    double credit = 0;
    std::int64_t asked = 0;
    auto operator<=>(const Place&) const = default;
  };
  struct Held {
    EnginePointer engine;
    double cost = 1;
    Place place = {};
  };

  Result<void> run_one(char* slot) {
    const std::string_view named = read_slot_model(slot + layout_.model);
    const std::string model = named.empty() ? first_ : std::string(named);
    Engine* const engine = TRY(engine_of(model));
    TRY(engine->run(std::span(&slot, 1)));
    filling_.values += engine->filling().values;
    filling_.padding += engine->filling().padding;
    if (const auto& faults = engine->faults(); !faults.empty())
      return failed({ErrorCode::environment, faults.front().message, model});
    return {};
  }

  Result<Engine*> engine_of(const std::string& model) {
    auto found = held_.find(model);
    if (found == held_.end()) {
      Held loaded = TRY(load(model));
      found = held_.emplace(model, std::move(loaded)).first;
    } else {
      order_.erase({found->second.place, model});
    }
    found->second.place = {spent_ + found->second.cost, ++turn_};
    order_.insert({found->second.place, model});
    return found->second.engine.get();
  }

  Result<Held> load(const std::string& model) {
    if (!options_.models.empty() && !std::ranges::binary_search(options_.models, model))
      return failed({ErrorCode::not_found, "there is no such model in the set", model});
    const std::int64_t begin = options_.now_ns();
    if (const auto before = failures_.find(model); before != failures_.end()) {
      if (begin < before->second.again)
        return failed({ErrorCode::environment, before->second.why, model});
      failures_.erase(before);
    }
    while (held_.size() >= options_.held) let_one_go();
    Result<EnginePointer> loaded = options_.load(model);
    if (loaded &&
        ((*loaded)->spec().inputs != spec_.inputs || (*loaded)->spec().outputs != spec_.outputs))
      loaded =
          failed({ErrorCode::bad_input, "it takes or gives other tensors than its set", model});
    const std::int64_t end = options_.now_ns(), took = end - begin;
    tally_.nanos += took;
    if (!loaded) {
      ++tally_.failures;
      note_failure(model, to_string(loaded.error()), end);
      return failed(loaded.error());
    }
    ++tally_.loads;
    const auto ms = static_cast<std::uint64_t>(std::max<std::int64_t>(took / kNanosPerMs, 1));
    return Held{.engine = *std::move(loaded), .cost = static_cast<double>(std::bit_floor(ms))};
  }

  void let_one_go() {
    const auto first = order_.begin();
    spent_ = first->first.credit;
    held_.erase(first->second);
    order_.erase(first);
    ++tally_.evictions;
  }

  void note_failure(const std::string& model, std::string why, std::int64_t now) {
    if (failures_.size() >= kMostFailures)
      std::erase_if(failures_, [&](const auto& one) { return one.second.again <= now; });
    if (failures_.size() < kMostFailures) failures_[model] = {now + kFailedForNs, std::move(why)};
  }

  struct Failure {
    std::int64_t again = 0;
    std::string why;
  };

  SetOptions options_;
  ModelSpec spec_;
  SlotLayout layout_;
  std::string first_;
  std::map<std::string, Held> held_;
  std::set<std::pair<Place, std::string>> order_;
  std::map<std::string, Failure> failures_;
  double spent_ = 0;       // credit of what went last
  std::int64_t turn_ = 0;  // counts requests
  SetTally tally_;
};

}  // namespace

Result<EnginePointer> set_engine(SetOptions options) {
  const bool any = options.models.empty();
  auto engine = std::make_unique<SetEngine>(std::move(options));
  TRY(engine->open());
  if (any) engine->take_any();
  return EnginePointer(std::move(engine));
}

}  // namespace partita::serve
