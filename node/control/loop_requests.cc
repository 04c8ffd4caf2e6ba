// What people ask, as loop_work.h says.
#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "control/loop_work.h"
#include "forms/serving_forms.h"

namespace partita::control {
namespace {

tl::unexpected<Error> not_now(const std::string& why) {
  return failed({ErrorCode::infeasible, why, ""});
}

// What an agent cannot do with a services file that can be planned for.
Result<void> check_servable(const World& world, const std::vector<plan::Service>& services) {
  for (const plan::Service& one : services) {
    const std::string at = fmt::format("services:{}", one.line);
    if (std::holds_alternative<plan::TraceArrivals>(one.traffic.arrivals))
      return bad_input(at, fmt::format("service '{}': an agent reads no traces of arrivals; say "
                                       "poisson, gamma or burst",
                                       one.name));
    const bool known = std::ranges::any_of(world.profiles, [&](const plan::FleetEntry& entry) {
      return entry.profiles.contains(one.model);
    });
    if (!known)
      return bad_input(
          at, fmt::format("service '{}': there is no profile of model '{}'", one.name, one.model));
  }
  return {};
}

}  // namespace

Reply Loop::Work::answer(const Asked& asked) {
  const std::string& user = asked.user.empty() ? std::string("somebody") : asked.user;
  struct Visit {
    Work& work;
    const std::string user;
    Reply operator()(const SetServices& one) const { return work.set_services(one, user); }
    Reply operator()(const SetPlan& one) const { return work.set_plan(one, user); }
    Reply operator()(const Approve& one) const { return work.approve(one, user); }
    Reply operator()(const Reject& one) const { return work.reject(one, user); }
    Reply operator()(const Rollback&) const { return work.roll_back(user); }
    Reply operator()(const Replan&) const {
      work.forced_ = true;
      work.forced_by_ = user;
      return Receipt{0, "the agent looks and plans now"};
    }
    Reply operator()(const SetMode& one) const { return work.set_mode(one.mode, user); }
    Reply operator()(const TakeOut& one) const { return work.take_gpu_out(one, user); }
    Reply operator()(const GiveBack& one) const { return work.give_gpu_back(one, user); }
  };
  const Visit visit{*this, user};
  return std::visit(
      [&](const auto& one) -> Reply {
        if constexpr (requires { visit(one); })
          return visit(one);
        else
          return of_batches(one, user);
      },
      asked.request);
}

Reply Loop::Work::set_services(const SetServices& request, const std::string& user) {
  const auto parsed = forms::parse_services_file("services", request.text);
  if (!parsed) return failed(parsed.error());
  if (auto fine = check_servable(world_, parsed->services); !fine) return failed(fine.error());
  memory_.services = request.text;
  memory_.services_by = user;
  load_services();
  meters_.begin(services_, meters_.known());
  tried_.clear();
  record(history::EventKind::desired,
         {.user = user,
          .cause = fmt::format("{} sent other services", user),
          .detail = fmt::format("{} services are wanted", services_.size()),
          .documents = {{"desired", memory_.services}}});
  return Receipt{0, fmt::format("{} services are wanted now; a plan follows", services_.size())};
}

// Why a change cannot be decided on: there never was one, or it does not wait.
Reply Loop::Work::not_waiting(long change) const {
  if (change < 1 || change > memory_.changes)
    return failed({ErrorCode::not_found, fmt::format("there is no change {}", change), ""});
  return not_now(fmt::format("change {} does not wait for approval", change));
}

Reply Loop::Work::approve(const Approve& request, const std::string& user) {
  if (!memory_.proposal || memory_.proposal->change != request.change)
    return not_waiting(request.change);
  if (mode() == Mode::observe)
    return not_now("the agent only observes: set the mode automatic or approve first");
  const Target target = *memory_.proposal;
  adopt(target, user,
        fmt::format("{} approved it{}", user, request.why.empty() ? "" : ": " + request.why));
  return Receipt{target.change, fmt::format("change {} is made now", target.change)};
}

Reply Loop::Work::reject(const Reject& request, const std::string& user) {
  if (!memory_.proposal || memory_.proposal->change != request.change)
    return not_waiting(request.change);
  record(history::EventKind::rejected, {.change = request.change,
                                        .user = user,
                                        .cause = request.why,
                                        .outcome = history::Outcome::refused,
                                        .detail = "rejected by a person"});
  if (proposed_) {
    last_ = proposed_;
    last_->state = ChangeState::rejected;
    last_->ended_ms = now_;
    last_->error = request.why;
  }
  over(waits_key(request.change));
  memory_.proposal.reset();
  proposed_.reset();
  quiet_until_ms_ = now_ + static_cast<std::int64_t>(world_.settings.damping.cooldown_s * 1000);
  return Receipt{request.change,
                 fmt::format("change {} is not made; nothing is proposed for {:.0f} min unless "
                             "services or GPUs change",
                             request.change, world_.settings.damping.cooldown_s / 60)};
}

Reply Loop::Work::roll_back(const std::string& user) {
  if (!memory_.before) return not_now("there was no change before that this could go back to");
  Target target = *memory_.before;
  const long from = memory_.target ? memory_.target->change : 0;
  target.change = ++memory_.changes;
  target.cause = fmt::format("{} went back to what was before change {}", user, from);
  target.planned_ms = now_;
  target.services = services_key();
  target.done = false;
  memory_.mode = Mode::approve;
  memory_.mode_set = true;
  if (under_) {
    deeds_.stop_apply = true;
    under_->stopping = true;
  }
  quiet_until_ms_ = now_ + static_cast<std::int64_t>(world_.settings.damping.cooldown_s * 1000);
  const long number = target.change;
  adopt(std::move(target), user, "a rollback");
  return Receipt{number, fmt::format("change {} goes back to what was before change {}; the mode "
                                     "is approve now",
                                     number, from)};
}

Reply Loop::Work::set_mode(Mode wanted, const std::string& user) {
  if (memory_.mode != wanted)
    record(history::EventKind::desired,
           {.user = user,
            .cause = fmt::format("{} set the mode {}", user, to_string(wanted)),
            .detail = fmt::format("it was {}", to_string(memory_.mode))});
  memory_.mode = wanted;
  memory_.mode_set = true;
  if (wanted == Mode::observe && under_ && !under_->stopping) {
    deeds_.stop_apply = true;
    under_->stopping = true;
    return Receipt{under_->number, "the mode is observe; the change under way ends in order"};
  }
  return Receipt{0, fmt::format("the mode is {}", to_string(wanted))};
}

Reply Loop::Work::take_gpu_out(const TakeOut& request, const std::string& user) {
  const device::GpuState* gpu = state_.find(request.gpu_uuid);
  if (gpu == nullptr)
    return failed(
        {ErrorCode::not_found, fmt::format("this node has no GPU {}", request.gpu_uuid), ""});
  const std::string why = fmt::format("gpu {} was taken out by {}{}", gpu->index, user,
                                      request.why.empty() ? std::string{} : ": " + request.why);
  take_out(request.gpu_uuid, {.uuid = {}, .why = why, .by_person = true}, user);
  use_ = gpus_for_services(world_, state_, memory_.out);
  quiet_until_ms_ = 0;
  return Receipt{0, why + "; its services move elsewhere, then it is left empty"};
}

Reply Loop::Work::give_gpu_back(const GiveBack& request, const std::string& user) {
  if (out_of(request.gpu_uuid) == nullptr && state_.find(request.gpu_uuid) == nullptr)
    return failed(
        {ErrorCode::not_found, fmt::format("this node has no GPU {}", request.gpu_uuid), ""});
  if (out_of(request.gpu_uuid) == nullptr)
    return not_now(fmt::format("GPU {} is not taken out", request.gpu_uuid));
  give_back(request.gpu_uuid, user, fmt::format("{} gave it back", user));
  if (node_known_) use_ = gpus_for_services(world_, state_, memory_.out);
  quiet_until_ms_ = 0;
  return Receipt{0, "it may be used again; services move there when a plan needs it"};
}

}  // namespace partita::control
