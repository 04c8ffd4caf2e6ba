#include "dra/keep_plan.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/rng.h"
#include "dra/cluster.h"
#include "flags.h"
#include "fleet/objects/keeper.h"
#include "stop_request.h"

namespace partita::cli {
namespace {

constexpr int kWatchSeconds = 60;  // what watches do not say is seen by then
constexpr std::int64_t kLeast = 50'000'000;

class Keeper {
 public:
  Keeper(Context& context, const KeepPlanFlags& flags, const dra::KubeApi& api,
         const std::function<Result<std::string>()>& objects, std::int64_t every,
         std::int64_t patience)
      : context_(context),
        flags_(flags),
        api_(api),
        objects_(objects),
        every_(every),
        end_(context.clock.now_ns() + patience),
        rng_(static_cast<std::uint64_t>(context.clock.now_ns()) ^
             static_cast<std::uint64_t>(::getpid())) {}

  Result<Exit> run() {
    kept_.name = flags_.plan;
    kept_.name_space = flags_.name_space;
    TRY(read_plan());
    while (!stopped_) {
      look_at_plan();
      const auto round = dra::keep_round(kept_, asks());
      if (round)
        tell(*round);
      else
        fail(round.error());
      if (flags_.once) {
        if (round && round->settled) return Exit::done;
        if (auto fine = go_on(round); !fine) return failed(fine.error());
      }
      wait(round);
    }
    if (flags_.once) return environment_error("--once", "was ended before all was as planned");
    return Exit::done;
  }

 private:
  dra::AskKube asks() const {
    return [this](auto method, const auto& path, const auto& body,
                  auto type) -> Result<dra::KubeReply> {
      auto answer = TRY(api_.ask(method, path, body, type));
      return dra::KubeReply{answer.status, std::move(answer.body)};
    };
  }
  Result<void> read_plan() {
    const auto text = TRY(objects_());
    if (text == text_) return {};
    auto list = TRY(dra::parse_objects("the plan's objects", text));
    kept_.wanted = std::move(list.objects);
    text_ = text;
    changed_ = true;
    return {};
  }
  void look_at_plan() {
    changed_ = false;
    if (context_.clock.now_ns() < next_look_) return;
    next_look_ = context_.clock.now_ns() + every_;
    const auto read = read_plan();
    const std::string trouble = read ? "" : to_string(read.error());
    if (!trouble.empty() && trouble != plan_trouble_)
      complain(context_, trouble + "; the plan before it stays");
    plan_trouble_ = trouble;
  }
  // What is new is said once.
  void speak(const std::string& what) {
    if (what != said_) complain(context_, what);
    said_ = what;
  }
  void fail(const Error& error) {
    ++failures_;
    speak(to_string(error));
  }
  void tell(const dra::KeptRound& round) {
    failures_ = 0;
    busy_ = round.done > 0 ? busy_ + 1 : 0;
    if (!round.faults.empty()) return speak(round.faults.front());
    if (round.settled) return speak(fmt::format("plan '{}' is kept", kept_.name));
    if (!round.waiting.empty()) speak(round.waiting);
  }
  Result<void> go_on(const Result<dra::KeptRound>& round) const {
    if (round && !round->faults.empty()) return environment_error("--once", round->faults.front());
    if (context_.clock.now_ns() < end_) return {};
    return environment_error("--wait", "it is not as planned yet: " + said_);
  }

  // Until something may have changed.
  void wait(const Result<dra::KeptRound>& round) {
    std::int64_t pause = kLeast;
    if (!round) pause = dra::pause_ns(failures_, rng_.uniform());
    if (round && busy_ > 1) pause = dra::pause_ns(busy_, rng_.uniform());
    stopped_ = stop_.within(pause);
    if (stopped_ || !round || round->done > 0) return;
    const std::string path = fmt::format(
        "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={}&labelSelector={}%3D{}"
        "&resourceVersion={}",
        dra::path_of(dra::KubeKind::deployment, kept_.name_space), kWatchSeconds, dra::kPlan,
        kept_.name, round->version);
    const auto status = api_.watch(path, [this](std::string_view line) { return goes_on(line); });
    if (!status)
      fail(status.error());
    else if (*status != 200 && *status != 410 && *status != 0)
      fail({ErrorCode::environment, fmt::format("the API server answered {}", *status), path});
  }
  bool goes_on(std::string_view line) {
    if (!line.empty()) return !dra::says_change(line);
    stopped_ = stop_.within(0);
    look_at_plan();
    return !stopped_ && !changed_ && (!flags_.once || context_.clock.now_ns() < end_);
  }

  Context& context_;
  const KeepPlanFlags& flags_;
  const dra::KubeApi& api_;
  const std::function<Result<std::string>()>& objects_;
  const std::int64_t every_, end_;
  Rng rng_;
  StopRequest stop_;
  dra::KeptPlan kept_;
  std::string text_, said_, plan_trouble_;
  std::int64_t next_look_ = 0;
  int failures_ = 0, busy_ = 0;
  bool stopped_ = false, changed_ = false;
};

}  // namespace

Result<Exit> run_keep_plan(Context& context, const KeepPlanFlags& flags,
                           const std::function<Result<std::string>()>& objects) {
  const auto every = TRY(parse_duration("--interval", flags.interval));
  const auto patience = TRY(parse_duration("--wait", flags.wait));
  const auto settings = TRY(settled_cluster(context, flags.api));
  const auto api = TRY(dra::KubeApi::to(settings, context.files, context.clock));
  return Keeper(context, flags, api, objects, static_cast<std::int64_t>(every.value * 1e9),
                static_cast<std::int64_t>(patience.value * 1e9))
      .run();
}

}  // namespace partita::cli
