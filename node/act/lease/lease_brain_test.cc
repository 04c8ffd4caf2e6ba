// The brain of leases by hand: the next step on a node that is as written here.
#include "act/lease/lease_brain.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/append.h"
#include "base/index.h"

namespace partita::lease {
namespace {

using device::GpuState;
using device::Instance;
using testing::HasSubstr;
using State = LeaseRecord::State;

const hw::GpuModel& a100() { return *hw::builtin_catalogue().find("A100-80GB"); }

device::ProfileInfo offer(const std::string& name, const std::string& called = {}) {
  const hw::MigProfile& profile = a100().profiles[at(a100().profile_index(name))];
  return {.nvml_enum = profile.nvml_enum,
          .profile_id = profile.profile_id,
          .name = called.empty() ? name : called,
          .gpcs = profile.gpcs,
          .size = profile.size,
          .memory = {},
          .max_instances = profile.max_instances,
          .starts = profile.starts};
}

Instance instance_at(const std::string& profile, int start, int gi_id,
                     const std::string& uuid = {}) {
  const hw::MigProfile& is = a100().profiles[at(a100().profile_index(profile))];
  Instance one{{profile, start}, is.profile_id, is.gpcs, is.size, gi_id, {}, {}};
  if (!uuid.empty()) one.compute = {{.ci_id = 5, .gpcs = is.gpcs, .uuid = uuid}};
  return one;
}

std::string words(const plan::Reason& reason) {
  return fmt::format("{}: {}: {}", reason.constraint, reason.subject, reason.detail);
}

std::string words(const Step& step) {
  static const char* const states[] = {"intended", "made", "returning", "gone"};
  if (const auto* note = std::get_if<Note>(&step))
    return fmt::format("note {} {}{}{}", note->record.lease,
                       states[static_cast<int>(note->record.state)],
                       note->record.device.empty() ? "" : " ", note->record.device);
  if (const auto* one = std::get_if<Create>(&step))
    return fmt::format("create {} gpu {} {}@{}", one->lease, one->gpu, one->placement.nvml_enum,
                       one->placement.start);
  if (const auto* one = std::get_if<CreateCompute>(&step))
    return fmt::format("compute {} gpu {} gi {}", one->lease, one->gpu, one->gi_id);
  if (const auto* one = std::get_if<DestroyCompute>(&step))
    return fmt::format("no compute {} gpu {} gi {} ci {}", one->lease, one->gpu, one->gi_id,
                       one->ci_id);
  if (const auto* one = std::get_if<DestroyInstance>(&step))
    return fmt::format("destroy {} gpu {} gi {}", one->lease, one->gpu, one->gi_id);
  if (const auto* one = std::get_if<Granted>(&step))
    return fmt::format("granted {}", joined(one->leases, ","));
  if (const auto* no = std::get_if<Refused>(&step)) return "refused " + words(no->reason);
  return "error " + to_string(std::get<Error>(step));
}

// Two A100: index 3 and 4, "GPU-0" and "GPU-1".
struct LeaseBrain : testing::Test {
  LeaseBrain() {
    for (int g = 0; g < 2; ++g) {
      GpuState gpu{.index = 3 + g,
                   .uuid = fmt::format("GPU-{}", g),
                   .name = "NVIDIA A100",
                   .model = "A100-80GB",
                   .pci_device_id = {},
                   .memory = {},
                   .mig_capable = true,
                   .mig_enabled = true,
                   .instances = {},
                   .holders = {}};
      auto model = model_of(gpu, {}, &hw::builtin_catalogue());
      known.boards.push_back({std::move(gpu), std::move(model), {}});
      for (const char* name : {"1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"})
        known.boards.back().profiles.push_back(offer(name));
    }
    known.now_ms = 1000;
  }
  GpuState& gpu(int g) { return known.boards[at(g)].gpu; }
  LeaseRecord& stands(long number, const std::string& owner, State state,
                      const std::string& device = {}) {
    known.standing.last = std::max(known.standing.last, number);
    return known.standing.leases[number] = {{"2g.20gb", 2}, number,  state,
                                            owner,          "GPU-0", offer("2g.20gb").profile_id,
                                            device,         5};
  }
  // A lease 1 of "a" that is in order.
  LeaseRecord& made() {
    gpu(0).instances = {instance_at("2g.20gb", 2, 9, "MIG-a")};
    return stands(1, "a", State::made, "MIG-a");
  }
  std::string next(const Ask& ask) const { return words(next_step(known, ask)); }
  Take take(const std::string& owner = "a", const std::string& profile = "2g.20gb") const {
    return {.owner = owner, .profile = profile};
  }

