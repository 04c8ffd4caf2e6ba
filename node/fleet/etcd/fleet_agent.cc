#include "fleet/etcd/fleet_agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>

#include "fleet/brain/counting.h"
#include "fleet/brain/documents.h"
#include "fleet/brain/member.h"
#include "fleet/brain/peers.h"
#include "fleet/brain/status.h"

namespace partita::fleet {
namespace {

constexpr std::size_t kPartsAtOnce = 60;
constexpr std::size_t kBytesAtOnce = 1'000'000;
constexpr std::size_t kChangesTold = 6;  // of a decision, in the history
constexpr std::size_t kTrimmedAtOnce = 100;
constexpr double kRateMoved = 0.1;

// For comparisons within this process.
std::uint64_t hash_of(std::string_view text) { return std::hash<std::string_view>{}(text); }

bool moved(double before, double now) { return !(std::abs(before - now) <= kRateMoved * before); }

bool moved(const Rates& before, const Rates& now) {
  return !std::ranges::equal(before, now, [](const auto& a, const auto& b) {
    return a.first == b.first && !moved(a.second, b.second);
  });
}

std::string told(const std::vector<std::string>& changes) {
  std::string text;
  for (std::size_t i = 0; i < changes.size() && i < kChangesTold; ++i)
    text += (i == 0 ? "" : "; ") + changes[i];
  if (changes.size() > kChangesTold)
    text += fmt::format("; and {} more", changes.size() - kChangesTold);
  return text;
}

// Gateways of all nodes hear from here where services are.
std::vector<Change> other_peers(const FleetView& view, const Keys& keys, ServicesRead& services) {
  const bool has_gateways = std::ranges::any_of(view.nodes, [](const auto& one) {
    return !(one.second.gateway.empty() && one.second.grpc.empty());
  });
  if (!says_what_is_wanted(view) || (!has_gateways && view.peers.empty())) return {};
  auto status = status_of(view, "", &services);
  if (!status) return {};
  std::vector<Change> changes;
  const NodePeers next = node_peers(*std::move(status), view.peers);
  for (const auto& [node, peers] : next)
    if (const auto known = view.peers.find(node);
        known == view.peers.end() || known->second != peers)
      changes.push_back({keys.peers(node), actuate::peers_json(peers), 0});
  for (const auto& [node, peers] : view.peers)
    if (!next.contains(node)) changes.push_back({keys.peers(node), {}, 0});
  return changes;
}

// Whether who writes this node's record, under a lease that is alive, is another agent.
bool is_anothers(const NodeRecord& there, const NodeRecord& own) {
  return !there.agent.empty() && !own.agent.empty() && there.agent != own.agent;
}

// Who reads the store cannot know what a leader stays at: it says what it plans for, and what is
// missing.
RateRecord needs_of(const Decision& decision) {
  RateRecord said;
  for (const ServiceOutlook& one : decision.services) {
    said.rates.push_back({one.name, one.need_rps});
    if (!one.why.empty()) said.missing.push_back({one.name, one.why});
  }
  said.notes = decision.notes;
  return said;
}

bool says(const FleetView& view, const RateRecord& said) {
  return view.needs == rates_of(said.rates) && view.notes == said.notes &&
         std::ranges::equal(view.whys, said.missing, [](const auto& a, const ServiceWhy& b) {
           return a.first == b.service && a.second == b.why;
         });
}

// Those that may be written without, or with, the yes of a person.
std::vector<Part> agreed(const Wanted& wanted, const Decision& decision) {
  if (wanted.approval == Approval::automatic || wanted.approved == decision.digest)
    return decision.parts;
  std::vector<Part> urgent;
  for (std::size_t i = 0; i < decision.parts.size(); ++i)
    if (decision.urgent[i]) urgent.push_back(decision.parts[i]);
  return urgent;
}

// What stays as it is though something else is wanted, a sentence each.
std::vector<std::string> notes_of(const Decision& decision) {
  std::vector<std::string> notes = decision.notes;
  for (const ServiceOutlook& one : decision.services)
    if (one.unmet) notes.push_back(one.name + ": " + one.why);
  return notes;
}

}  // namespace

// What is older than a while.
std::string StoresPast::forget(Store& store, std::int64_t now_ms, long revision) {
  if (known_ > revision) known_ = 0;  // another store, which has lost everything
  if (known_ != 0 && now_ms - known_ms_ < kCompactMs) return {};
  const auto done = known_ == 0 ? Result<void>() : store.compact(known_);
  known_ = revision;
  known_ms_ = now_ms;
  const std::string why =
      done ? "" : "the store's past is not compacted: " + to_string(done.error());
  return std::exchange(said_, why) == why ? "" : why;
}

void LateTexts::read(FleetView& view, const Keys& keys, std::string_view prefix) {
  for (auto one = texts_.lower_bound(prefix); one != texts_.end() && one->first.starts_with(prefix);
       one = texts_.erase(one))
    view.hear(keys, one->first, one->second.value, one->second.version);
}

void LostRates::heard(FleetView& view, const std::string& node, bool gone, std::int64_t now_ms) {
  const auto last = view.rates.find(node);
  view.lost_rates.erase(node);
  if (!gone || last == view.rates.end()) return;
  view.lost_rates[node] = last->second;
  since_ms_[node] = now_ms;
}

bool LostRates::forget(FleetView& view, std::int64_t now_ms) {
  bool some = false;
  std::erase_if(since_ms_, [&](const auto& one) {
    if (now_ms - one.second < kLostRatesMs) return false;
    some = view.lost_rates.erase(one.first) > 0 || some;
    return true;
  });
  return some;
}

Candidacy::Candidacy(const FleetGround& ground) {
  for (const plan::FleetEntry& entry : ground.profiles) plans_.push_back(entry.gpu.name);
  std::ranges::sort(plans_);
}

void Candidacy::heard(const std::optional<LeaderRecord>& leader) {
  if (leader && !leader->gpus.empty()) gpus_ = leader->gpus;
}

bool Candidacy::stands(bool vacant, std::int64_t now_ms) {
  if (!vacant) {
    vacant_ms_.reset();
    return false;
  }
  if (std::ranges::includes(plans_, gpus_)) return true;
  if (!vacant_ms_) vacant_ms_ = now_ms;
  if (now_ms - *vacant_ms_ < kStandBackMs) return false;
  leads_on_ms_ = now_ms + kLeadsOnMs;
  return true;
}

std::string Candidacy::better(const FleetView& view, const std::string& self,
                              std::int64_t now_ms) const {
  if (std::ranges::includes(plans_, gpus_) || now_ms < leads_on_ms_) return {};
  for (const auto& [name, node] : view.nodes)
    if (name != self && !node.plans.empty() && std::ranges::includes(node.plans, gpus_))
      return name;
  return {};
}

FleetAgent::FleetAgent(FleetAgentSettings settings, Store& store, FleetGround ground)
    : settings_(std::move(settings)),
      keys_(settings_.fleet),
      store_(store),
      leader_(ground),
      candidacy_(ground) {
  view_.texts = std::move(ground.texts);
}

Turn FleetAgent::turn(std::int64_t now_ms, std::int64_t wall_ms, const NodeNow& node) {
  turn_ = {};
  now_ms_ = now_ms;
  wall_ms_ = wall_ms;
  turn_.budget = node.budget;
  carries_ = !node.record.carries.empty();
  if (const std::int64_t unseen = now_ms - node.seen_ms.value_or(now_ms);
      unseen > (node.busy ? kUnseenInChangeMs : kUnseenMs)) {
    lose({ErrorCode::environment,
          fmt::format("its GPUs have not answered for {} s: its lease ends", unseen / 1000), ""});
    turn_.unseen = true;
    turn_.heard_ms = kept_ms_;
    return std::exchange(turn_, {});
  }
  changed_ = lost_rates_.forget(view_, now_ms_) || changed_;
  const auto all = [&]() -> Result<void> {
    if (auto done = stay(); !done) return done;
    if (auto done = hear(node.record.taken); !done) return done;
    turn_.budget = budget_of(view_, settings_.node, node.budget);
    if (auto done = register_node(node); !done || !registered_) return done;
    if (auto done = stand(); !done) return done;
    if (auto done = hear(node.record.taken); !done) return done;  // all, where it leads now
    return lead();
  };
  const auto done = all();
  turn_.heard_ms = kept_ms_;
  if (!done) {
    lose(done.error());
    return std::exchange(turn_, {});
  }
  if (node.busy || !registered_) return std::exchange(turn_, {});
  if (const auto own = view_.parts.find(settings_.node);
      own != view_.parts.end() && own->second.revision > node.record.taken)
    for (const std::string& of : {keys_.node(""), keys_.part("")})
      late_.read(view_, keys_, of);  // whom it waits for
  const MemberWord word = look_at_part(view_, settings_.node, node.record.taken);
  turn_.waits = word.waits;
  if (word.take != nullptr && may_go(*word.take, node.record)) turn_.take = *word.take;
  return std::exchange(turn_, {});
}

bool FleetAgent::may_go(const Part& part, const NodeRecord& is) {
  const Rates next = rates_of(part);
  const bool less = std::ranges::any_of(is.carries, [&](const Carried& one) {
    const auto rate = next.find(one.service);
    return rate == next.end() || rate->second < one.rate_rps;
  });
  if (going_ != part.revision) going_ = part.revision, going_ms_ = now_ms_;
  return !less || now_ms_ - going_ms_ >= kHandOverMs;
}

void FleetAgent::leave() {
  const auto own = view_.parts.find(settings_.node);
  const bool stays = carries_ || (own != view_.parts.end() && !own->second.services.empty());
  if (lease_ != 0 && !stays) static_cast<void>(store_.revoke(lease_).has_value());
  if (lease_ != 0 && stays && leads())
    static_cast<void>(commit_as_leader({{}, {{keys_.leader(), {}, 0}}}).has_value());
  lease_ = fence_ = 0;
  registered_.reset();
}

// What was under way may have been done or not: everything is read again.
void FleetAgent::lose(const Error& error) {
  turn_.trouble = error;
  watch_.reset();
  fence_ = 0;
  changed_ = power_changed_ = peers_changed_ = true;
  registered_.reset();
}

// ---- the lease, the view

Result<void> FleetAgent::stay() {
  if (lease_ != 0 && now_ms_ - kept_ms_ < kLeaseSeconds * 1000 / 4) return {};
  if (lease_ != 0) {
    const auto kept = store_.keep_alive(lease_);
    if (kept) {
      kept_ms_ = now_ms_;
      return {};
    }
    if (kept.error().code != ErrorCode::not_found) return kept;
    turn_.said.push_back("the fleet had given this node up; it registers anew");
    fence_ = 0;
    registered_.reset();
    watch_.reset();
  }
  lease_ = 0;
  const auto lease = store_.grant(kLeaseSeconds);
  if (!lease) return failed(lease.error());
  lease_ = *lease;
  kept_ms_ = now_ms_;
  return {};
}

// What it hears may be that it needs to hear more.
Result<void> FleetAgent::hear(long taken) {
  bool anew = now_ms_ - read_ms_ >= kReadAnewMs;
  if (watch_ && !anew) {
    auto seen = watch_->take();
    for (SeenChange& one : seen.value_or(std::vector<SeenChange>{}))
      hear_of(one.key, std::move(one.value), one.version);
    anew = !seen;
  }
  for (Follows next; next = follows(taken), !watch_ || anew || next != followed_; anew = false)
    if (auto done = read_anew(std::move(next)); !done) return done;
  return {};
}

FleetAgent::Follows FleetAgent::follows(long taken) {
  if (std::exchange(wants_all_, false)) all_until_ms_ = now_ms_ + kFollowMs;
  if (fence_ != 0 || now_ms_ < all_until_ms_) return {.all = true};
  const auto own = view_.parts.find(settings_.node);
  if (own != view_.parts.end() && own->second.revision > taken &&
      !(own->second.waits_for.empty() && own->second.elsewhere.empty()))
    others_until_ms_ = now_ms_ + kFollowMs;
  if (view_.leader && led_ != view_.leader->node) led_ = view_.leader->node;
  return {.others = now_ms_ < others_until_ms_, .rates_of = led_.empty() ? settings_.node : led_};
}

// In order.
Places FleetAgent::places(const Follows& follows) const {
  if (follows.all) return {keys_.root};
  return {keys_.budgets(),
          keys_.leader(),
          keys_.node(follows.others ? "" : settings_.node),
          keys_.part(follows.others ? "" : settings_.node),
          keys_.peers(""),
          keys_.power(),
          keys_.rates(follows.rates_of),
          keys_.wanted()};
}

Result<void> FleetAgent::read_anew(Follows follows) {
  const Places places = this->places(follows);
  std::vector<std::string> gone;
  std::vector<KeyValue> others;
  long fence = 0;
  const std::string leads = keys_.leader();
  const bool trusts = watch_ != nullptr;  // after trouble every text is compared
  auto known = known_.begin();            // both are in the order of keys
  const auto revision = store_.read(places, [&](const KeyValue& one, std::uint64_t stamp) {
    if (one.lease == lease_ && one.key == leads) fence = one.created;
    if (trusts && stamp != 0 && known != known_.end() && known->second.stamp == stamp)
      return void(++known);
    int order = -1;
    for (; known != known_.end() && (order = known->first.compare(one.key)) < 0; ++known)
      gone.push_back(known->first);
    const bool is_known = known != known_.end() && order == 0;
    if (!is_known || !known->second.is(one.version, hash_of(one.value)))
      others.push_back(one);
    else
      known->second.stamp = stamp;
    if (is_known) ++known;
  });
  if (!revision) return failed(revision.error());
  auto watch = store_.watch(places, *revision);
  if (!watch) return failed(watch.error());
  fence_ = fence;
  for (; known != known_.end(); ++known) gone.push_back(known->first);
  for (const std::string& key : gone) {
    hear_of(key, {}, *revision);
    if (std::ranges::none_of(places, [&](const auto& place) { return is_at(key, place); }))
      view_.lost_rates.erase(key.substr(key.rfind('/') + 1));  // followed no more, and not lost
  }
  for (KeyValue& one : others) hear_of(one.key, std::move(one.value), one.version);
  watch_ = *std::move(watch);
  followed_ = std::move(follows);
  read_ms_ = now_ms_;
  revision_ = *revision;
  return {};
}

// What only a leader reads, and who asks for the view, is read when they do.
void FleetAgent::hear_of(const std::string& key, std::optional<std::string> value, long version) {
  const std::string_view rest = keys_.rest(key);
  const bool is_history = rest.starts_with("history/"), is_rates = rest.starts_with("rates/"),
             is_peers = rest.starts_with("peers/") || rest == "needs";  // said by leaders alone
  revision_ = std::max(revision_, version);
  auto known = std::ranges::lower_bound(known_, key, {}, &std::pair<std::string, Known>::first);
  const bool is_known = known != known_.end() && known->first == key;
  if (value && !is_known) known = known_.insert(known, {key, {}});
  if (value)
    known->second = {version, hash_of(*value), 0};
  else if (is_known)
    known_.erase(known);
  if (is_rates) {
    if (!value) late_.read(view_, keys_, key);
    lost_rates_.heard(view_, std::string(rest.substr(rest.find('/') + 1)), !value, now_ms_);
  }
  const bool is_own = key == keys_.node(settings_.node) || key == keys_.part(settings_.node);
  const bool is_others = !is_own && (rest.starts_with("nodes/") || rest.starts_with("parts/"));
  if (value && (is_history || is_rates || is_others)) {
    late_.keep(key, *std::move(value), version);
  } else {
    late_.drop(key);
    view_.hear(keys_, key, value, version);
  }
  if (rest == "leader") candidacy_.heard(view_.leader);
  if (is_history) return;
  if (!is_rates) ++changes_;
  if (is_peers) return;
  changed_ = power_changed_ = true;
  peers_changed_ = peers_changed_ || !is_rates;
  if (rest == "leader" && (!view_.leader || view_.leader->node != settings_.node)) fence_ = 0;
  if (!value && key == keys_.node(settings_.node)) registered_.reset();
}

Result<void> FleetAgent::register_node(const NodeNow& node) {
  const auto there = view_.nodes.find(settings_.node);
  if (!registered_ && there != view_.nodes.end() && is_anothers(there->second, node.record)) {
    turn_.budget = node.budget;
    turn_.nameless = true;
    turn_.waits = fmt::format(
        "another agent is registered as '{}': this node is none of the fleet until that one is "
        "gone, or it has a name of its own (`fleet.node`)",
        settings_.node);
    return {};
  }
  const bool other = moved(rated_, node.rates) || moved(uncarried_, node.uncarried) ||
                     judged_ != node.verdicts ||
                     moved(drawn_.value_or(0), node.gpu_draw_w.value_or(0));
  const bool rates_due = now_ms_ - rated_ms_ >= kRatesMs && other;
  const bool records = registered_ != node.record, rates = rates_due || !registered_;
  if (!records && !rates) return {};
  Transaction transaction;
  const std::string key = keys_.node(settings_.node);
  if (!registered_) {
    const auto known =
        std::ranges::lower_bound(known_, key, {}, &std::pair<std::string, Known>::first);
    const bool is_known = known != known_.end() && known->first == key;
    transaction.conditions.push_back(
        {Condition::What::version, key, is_known ? known->second.version : 0});
  }
  if (records) {
    NodeRecord record = node.record;
    if (settings_.leads) record.plans = candidacy_.plans();
    transaction.changes.push_back({key, write(record), lease_});
  }
  if (rates)
    transaction.changes.push_back(
        {keys_.rates(settings_.node),
         write(RateRecord{carried_of(node.rates), carried_of(node.uncarried), node.verdicts,
                          node.gpu_draw_w}),
         lease_});
  const auto done = store_.commit(transaction);
  if (!done) {
    if (done.error().code == ErrorCode::not_found) lease_ = 0;
    return failed(done.error());
  }
  if (!done->done) {  // written by another since: all is read again
    watch_.reset();
    return {};
  }
  if (rates) {
    rated_ = node.rates, uncarried_ = node.uncarried;
    judged_ = node.verdicts, drawn_ = node.gpu_draw_w, rated_ms_ = now_ms_;
  }
  registered_ = node.record;
  for (const Change& one : transaction.changes) hear_of(one.key, one.value, done->revision);
  return {};
}

// ---- the leader

Result<void> FleetAgent::stand() {
  if (!settings_.leads || !candidacy_.stands(!view_.leader, now_ms_)) return {};
  const std::string text = write(LeaderRecord{settings_.node});
  const auto done = store_.commit(
      {{{Condition::What::created, keys_.leader(), 0}}, {{keys_.leader(), text, lease_}}});
  if (!done) {
    if (done.error().code == ErrorCode::not_found) lease_ = 0;
    return failed(done.error());
  }
  if (!done->done) return {};
  fence_ = done->revision;
  hear_of(keys_.leader(), text, done->revision);
  turn_.said.push_back("this node leads the fleet");
  return record(fmt::format("{} leads", settings_.node), 0);
}

// False: this node does not lead any more, or something else was written since; all is read again.
Result<bool> FleetAgent::commit_as_leader(Transaction transaction) {
  transaction.conditions.push_back({Condition::What::created, keys_.leader(), fence_});
  const auto done = store_.commit(transaction);
  if (!done) return failed(done.error());
  if (!done->done) {
    watch_.reset();
    fence_ = 0;
    changed_ = power_changed_ = peers_changed_ = true;
    return false;
  }
  for (const Change& one : transaction.changes) hear_of(one.key, one.value, done->revision);
  return true;
}

// Who leads says which GPUs the fleet has, and lets a node lead that can plan for all of them.
Result<void> FleetAgent::give_way() {
  LeaderRecord is{settings_.node, gpu_models(view_)};
  if (view_.leader && is != *view_.leader) {
    const auto done = commit_as_leader({{}, {{keys_.leader(), write(is), lease_}}});
    if (!done) return failed(done.error());
    if (!*done) return {};
  }
  const std::string better = candidacy_.better(view_, settings_.node, now_ms_);
  if (better.empty()) return {};
  turn_.said.push_back(fmt::format("gives way to {}, which has profiles of all GPUs", better));
  if (auto done = record(turn_.said.back(), 0, "g"); !done || fence_ == 0) return done;
  const auto done = commit_as_leader({{}, {{keys_.leader(), {}, 0}}});
  fence_ = 0;
  return done ? Result<void>() : failed(done.error());
}

// Whether all nodes with a part are there, or were missed for so long that they are lost.
bool FleetAgent::missed_long_enough() {
  std::map<std::string, std::int64_t> missed;
  for (const auto& [node, part] : view_.parts) {
    if (view_.nodes.contains(node)) continue;
    const auto before = missed_.find(node);
    missed[node] = before == missed_.end() ? now_ms_ : before->second;
  }
  missed_ = std::move(missed);
  return std::ranges::all_of(missed_,
                             [&](const auto& one) { return now_ms_ - one.second >= kMissedMs; });
}

// Who has a part in hand, or could have, and has not carried out anything for long; the history
// says so. Who waits for others is not late.
Result<void> FleetAgent::look_for_overdue() {
  std::map<std::string, Pending> pending;
  std::set<std::string> overdue;
  std::string others;
  for (const auto& [node, part] : view_.parts) {
    const auto is = view_.nodes.find(node);
    if (is == view_.nodes.end() || is->second.ready >= part.revision) continue;
    const bool waits = !part.waits_for.empty() || !part.elsewhere.empty();
    if (waits && is->second.taken <= is->second.ready) continue;
    const auto before = pending_.find(node);
    const bool same = before != pending_.end() && before->second.ready == is->second.ready;
    const Pending now = same ? before->second : Pending{is->second.ready, now_ms_};
    pending[node] = now;
    if (now_ms_ - now.since_ms < kOverdueMs) continue;
    overdue.insert(node);
    if (!view_.overdue.contains(node)) others += (others.empty() ? "" : ", ") + node;
  }
  pending_ = std::move(pending);
  if (overdue == view_.overdue) return {};
  view_.overdue = std::move(overdue);
  changed_ = true;
  if (others.empty()) return {};
  turn_.said.push_back(fmt::format("not counted on, for no part was carried out in {} s: {}",
                                   kOverdueMs / 1000, others));
  return record(turn_.said.back(), 0);
}

Result<void> FleetAgent::lead() {
  if (fence_ == 0) {
    missed_.clear();
    pending_.clear();
    view_.overdue.clear();
    view_.asked_before.clear();
    decision_.reset();
    return {};
  }
  late_.read(view_, keys_);
  if (std::string why = past_.forget(store_, now_ms_, revision_); !why.empty())
    turn_.said.push_back(std::move(why));
  if (auto done = divide_power(); !done || fence_ == 0) return done;
  if (std::exchange(peers_changed_, false))
    if (auto done = write_all({}, other_peers(view_, keys_, leader_.services()));
        !done || fence_ == 0)
      return done;
  if (auto done = look_for_overdue(); !done || fence_ == 0) return done;
  if (!missed_long_enough()) return {};
  if (decision_ && now_ms_ - told_ms_ >= kRatesMs) {
    if (const RateRecord said = needs_of(*decision_); !says(view_, said)) {
      told_ms_ = now_ms_;
      auto done = write_all({}, {{keys_.needs(), write(said), 0}});
      if (!done || fence_ == 0) return done;
    }
  }
  if (changed_ || !candidacy_.better(view_, settings_.node, now_ms_).empty())
    if (auto done = give_way(); !done || fence_ == 0) return done;
  // Of the same view a leader decides the same.
  if (!changed_ && (decision_ || now_ms_ - decided_ms_ < kDecideMs)) return {};
  auto decision = leader_.decide(view_, settings_.node);
  view_.asked_before = view_.asked_steadily();
  changed_ = false;
  decided_ms_ = now_ms_;
  if (!decision) {
    turn_.said.push_back("what is wanted cannot be planned: " + to_string(decision.error()));
    decision_.reset();
    return {};
  }
  decision_ = *std::move(decision);
  if (std::vector<std::string> notes = notes_of(*decision_); notes != noted_) {
    noted_ = std::move(notes);
    if (!noted_.empty()) turn_.said.push_back(told(noted_));
    if (auto done = noted_.empty() ? Result<void>() : record(told(noted_), 0, "n");
        !done || fence_ == 0)
      return done;
  }
  const std::vector<Part> parts = agreed(*view_.wanted, *decision_);
  if (auto done = propose(*decision_, parts.size()); !done || fence_ == 0) return done;
  if (parts.empty()) return {};
  const long revision = parts.front().revision;
  if (auto done = write_parts(parts); !done || fence_ == 0) return done;
  turn_.said.push_back(fmt::format("revision {}: {}", revision, told(decision_->changes)));
  return record(told(decision_->changes), revision);
}

// Nobody who is missed is waited for: budgets take into account what he may draw.
Result<void> FleetAgent::divide_power() {
  if (!std::exchange(power_changed_, false)) return {};
  const auto next = power_.decide(view_, settings_.node);
  const std::string why = next ? "" : to_string(next.error());
  if (why != no_power_ && !why.empty()) turn_.said.push_back("power is not divided: " + why);
  no_power_ = why;
  if (!next || !*next) return {};
  const bool first = !view_.budgets, others = first || view_.budgets->failed != (*next)->failed,
             over = (first ? "" : view_.budgets->over) != (*next)->over;
  const auto done = commit_as_leader({{}, {{keys_.budgets(), write(**next), 0}}});
  if (!done) return failed(done.error());
  if (!*done || (!others && !over)) return {};
  std::string dead;
  for (const std::string& name : (*next)->failed) dead += (dead.empty() ? "" : ", ") + name;
  const std::string what = fmt::format(
      "power is divided {}{}", dead.empty() ? "with every feed live" : "without " + dead,
      (*next)->over.empty() ? "" : "; it does not suffice: " + (*next)->over);
  turn_.said.push_back(what);
  return record(what, 0);
}

Result<void> FleetAgent::propose(const Decision& decision, std::size_t written) {
  const bool waits = written < decision.parts.size();
  if (!waits && !view_.proposal) return {};
  if (waits && view_.proposal && view_.proposal->digest == decision.digest) return {};
  Change change{keys_.proposal(), {}, 0};
  if (waits) change.value = write(Proposal{decision.digest, decision.changes});
  const auto done = commit_as_leader({{}, {change}});
  if (waits && done) turn_.said.push_back("a decision waits for a person: " + decision.digest);
  return done ? Result<void>() : failed(done.error());
}

Result<void> FleetAgent::write_parts(const std::vector<Part>& parts) {
  std::vector<Condition> conditions;
  std::vector<Change> changes;
  for (const Part& part : parts) {
    const auto known = view_.versions.find(part.node);
    conditions.push_back({Condition::What::version, keys_.part(part.node),
                          known == view_.versions.end() ? 0 : known->second});
    changes.push_back({keys_.part(part.node), write(part), 0});
  }
  return write_all(std::move(conditions), std::move(changes));
}

// In transactions that the store takes; `conditions`: none, or one of each change.
Result<void> FleetAgent::write_all(std::vector<Condition> conditions, std::vector<Change> changes) {
  for (std::size_t next = 0; next < changes.size();) {
    Transaction transaction;
    for (std::size_t bytes = 0;
         next < changes.size() && transaction.changes.size() < kPartsAtOnce && bytes < kBytesAtOnce;
         ++next) {
      if (!conditions.empty()) transaction.conditions.push_back(std::move(conditions[next]));
      transaction.changes.push_back(std::move(changes[next]));
      bytes += transaction.changes.back().value.value_or("").size();
    }
    const auto done = commit_as_leader(std::move(transaction));
    if (!done) return failed(done.error());
    if (!*done) return {};
  }
  return {};
}

// ---- the history

std::vector<Change> oldest_events(const FleetView& view, const Keys& keys) {
  std::vector<Change> changes;
  const std::size_t all = view.history.size();
  std::size_t over = std::min(all - std::min(all, kMostHistory), kTrimmedAtOnce);
  for (auto one = view.history.begin(); over > 0; --over, ++one)
    changes.push_back({keys.history() + one->first, {}, 0});
  return changes;
}

Result<void> FleetAgent::record(const std::string& what, long revision, const char* beside) {
  const FleetEvent event{wall_ms_, revision, settings_.node, what};
  const auto done = commit_as_leader({{}, {{keys_.event(event, beside), write(event), 0}}});
  if (!done || !*done) return done ? Result<void>() : failed(done.error());
  if (events_++ % 50 != 0) return {};
  std::vector<Change> oldest = oldest_events(view_, keys_);
  return oldest.empty() ? Result<void>() : write_all({}, std::move(oldest));
}

}  // namespace partita::fleet
