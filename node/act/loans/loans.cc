#include "act/loans/loans.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

namespace partita::exec {
namespace {

using device::GpuState;
using device::Instance;
using device::ProfileInfo;
using State = LoanRecord::State;

constexpr std::int64_t kPatience = 10'000'000'000, kRetry = 50'000'000;
constexpr std::size_t kLongLog = 1u << 16;  // is written anew with what stands

std::string text_of(const device::Holder& holder) {
  return holder.name.empty() ? fmt::format("process {}", holder.pid)
                             : fmt::format("process {} ({})", holder.pid, holder.name);
}

// The instance of a loan, if it is there: the one of its device; before there is a device and once
// that is destroyed, the one at its placement.
const Instance* instance_of(const GpuState& gpu, const LoanRecord& loan) {
  const auto found = std::ranges::find_if(gpu.instances, [&](const Instance& instance) {
    if (std::ranges::find(instance.compute, loan.device, &device::ComputeInstance::uuid) !=
        instance.compute.end())
      return true;
    return instance.profile_id == loan.profile_id && instance.start == loan.start &&
           (instance.compute.empty() || loan.state == State::intended);
  });
  return found == gpu.instances.end() ? nullptr : &*found;
}

}  // namespace

bool is_plain(const std::string& profile) { return profile.find('+') == std::string::npos; }

Result<Loans> Loans::open(LoanDoors doors, const std::string& path, Pid owner) {
  Loans loans(doors, owner);
  if (path.empty()) return loans;
  RecordLog log = TRY(RecordLog::open(doors.files, path, kLoanLogKind));
  StandingLoans standing = TRY(standing_loans(path, log.found()));
  loans.log_ = std::move(log);
  loans.standing_ = std::move(standing);
  if (!loans.standing_.empty()) loans.last_ = loans.standing_.rbegin()->first;
  TRY(loans.take_back_lost());
  if (loans.log_->bytes() > kLongLog) {
    std::vector<std::string> records;
    for (const auto& [number, loan] : loans.standing_) records.push_back(loan_record_text(loan));
    TRY(loans.log_->replace(records));
  }
  return loans;
}

Result<void> Loans::write(const LoanRecord& record) {
  const std::vector<std::string> texts = {loan_record_text(record)};
  if (log_) TRY(record.state == State::intended ? log_->announce(texts) : log_->append(texts));
  if (record.state == State::gone)
    standing_.erase(record.loan);
  else
    standing_[record.loan] = record;
  return {};
}

Result<void> Loans::take_back_lost() {
  const StandingLoans before = standing_;
  for (const auto& [number, loan] : before) {
    if (doors_.processes.identity(loan.pid) == loan.owner) continue;
    const Result<void> gone = destroy(loan);
    if (!gone && gone.error().code != ErrorCode::in_use) return gone;
    if (!gone) left_.push_back(gone.error().message);
    if (!gone) continue;
    LoanRecord end = loan;
    end.state = State::gone;
    TRY(write(end));
  }
  return {};
}

Result<void> Loans::destroy(const LoanRecord& loan) {
  const device::NodeState node = TRY(device::read_node(doors_.driver));
  const GpuState* const gpu = node.find(loan.gpu);
  if (gpu == nullptr) return {};  // and its instances with it
  if (gpu->lost)
    return failed({ErrorCode::lost, fmt::format("GPU {} fell off the bus", gpu->index), ""});
  const Instance* const instance = instance_of(*gpu, loan);
  if (instance == nullptr) return {};
  if (instance->busy()) {
    return failed(
        {ErrorCode::in_use,
         fmt::format("the borrowed instance {} at {} of GPU {} is used by {}", instance->profile,
                     instance->start, gpu->index, text_of(instance->holders.front())),
         ""});
  }
  const auto not_there = [](const Result<void>& done) {
    return !done && done.error().code == ErrorCode::not_found;
  };
  for (const device::ComputeInstance& compute : instance->compute) {
    const auto gone = doors_.driver.destroy_compute(gpu->index, instance->gi_id, compute.ci_id);
    if (!gone && !not_there(gone)) return gone;
  }
  const auto gone = doors_.driver.destroy_instance(gpu->index, instance->gi_id);
  return not_there(gone) ? Result<void>{} : gone;
}

Result<void> Loans::destroy_patiently(const LoanRecord& loan) {
  const std::int64_t give_up = doors_.clock.now_ns() + kPatience;
  for (;;) {
    const Result<void> gone = destroy(loan);
    const bool patient = !gone && gone.error().code == ErrorCode::in_use;
    if (!patient || doors_.clock.now_ns() >= give_up) return gone;
    doors_.clock.sleep_ns(kRetry);
  }
}

Result<std::vector<lease::Board>> Loans::boards(const std::vector<int>& gpus) {
  std::vector<lease::Board> boards;
  for (const int gpu : gpus) {
    GpuState state = TRY(doors_.driver.read(gpu));
    std::vector<ProfileInfo> offered = TRY(doors_.driver.profiles(gpu));
    lease::Board& board = boards.emplace_back();
    board.model = lease::model_of(state, offered, nullptr);
    board.gpu = std::move(state);
    board.profiles = std::move(offered);
  }
  return boards;
}

Result<std::optional<Loan>> Loans::make_somewhere(const std::vector<lease::Board>& boards,
                                                  const std::string& profile) {
  for (const lease::Spot& spot : lease::best_spots(boards, profile)) {
    const lease::Board& board = boards[spot.board];
    const auto info = std::ranges::find(board.profiles, profile, &ProfileInfo::name);
    if (info == board.profiles.end()) continue;
    Result<std::optional<Loan>> loan = make_at(board.gpu.index, board.gpu.uuid, *info, spot.start);
    if (!loan || *loan) return loan;
  }
  return std::optional<Loan>();
}

Result<Loan> Loans::make(const std::vector<int>& gpus, const std::string& profile) {
  return make(gpus, std::vector<std::string>{profile});
}

Result<Loan> Loans::make(const std::vector<int>& gpus, const std::vector<std::string>& profiles) {
  const auto found = TRY(boards(gpus));
  for (const std::string& profile : profiles) {
    std::optional<Loan> loan = TRY(make_somewhere(found, profile));
    if (loan) return *std::move(loan);
  }
  std::size_t there = 0;
  for (const lease::Board& board : found) there += board.gpu.instances.size();
  const std::string where = gpus.size() == 1 ? fmt::format("GPU {} has", gpus.front())
                                             : fmt::format("{} GPUs have", gpus.size());
  return failed({ErrorCode::no_room,
                 fmt::format("{} no room for {} beside the {} instances that are there", where,
                             profiles.empty() ? "it" : profiles.front(), there),
                 ""});
}

Result<Loan> Loans::make(int gpu, const std::vector<ProfileInfo>& profiles) {
  std::vector<std::string> names;
  for (const ProfileInfo& profile : profiles) names.push_back(profile.name);
  return make({gpu}, names);
}

// Nothing where there is no room.
Result<std::optional<Loan>> Loans::make_at(int gpu, const std::string& gpu_uuid,
                                           const ProfileInfo& profile, int start) {
  LoanRecord record{.loan = last_ + 1,
                    .state = State::intended,
                    .pid = owner_,
                    .owner = doors_.processes.identity(owner_),
                    .gpu = gpu_uuid,
                    .profile_id = profile.profile_id,
                    .start = start,
                    .device = {}};
  TRY(write(record));
  ++last_;
  const auto strike = [&] {
    record.state = State::gone;
    return write(record);
  };
  const Result<int> created =
      doors_.driver.create_instance(gpu, {.nvml_enum = profile.nvml_enum, .start = start});
  if (!created) {
    const Result<void> struck = strike();
    if (created.error().code != ErrorCode::no_room) return failed(created.error());
    if (!struck) return failed(struck.error());
    return std::optional<Loan>();
  }
  const auto compute = doors_.driver.create_compute(gpu, *created);
  if (!compute) {
    // The loan stands if even this fails: whoever opens the log next tries again.
    if (destroy_patiently(record)) static_cast<void>(strike());
    return failed(compute.error());
  }
  record.state = State::made;
  record.device = compute->uuid;
  if (auto written = write(record); !written) {
    static_cast<void>(destroy(record));
    return failed(written.error());
  }
  return std::optional(
      Loan{.device = compute->uuid, .profile = profile.name, .gpcs = profile.gpcs});
}

Result<void> Loans::give_back(const std::string& device) {
  const auto found = std::ranges::find_if(standing_, [&](const auto& entry) {
    return entry.second.state == State::made && entry.second.device == device;
  });
  if (found == standing_.end()) return {};
  LoanRecord loan = found->second;
  TRY(destroy_patiently(loan));
  loan.state = State::gone;
  return write(loan);
}

}  // namespace partita::exec