  Known known;
};

// ---- leases are brought in order

TEST_F(LeaseBrain, ALeaseOnAGpuThatIsNotThereIsGone) {
  stands(1, "a", State::made, "MIG-a").gpu = "GPU-9";
  EXPECT_EQ(next(Sweep{}), "note 1 gone MIG-a");
}

TEST_F(LeaseBrain, OfALostGpuNothingIsKnown) {
  stands(1, "a", State::made, "MIG-a");
  gpu(0).lost = true;
  EXPECT_EQ(next(Sweep{}), "granted ");
  EXPECT_EQ(next(take()), "error owner: the instance of 'a' cannot be reached now");
  EXPECT_EQ(std::get<Error>(next_step(known, take())).code, ErrorCode::lost);
  EXPECT_EQ(next(Return{"a"}), "error owner: 2g.20gb at 2 of GPU 3 cannot be destroyed now");
  EXPECT_EQ(std::get<Error>(next_step(known, Return{"a"})).code, ErrorCode::lost);
}

TEST_F(LeaseBrain, OneThatIsStuckIsLeft) {
  stands(1, "a", State::made, "MIG-a");
  known.stuck = {1};
  EXPECT_EQ(next(Sweep{}), "granted ");
  EXPECT_EQ(std::get<Error>(next_step(known, take())).code, ErrorCode::environment);
  EXPECT_EQ(std::get<Error>(next_step(known, Return{"a"})).code, ErrorCode::in_use);
}

TEST_F(LeaseBrain, AnAnnouncedOneIsMadeForWhomItWasAnnounced) {
  stands(1, "a", State::intended);
  EXPECT_EQ(next(take()), fmt::format("create 1 gpu 3 {}@2", offer("2g.20gb").nvml_enum));
  EXPECT_EQ(next(take("b")), "note 1 gone");
  EXPECT_EQ(next(Sweep{}), "note 1 gone");
  EXPECT_EQ(next(take("a", "1g.10gb")), "note 1 gone") << "another shape is asked for";
  EXPECT_EQ(next(take("a", "9g")), "note 1 gone");
  Take here = take();
  here.gpu = 3;
  here.exact = true;
  here.start = 2;
  EXPECT_THAT(next(here), HasSubstr("create 1"));
  here.start = 4;
  EXPECT_EQ(next(here), "note 1 gone");
  here.exact = false;
  EXPECT_THAT(next(here), HasSubstr("create 1")) << "it may be elsewhere";
  here.gpu = 4;
  EXPECT_EQ(next(here), "note 1 gone");
}

TEST_F(LeaseBrain, AnAnnouncedOneWithoutRoomIsStruckOut) {
  stands(1, "a", State::intended);
  known.taken = {{"GPU-0", 2}};
  EXPECT_EQ(next(take()), "note 1 gone");
  known.taken = {{"GPU-0", 3}, {"GPU-1", 2}};
  EXPECT_THAT(next(take()), HasSubstr("create 1"));
  stands(1, "a", State::intended).profile = "9g";
  EXPECT_EQ(next(take()), "note 1 gone");
}

TEST_F(LeaseBrain, AnAnnouncedOneThatIsThereIsMadeToItsEndWhoeverAsks) {
  stands(1, "a", State::intended);
  gpu(0).instances = {instance_at("2g.20gb", 2, 9)};
  EXPECT_EQ(next(Sweep{}), "compute 1 gpu 3 gi 9");
  gpu(0).instances = {instance_at("2g.20gb", 2, 9, "MIG-b")};
  EXPECT_EQ(next(Sweep{}), "note 1 made MIG-b");
  gpu(0).instances[0].holders = {{77, "guest"}};
  EXPECT_EQ(next(Sweep{}), "note 1 gone") << "one that is used is not ours";
  EXPECT_EQ(next(Return{"a"}), "note 1 returning") << "and is not wanted any more";
  EXPECT_EQ(next(Return{"b"}), "note 1 gone");
}

TEST_F(LeaseBrain, AMadeOneThatIsGoneOrHalfIsEnded) {
  made();
  EXPECT_EQ(next(Sweep{}), "granted ");
  gpu(0).instances[0].compute.clear();
  EXPECT_EQ(next(Sweep{}), "note 1 returning MIG-a");
  gpu(0).instances.clear();
  EXPECT_EQ(next(Sweep{}), "note 1 gone MIG-a");
}

TEST_F(LeaseBrain, AnExpiredOneIsReturnedUnlessItIsUsedOrRenewed) {
  LeaseRecord& lease = made();
  lease.terms.until_ms = 1001;
  EXPECT_EQ(next(Sweep{}), "granted ");
  lease.terms.until_ms = 1000;
  EXPECT_EQ(next(Sweep{}), "note 1 returning MIG-a");
  EXPECT_EQ(next(take()), "note 1 returning MIG-a") << "its terms are over, and no new ones said";
  Take renewed = take();
  renewed.terms = Terms{.until_ms = 2000};
  EXPECT_EQ(next(renewed), "note 1 made MIG-a");
  EXPECT_EQ(std::get<Note>(next_step(known, renewed)).record.terms.until_ms, 2000);
  renewed.profile = "1g.10gb";
  EXPECT_EQ(next(renewed), "note 1 returning MIG-a");
  gpu(0).instances[0].holders = {{77, "guest"}};
  EXPECT_EQ(next(Sweep{}), "granted ");
  gpu(0).instances[0].holders.clear();
  lease.terms = {.pid = 5, .identity = "5 1"};
  EXPECT_EQ(next(Sweep{}), "granted ");
  known.ended = {2};
  EXPECT_EQ(next(Sweep{}), "granted ");
  known.ended = {1};
  EXPECT_EQ(next(Sweep{}), "note 1 returning MIG-a");
}

TEST_F(LeaseBrain, OneThatIsReturnedIsDestroyedToItsEnd) {
  made().state = State::returning;
  gpu(0).instances[0].compute.push_back({.ci_id = 6, .gpcs = 1, .uuid = "MIG-b"});
  EXPECT_EQ(next(Sweep{}), "no compute 1 gpu 3 gi 9 ci 6");
  gpu(0).instances[0].compute.pop_back();
  EXPECT_EQ(next(Sweep{}), "no compute 1 gpu 3 gi 9 ci 5");
  gpu(0).instances[0].compute.clear();
  EXPECT_EQ(next(Sweep{}), "destroy 1 gpu 3 gi 9");
  gpu(0).instances.clear();
  EXPECT_EQ(next(Sweep{}), "note 1 gone MIG-a");
}

TEST_F(LeaseBrain, OneThatIsUsedBeforeItGoesStays) {
  made().state = State::returning;
  gpu(0).instances[0].holders = {{77, "guest"}};
  EXPECT_EQ(next(Sweep{}), "note 1 made MIG-a");
  stands(1, "a", State::returning);
  EXPECT_EQ(next(Sweep{}), "note 1 gone") << "nobody was told of it";
}

TEST_F(LeaseBrain, TheOldestComesFirst) {
  stands(2, "b", State::made, "MIG-b");
  stands(1, "a", State::made, "MIG-a");
  EXPECT_EQ(next(Sweep{}), "note 1 gone MIG-a");
}

// ---- the instance of a lease

TEST_F(LeaseBrain, TheInstanceIsTheOneOfItsDeviceOrPlace) {
  LeaseRecord lease = stands(1, "a", State::made, "MIG-a");
  gpu(0).instances = {instance_at("1g.10gb", 0, 4, "MIG-x"), instance_at("3g.40gb", 4, 5, "MIG-a")};
  EXPECT_EQ(instance_of(gpu(0), lease)->gi_id, 5) << "wherever it is";
  gpu(0).instances[1] = instance_at("2g.20gb", 2, 6, "MIG-y");
  EXPECT_EQ(instance_of(gpu(0), lease), nullptr) << "another device is at its place";
  gpu(0).instances[1].compute.clear();
  EXPECT_EQ(instance_of(gpu(0), lease)->gi_id, 6);
  gpu(0).instances[1].start = 4;
  EXPECT_EQ(instance_of(gpu(0), lease), nullptr);
  gpu(0).instances[1] = instance_at("2g.20gb", 2, 6);
  gpu(0).instances[1].profile_id = 0;
  EXPECT_EQ(instance_of(gpu(0), lease), nullptr);
  lease.device.clear();
  gpu(0).instances[1] = instance_at("2g.20gb", 2, 6, "MIG-y");
  EXPECT_EQ(instance_of(gpu(0), lease)->gi_id, 6) << "there is no device yet";
}

// ---- somebody takes one

TEST_F(LeaseBrain, WhoHasOneGetsItAgain) {
  made();
  EXPECT_EQ(next(take()), "granted 1");
  Take same = take();
  same.gpu = 3;
  same.start = 2;
  same.exact = true;
  EXPECT_EQ(next(same), "granted 1");
  EXPECT_EQ(next(take("a", "3g.40gb")),
            "refused owner: a: holds 2g.20gb at 2 already, and one lease at a time; for 3g.40gb "
            "beside it ask as 'a/2'");
  EXPECT_THAT(next(take("a", "9g")), HasSubstr("refused owner: a: holds 2g.20gb"));
  same.start = 0;
  EXPECT_THAT(next(same), HasSubstr("for 2g.20gb elsewhere beside it"));
  same.exact = false;
  EXPECT_EQ(next(same), "granted 1");
  same.gpu = 4;
  EXPECT_THAT(next(same), HasSubstr("for 2g.20gb elsewhere beside it"));
}

TEST_F(LeaseBrain, NewTermsReplaceOldOnes) {
  made().terms = {.until_ms = 5000};
  Take again = take();
  EXPECT_EQ(next(again), "granted 1");
  again.terms = Terms{.until_ms = 5000};
  EXPECT_EQ(next(again), "granted 1");
  again.terms = Terms{};
  const Step step = next_step(known, again);
  EXPECT_EQ(words(step), "note 1 made MIG-a");
  EXPECT_EQ(std::get<Note>(step).record.terms, Terms{});
}

TEST_F(LeaseBrain, ANewOneIsAnnouncedWithAllThatIsKnownOfIt) {
  known.standing.last = 7;
  Take what = take("b");
  what.terms = Terms{.until_ms = 9};
  what.gpu = 4;
  what.start = 2;
  const LeaseRecord record = std::get<Note>(next_step(known, what)).record;
  EXPECT_EQ(record, (LeaseRecord{{"2g.20gb", 2},
                                 8,
                                 State::intended,
                                 "b",
                                 "GPU-1",
                                 offer("2g.20gb").profile_id,
                                 {},
                                 1000,
                                 {.until_ms = 9}}));
  EXPECT_EQ(std::get<Note>(next_step(known, take("b"))).record.terms, Terms{});
}

LeaseRecord announced(const Known& known, const Take& what) {
  const Step step = next_step(known, what);
  if (!std::holds_alternative<Note>(step)) {
    ADD_FAILURE() << words(step);
    return {};
  }
  return std::get<Note>(step).record;
}

TEST_F(LeaseBrain, PlacesThatCannotBeAreLeftOut) {
  const LeaseRecord first = announced(known, take("b"));
  known.taken = {{first.gpu, first.start}};
  const LeaseRecord second = announced(known, take("b"));
  EXPECT_NE(std::pair(second.gpu, second.start), std::pair(first.gpu, first.start));
  known.taken.clear();
  known.closed = {{first.gpu, "is the batch's"}};
  EXPECT_NE(announced(known, take("b")).gpu, first.gpu);
  known.closed.clear();
  gpu(first.gpu == "GPU-0" ? 0 : 1).mig_enabled = false;
  EXPECT_NE(announced(known, take("b")).gpu, first.gpu);
  gpu(first.gpu == "GPU-0" ? 0 : 1).mig_enabled = true;
  gpu(first.gpu == "GPU-0" ? 0 : 1).lost = true;
  EXPECT_NE(announced(known, take("b")).gpu, first.gpu);
}

TEST_F(LeaseBrain, TheWantedStartComesFirstAndExactIsItAlone) {
  for (const int start : {0, 2, 4}) {
    Take what = take("b");
    what.start = start;
    EXPECT_EQ(announced(known, what).start, start);
    what.exact = true;
    EXPECT_EQ(announced(known, what).start, start);
    for (int g = 0; g < 2; ++g) known.taken.insert({fmt::format("GPU-{}", g), start});
    EXPECT_THAT(next(what), HasSubstr(fmt::format("no room for 2g.20gb at {}; free are:", start)));
    what.exact = false;
    EXPECT_NE(announced(known, what).start, start);
    known.taken.clear();
  }
}

TEST_F(LeaseBrain, AsManyStandAsMay) {
  for (long number = 1; number <= static_cast<long>(kMaxLeases); ++number) {
    stands(number, fmt::format("o{}", number), State::made, "MIG").gpu = "GPU-0";
  }
  gpu(0).lost = true;
  const Step step = next_step(known, take("x"));
  EXPECT_EQ(words(step), "refused leases: node: as many leases stand as can");
  EXPECT_EQ(std::get<Refused>(step).reason.have, 10'000);
  EXPECT_EQ(std::get<Refused>(step).reason.need, 10'001);
  known.standing.leases.erase(5);
  EXPECT_EQ(next(take("x")), "note 10001 intended");
}

TEST_F(LeaseBrain, WhatNoGpuWillEverGiveIsAnError) {
  Take what = take("b");
  what.gpu = 9;
  EXPECT_EQ(next(what), "error gpu: this node has no GPU 9");
  EXPECT_EQ(std::get<Error>(next_step(known, what)).code, ErrorCode::bad_input);
  EXPECT_EQ(next(take("b", "9g")),
            "error profile: '9g' is none of the shapes that these GPUs offer: 1g.10gb, 2g.20gb, "
            "3g.40gb, 4g.40gb, 7g.80gb");
  what = take("b");
  what.exact = true;
  what.start = 1;
  EXPECT_EQ(next(what), "error start: 2g.20gb begins at one of 0, 2, 4");
  // A board that is asked for and offers less.
  known.boards[1].profiles = {offer("7g.80gb")};
  what = take("b");
  what.gpu = 4;
  EXPECT_EQ(next(what),
            "error profile: '2g.20gb' is none of the shapes that these GPUs offer: 7g.80gb");
  // None that could say what it offers.
  gpu(0).mig_enabled = false;
  gpu(1).lost = true;
  EXPECT_EQ(next(take("b", "9g")),
            "refused room: node: no room for 9g; free are: no shapes; GPU 3 has MIG off, GPU 4 "
            "fell off the bus");
}

TEST_F(LeaseBrain, ARefusalSaysWhatIsFreeAndWhatIsClosed) {
  gpu(0).instances = {instance_at("4g.40gb", 0, 1, "MIG-x")};
  known.closed = {{"GPU-1", "is the batch's"}};
  Step step = next_step(known, take("b", "7g.80gb"));
  EXPECT_EQ(words(step),
            "refused room: node: no room for 7g.80gb; free are: 3g.40gb on GPU 3, 2g.20gb on GPU "
            "3, 1g.10gb on GPU 3; GPU 4 is the batch's");
  const Refused no = std::get<Refused>(step);
  EXPECT_EQ(no.reason.have, 0);
  EXPECT_EQ(no.reason.need, 1);
  EXPECT_EQ(no.free, (std::vector<FreeShape>{
                         {3, "3g.40gb", {4}}, {3, "2g.20gb", {4}}, {3, "1g.10gb", {4, 5, 6}}}));
  known.taken = {{"GPU-0", 4}, {"GPU-1", 5}};
  step = next_step(known, take("b", "7g.80gb"));
  EXPECT_EQ(std::get<Refused>(step).free, (std::vector<FreeShape>{{3, "1g.10gb", {5, 6}}}));
  Take here = take("b", "7g.80gb");
  here.gpu = 4;
  EXPECT_EQ(next(here),
            "refused room: gpu 4: no room for 7g.80gb; free are: no shapes; GPU 4 is the batch's");
  gpu(1).mig_capable = gpu(1).mig_enabled = false;
  EXPECT_THAT(next(here), HasSubstr("; GPU 4 cannot be cut into instances"));
}

// ---- somebody hands one over

TEST_F(LeaseBrain, OneIsHandedOverAsItIs) {
  made().terms = {.until_ms = 5000};
  const Step step = next_step(known, HandOver{"a", "b", "", {.until_ms = 7000}});
  const LeaseRecord record = std::get<Note>(step).record;
  EXPECT_EQ(record.lease, 1);
  EXPECT_EQ(record.owner, "b");
  EXPECT_EQ(record.terms.until_ms, 7000);
  EXPECT_EQ(record.device, "MIG-a");
  EXPECT_EQ(next(HandOver{"a", "a", "", {}}), "granted 1");
  EXPECT_EQ(next(HandOver{"x", "a", "", {}}), "granted 1") << "it was handed over before";
  EXPECT_EQ(next(HandOver{"x", "y", "", {}}),
            "refused lease: x: holds nothing that could be handed over");
  EXPECT_THAT(next(HandOver{"a", "b", "2g.20gb", {}}), HasSubstr("note 1 made"));
  EXPECT_THAT(next(HandOver{"a", "b", "3g.40gb", {}}),
              HasSubstr("refused owner: a: holds 2g.20gb"));
  known.boards[0].profiles.push_back(offer("2g.20gb", "2c.2g.20gb"));
  EXPECT_THAT(next(HandOver{"a", "b", "2c.2g.20gb", {}}), HasSubstr("note 1 made"))
      << "called as the driver calls it";
  EXPECT_THAT(next(HandOver{"a", "b", "9g", {}}), HasSubstr("refused owner"));
  known.standing.leases[1].profile = a100().profiles[0].name;
  known.boards[0].profiles.push_back(offer(a100().profiles[0].name, "first"));
  EXPECT_THAT(next(HandOver{"a", "b", "first", {}}), HasSubstr("note 1 made"))
      << "the first of the model, too";
  known.standing.leases[1].profile = "2g.20gb";
  gpu(0).instances.push_back(instance_at("1g.10gb", 6, 3, "MIG-c"));
  LeaseRecord& other = stands(2, "b", State::made, "MIG-c");
  other.profile = "1g.10gb";
  EXPECT_EQ(next(HandOver{"a", "b", "", {}}),
            "refused owner: b: holds 1g.10gb already, and 'a' still holds 2g.20gb");
}

// ---- somebody gives one back

TEST_F(LeaseBrain, OneIsGivenBackUnlessItIsUsed) {
  made();
  EXPECT_EQ(next(Return{"a"}), "note 1 returning MIG-a");
  EXPECT_EQ(next(Return{"b"}), "granted ");
  gpu(0).instances[0].holders = {{77, "guest"}};
  EXPECT_EQ(next(Return{"a"}), "error owner: 2g.20gb at 2 of GPU 3 is used by pid 77 (guest)");
  EXPECT_EQ(std::get<Error>(next_step(known, Return{"a"})).code, ErrorCode::in_use);
}

// ---- boards

TEST_F(LeaseBrain, AnUnknownBoardIsWhatItsProfilesSay) {
  GpuState unknown;
  unknown.name = "GB999";
  const auto offered = std::vector{offer("1g.10gb", "1g.x"), offer("3g.40gb", "3g.x")};
  for (const hw::Catalogue* catalogue :
       {static_cast<const hw::Catalogue*>(nullptr), &hw::builtin_catalogue()}) {
    const auto model = model_of(unknown, offered, catalogue);
    EXPECT_EQ(model->name, "GB999");
    ASSERT_EQ(model->profiles.size(), 2U);
    EXPECT_EQ(model->compute_slices, 3);
    EXPECT_EQ(model->memory_slices, 8);
    const hw::MigProfile& three = model->profiles[1];
    EXPECT_EQ(three.name, "3g.x");
    EXPECT_EQ(three.nvml_enum, offered[1].nvml_enum);
    EXPECT_EQ(three.profile_id, offered[1].profile_id);
    EXPECT_EQ(three.gpcs, 3);
    EXPECT_EQ(three.size, 4);
    EXPECT_EQ(three.starts, (std::vector<int>{0, 4}));
    EXPECT_EQ(three.max_instances, offered[1].max_instances);
  }
  EXPECT_EQ(known.boards[0].model.get(), &a100());
  EXPECT_EQ(model_of(gpu(0), offered, nullptr)->name, "NVIDIA A100") << "without a catalogue";
}

TEST_F(LeaseBrain, AProfileIsFoundByEitherName) {
  Board& board = known.boards[0];
  const int two = a100().profile_index("2g.20gb");
  EXPECT_EQ(profile_of(board, "2g.20gb"), two);
  EXPECT_EQ(profile_of(board, "1g.20gb"), -1) << "the board does not offer it";
  EXPECT_EQ(profile_of(board, "2c"), -1);
  board.profiles.push_back(offer("2g.20gb", "2c"));
  EXPECT_EQ(profile_of(board, "2c"), two);
  board.profiles.back().nvml_enum = 99;
  EXPECT_EQ(profile_of(board, "2c"), -1) << "the model does not know it";
  board.profiles.clear();
  EXPECT_EQ(profile_of(board, "1g.20gb"), a100().profile_index("1g.20gb")) << "not asked yet";
}

TEST_F(LeaseBrain, AShapeIsFoundByItsSlices) {
  const Board& board = known.boards[0];
  for (const char* const name : {"1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"})
    EXPECT_EQ(profile_of(board, std::string(name, 2)), profile_of(board, name)) << name;
  for (const char* const name : {"5g", "0g", "g", "3", "3G", "03g", "3g.", "33g"})
    EXPECT_EQ(profile_of(board, name), -1) << name;
}

TEST_F(LeaseBrain, PlacesAreOfBoardsThatCanBeCut) {
  const auto spots = best_spots(known.boards, "4g.40gb");
  ASSERT_EQ(spots.size(), 2U);
  EXPECT_EQ(spots[0].board + spots[1].board, 1U);
  EXPECT_EQ(spots[0].profile, a100().profile_index("4g.40gb"));
  EXPECT_EQ(spots[0].start, 0);
  gpu(0).mig_enabled = false;
  ASSERT_EQ(best_spots(known.boards, "4g.40gb").size(), 1U);
  EXPECT_EQ(best_spots(known.boards, "4g.40gb")[0].board, 1U);
  gpu(0).mig_enabled = true;
  gpu(0).lost = true;
  EXPECT_EQ(best_spots(known.boards, "4g.40gb").size(), 1U);
  gpu(0).lost = false;
  // What is there takes room, also of a shape that the model does not know.
  gpu(0).instances = {instance_at("1g.10gb", 3, 1, "MIG-x")};
  EXPECT_EQ(best_spots(known.boards, "4g.40gb").size(), 1U);
  gpu(0).instances[0].profile = "strange";
  EXPECT_EQ(best_spots(known.boards, "4g.40gb").size(), 1U);
  gpu(0).instances[0].start = 4;
  EXPECT_EQ(best_spots(known.boards, "4g.40gb").size(), 2U);
  gpu(0).instances[0].gpcs = 4;
  EXPECT_EQ(best_spots(known.boards, "4g.40gb").size(), 1U) << "of the seven slices";
}

TEST_F(LeaseBrain, FreeShapesAreThePlainOnesTheLargestFirst) {
  EXPECT_EQ(free_shapes(known.boards[0]).front(), (FreeShape{3, "7g.80gb", {0}}));
  gpu(0).instances = {instance_at("4g.40gb", 0, 1), instance_at("2g.20gb", 4, 2)};
  EXPECT_EQ(free_shapes(known.boards[0]), (std::vector<FreeShape>{{3, "1g.10gb", {6}}}));
}

}  // namespace
}  // namespace partita::lease
