#include "remote/gpu_part_maker.h"

#include <fmt/format.h>

#include <algorithm>

#include "node/loan_desk.h"

namespace partita::cli {
namespace {

using device::ProfileInfo;

constexpr std::int64_t kPatience = 5'000'000'000, kRetry = 20'000'000;

class GpuPartMaker final : public remote::server::PartMaker {
 public:
  GpuPartMaker(Context& context, OpenDriver opened, std::vector<int> gpus)
      : context_(context), opened_(std::move(opened)), gpus_(std::move(gpus)) {}

  Result<void> look() {
    for (const int gpu : gpus_) {
      const device::GpuState state = TRY(opened_.driver->read(gpu));
      if (!state.mig_enabled) {
        return failed({ErrorCode::not_supported,
                       fmt::format("MIG is off on GPU {}: no instances can be made; `--shape gpu` "
                                   "lends the whole GPU",
                                   gpu),
                       "--gpu"});
      }
      std::vector<ProfileInfo> profiles = TRY(opened_.driver->profiles(gpu));
      std::erase_if(profiles, [](const ProfileInfo& one) { return !exec::is_plain(one.name); });
      profiles_.push_back(std::move(profiles));
    }
    const auto desk = desk_in_time();  // takes back what a killed server left
    if (!desk) return failed(desk.error());
    for (const std::string& left : (*desk)->loans().left())
      complain(context_, left + ", which an ended command had made");
    return {};
  }

  std::vector<std::string> shapes() override {
    std::vector<ProfileInfo> all;
    for (const auto& profiles : profiles_) all.insert(all.end(), profiles.begin(), profiles.end());
    std::ranges::stable_sort(all, [](const ProfileInfo& a, const ProfileInfo& b) {
      return std::pair(a.gpcs, a.size) < std::pair(b.gpcs, b.size);
    });
    std::vector<std::string> names;
    for (const ProfileInfo& profile : all)
      if (std::ranges::find(names, profile.name) == names.end()) names.push_back(profile.name);
    return names;
  }

  Result<std::string> make(const std::string& shape) override {
    const auto desk = TRY(desk_in_time());
    static_cast<void>(pay_back(desk->loans()));
    const Result<exec::Loan> loan = desk->loans().make(gpus_, shape);
    return loan ? Result<std::string>(loan->device) : failed(loan.error());
  }

  Result<void> unmake(const std::string& name) override {
    owed_.push_back(name);
    const auto desk = desk_in_time();
    return desk ? pay_back((*desk)->loans()) : failed(desk.error());
  }

 private:
  // What could not be given back yet, too.
  Result<void> pay_back(exec::Loans& loans) {
    Result<void> all;
    std::erase_if(owed_, [&](const std::string& device) {
      const Result<void> done = loans.give_back(device);
      if (!done) all = done;
      return done.has_value();
    });
    return all;
  }

  // Others have the node for a moment, too.
  Result<std::unique_ptr<LoanDesk>> desk_in_time() {
    const std::int64_t give_up = context_.clock.now_ns() + kPatience;
    for (;;) {
      auto desk = LoanDesk::open(context_, opened_);
      if (desk || desk.error().code != ErrorCode::in_use || context_.clock.now_ns() >= give_up)
        return desk;
      context_.clock.sleep_ns(kRetry);
    }
  }

  Context& context_;
  OpenDriver opened_;
  std::vector<int> gpus_;
  std::vector<std::string> owed_;                   // devices that are to go
  std::vector<std::vector<ProfileInfo>> profiles_;  // per GPU, the plain ones
};

}  // namespace

Result<std::unique_ptr<remote::server::PartMaker>> gpu_part_maker(Context& context,
                                                                  const DeviceFlags& device,
                                                                  const std::vector<int>& gpus) {
  OpenDriver opened = TRY(open_driver(context, device));
  auto maker = std::make_unique<GpuPartMaker>(context, std::move(opened), gpus);
  TRY(maker->look());
  return std::unique_ptr<remote::server::PartMaker>(std::move(maker));
}

}  // namespace partita::cli
