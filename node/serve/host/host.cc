#include "serve/host/host.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "act/apply.h"

namespace partita::serve {
namespace {

constexpr Nanos kSecond = 1'000'000'000;

bool has_tokens(const actuate::Assignment& assignment) {
  return std::ranges::any_of(assignment.services,
                             [](const plan::Terms& one) { return one.tokens.has_value(); });
}

actuate::WorkerReadiness readiness_of(std::string_view state) {
  if (state == "ready") return actuate::WorkerReadiness::ready;
  return state == "leaving" ? actuate::WorkerReadiness::leaving : actuate::WorkerReadiness::silent;
}

using GatewayWorkers = std::map<std::pair<std::string, int>, actuate::GatewayWorker>;

// One whose probe fails while its streams flow ends them, and gets nothing new.
actuate::WorkerReadiness readiness_of(const EngineReplica& engine) {
  const auto said = readiness_of(std::string_view(engine.state()));
  const bool ends = said == actuate::WorkerReadiness::silent && engine.flows();
  return ends ? actuate::WorkerReadiness::leaving : said;
}

double heard_s(const EngineReplica& engine) {
  return static_cast<double>(engine.heard_ago()) / 1e9;
}

// One that is supervised and has been heard.
void add_engine(const std::string& service, const EngineReplica& engine, GatewayWorkers& workers) {
  const EngineAddress& at = engine.address;
  if (at.device.empty() || std::string_view(engine.state()) == "starting") return;
  workers.emplace(std::pair{at.device, at.index},
                  actuate::GatewayWorker{.device = at.device,
                                         .index = at.index,
                                         .service = service,
                                         .pid = at.pid,
                                         .state = readiness_of(engine),
                                         .last_beat_s = heard_s(engine),
                                         .open = static_cast<int>(engine.calls.size()),
                                         .kv_cache_usage = engine.kv_cache_usage(Loop::now_ns())});
}

// Those that nobody here supervises.
void add_given(const EngineService& service, std::vector<actuate::GatewayEngine>& engines) {
  for (const auto* list : {&service.engines().here(), &service.engines().leaving()})
    for (const auto& one : *list)
      if (one->address.device.empty() && engines.size() < actuate::kMostEngines)
        engines.push_back({.url = one->address.url,
                           .state = readiness_of(*one),
                           .last_beat_s = heard_s(*one),
                           .open = static_cast<int>(one->calls.size()),
                           .kv_cache_usage = one->kv_cache_usage(Loop::now_ns())});
}

// The workers that the supervisor runs for a service where it is assigned.
std::vector<EngineAddress> engines_of(const std::string& service,
                                      const actuate::Assignment& assignment,
                                      const actuate::WorkersState& workers) {
  std::vector<EngineAddress> engines;
  for (const actuate::WorkerRecord& worker : workers.workers) {
    const auto assigned = std::ranges::find(assignment.segments, worker.segment.device,
                                            &actuate::AssignedSegment::device);
    const bool its = assigned != assignment.segments.end() && assigned->service == service &&
                     worker.segment.service == service;
    const bool leaves = worker.answering == actuate::Answering::leaving;
    if (!its || leaves || worker.pid == 0 || worker.port == 0) continue;
    const auto gpus = actuate::whole_gpus(assigned->device);
    engines.push_back({.url = fmt::format("http://127.0.0.1:{}", worker.port),
                       .device = worker.segment.device,
                       .index = worker.index,
                       .pid = worker.pid,
                       .sequences = assigned->batch,
                       .throughput_rps = assigned->throughput_rps,
                       .profile = assigned->profile,
                       .gpus = std::max(static_cast<int>(gpus.size()), 1),
                       .configuration = assigned->engine.configuration});
  }
  return engines;
}

}  // namespace

std::vector<ServedService> served_by(const actuate::Assignment& assignment) {
  std::map<std::string, ServedService> services;
  for (const actuate::AssignedSegment& segment : assignment.segments) {
    ServedService& service = services[segment.service];
    service.name = segment.service;
    service.percentile = 0;
    service.segments.push_back({segment.device, segment.batch, segment.processes});
  }
  for (const plan::Terms& known : assignment.services)
    static_cast<plan::Terms&>(services[known.name]) = known;
  std::vector<ServedService> list;
  for (auto& [name, service] : services)
    if (!service.tokens) list.push_back(std::move(service));
  return list;
}

std::vector<TokenService> token_services_by(const actuate::Assignment& assignment,
                                            const actuate::WorkersState& workers,
                                            const GivenEngines& given) {
  std::map<std::string, TokenService> services;
  for (const auto& [name, urls] : given.urls) services[name].name = name;
  for (const auto* list : {&given.services, &assignment.services})
    for (const plan::Terms& terms : *list)
      if (terms.tokens) static_cast<plan::Terms&>(services[terms.name]) = terms;
  std::vector<TokenService> found;
  for (auto& [name, service] : services) {
    service.engines = engines_of(name, assignment, workers);
    if (const auto urls = given.urls.find(name); urls != given.urls.end())
      for (const std::string& url : urls->second) service.engines.push_back({.url = url});
    found.push_back(std::move(service));
  }
  return found;
}

ServiceView view_of(const EngineService& service) {
  const TokenFates& fates = service.counters().fates;
  const plan::Terms& terms = service.terms();
  ServiceView view{.terms = terms,
                   .queued = service.waiting(),
                   .capacity_rps = service.engines().capacity_rps(),
                   .withdrawn = fates.withdrawn + fates.limited + fates.rejected};
  // A TTFT is kept by the first token: who has it need not have ended to be on time.
  if (terms.tokens && terms.slo.value <= 0) view.terms.slo = terms.tokens->ttft;
  if (terms.slo.value <= 0) view.withdrawn += on_time(service, Loop::now_ns());
  view.limited = fates.limited;
  view.counters.offered = service.counters().arrived;
  view.counters.completed = fates.answered;
  view.counters.in_slo = fates.in_slo;
  view.counters.failed = fates.failed + fates.cut;
  view.counters.expired = fates.expired;
  view.counters.refused_full = fates.full + fates.over_share;
  view.counters.refused_miss = fates.late;
  view.counters.refused_worker = fates.unready;
  const auto& used = service.counters().by_key;
  for (const auto& [key, had] : service.counters().keys) {
    view.keys.push_back({.key = key,
                         .answered = static_cast<double>(had.answered),
                         .refused = static_cast<double>(had.refused),
                         .bytes = static_cast<double>(had.bytes)});
    if (const auto found = used.find(key); found != used.end())
      view.keys.back().tokens =
          static_cast<double>(found->second.prompt + found->second.completion);
  }
  return view;
}

void note_requests(Recents& recents, const std::vector<ServiceView>& services, double now_s) {
  std::set<std::string> there;
  for (const ServiceView& service : services) {
    const actuate::GatewayRequests now = requests_of(service, {});
    const auto count = [](long requests) { return static_cast<double>(requests); };
    there.insert(service.terms.name);
    recents[service.terms.name].note(now_s,
                                     {.asked = count(now.arrived),
                                      .in_slo = count(now.in_slo),
                                      .missed = count(now.missed + now.shed),
                                      .withdrawn = count(service.withdrawn - service.limited)});
  }
  std::erase_if(recents, [&](const auto& one) { return !there.contains(one.first); });
}

actuate::GatewayRequests requests_of(const ServiceView& service, const Recents& recents) {
  const ServiceCounters& counted = service.counters;
  const long late = counted.completed - counted.in_slo;
  const long arrived = counted.offered - service.limited;  // what a key may not have is no demand
  actuate::GatewayRequests requests{
      .arrived = arrived,
      .in_slo = counted.in_slo,
      .missed = late + counted.failed + counted.expired + service.given_up,
      .shed = counted.refused_full + counted.refused_miss + counted.refused_worker,
      .by_pipelines = std::min(service.by_pipelines, arrived)};
  if (service.p99 > 0) requests.p99_ms = static_cast<double>(service.p99) * 1e-6;
  const auto found = recents.find(service.terms.name);
  if (found == recents.end()) return requests;
  const double slo_s = slo_of(service.terms).value * 1e-3;
  requests.recent = found->second.last(actuate::kShortStretch, slo_s);
  requests.lately = found->second.last(actuate::kMiddleStretch, slo_s);
  requests.minute = found->second.last(actuate::kLongStretch, slo_s);
  return requests;
}

std::vector<actuate::Uncarried> uncarried_of(Recents& recents,
                                             const std::map<std::string, long>& counts,
                                             double now_s) {
  std::vector<actuate::Uncarried> all;
  for (const auto& [service, count] : counts) {
    const auto [recent, fresh] = recents.try_emplace(service);
    if (fresh) recent->second.note(now_s, {});  // those that it is noted with came since
    recent->second.note(now_s, {.asked = static_cast<double>(count)});
    const double asked = recent->second.last(actuate::kMiddleStretch, 0).asked;
    if (asked > 0) all.push_back({service, asked / actuate::kMiddleStretch});
  }
  return all;
}

actuate::GatewayState state_of(const Core& core, const EnginePool& engines,
                               const actuate::Assignment& assignment, const Recents& recents) {
  actuate::GatewayState state;
  state.revision = assignment.revision;
  const auto add = [&](const ServiceView& service) {
    state.services.push_back({service.terms.name, service.capacity_rps, service.terms.rate.value,
                              requests_of(service, recents)});
    state.services.back().cold = service.cold;
    state.services.back().keys = actuate::told_keys(service.keys);
    state.services.back().fan_outs = service.fan_outs;
  };
  for (const ServiceView& service : core.service_views()) add(service);
  for (const auto& [name, service] : engines.services()) {
    add(view_of(*service));
    state.services.back().tokens = service->recents.traffic(Loop::now_ns());
    state.services.back().tokens->kv_cache_usage = service->engines().kv_cache_usage();
    add_given(*service, state.services.back().engines);
  }
  std::ranges::sort(state.services, {}, &actuate::GatewayService::name);
  GatewayWorkers workers;
  for (const WorkerView& view : core.worker_views()) {
    if (view.state == "warming") continue;
    const auto readiness = readiness_of(view.state);
    actuate::GatewayWorker worker{view.device,  view.index,
                                  view.service, view.pid,
                                  readiness,    static_cast<double>(view.heard_ago) / 1e9};
    // One that leaves may overlap with its successor, which is the one that counts.
    const auto [place, fresh] = workers.emplace(std::pair{view.device, view.index}, worker);
    if (!fresh && readiness == actuate::WorkerReadiness::ready) place->second = worker;
  }
  for (const auto& [name, service] : engines.services())
    for (const auto& one : service->engines().here()) add_engine(name, *one, workers);
  for (const auto& [name, one] : engines.leaving()) add_engine(name, *one, workers);
  for (auto& [place, worker] : workers) state.workers.push_back(std::move(worker));
  for (const WorkerLoss& loss : core.losses())
    state.lost.push_back({loss.device, loss.index, loss.pid});
  return state;
}

namespace {

// At whole multiples, so that who else looks as often (EnginePool) wakes the process at once.
Nanos next_turn(Nanos now) {
  constexpr Nanos kTurn = kSecond / kLooksPerSecond;
  return (now / kTurn + 1) * kTurn;
}

}  // namespace

Host::Host(HostDoors doors)
    : doors_(std::move(doors)),
      assignment_path_(actuate::assignment_path(doors_.state_dir)),
      workers_path_(actuate::workers_path(doors_.state_dir)),
      peers_path_(actuate::peers_path(doors_.state_dir)),
      looking_(doors_.loop,
               [this](std::int64_t due) {
                 look();
                 looking_.at(next_turn(std::max(due, Loop::now_ns())));
               }),
      writing_(doors_.loop, [this](std::int64_t due) {
        write();
        writing_.at(std::max(due + actuate::kGatewayWriteNs, Loop::now_ns()));
      }) {
  identity_ = doors_.processes.identity(::getpid());
  writer_ = std::jthread([this](const std::stop_token& stop) { write_what_comes(stop); });
  doors_.core.on_change([this] { write(); });
  doors_.engines.on_change([this] { write(); });
  doors_.engines.serve(token_services_by(assignment_, workers_, doors_.given));
  look();
  write();
  looking_.at(Loop::now_ns() + kSecond / kLooksPerSecond);
  writing_.at(Loop::now_ns() + actuate::kGatewayWriteNs);
}

Host::~Host() {
  doors_.core.on_change({});
  doors_.engines.on_change({});
  writer_.request_stop();
  writer_.join();
  // Who finds none takes it that no gateway runs, which will be true in a moment.
  static_cast<void>(doors_.files.remove(actuate::gateway_path(doors_.state_dir)).has_value());
}

// The same complaint is made once.
void Host::once(const std::string& complaint) {
  if (complaint != said_) doors_.say(complaint);
  said_ = complaint;
}

void Host::look() {
  follow();
  look_at_workers();
  look_at_peers();
}

void Host::follow() {
  const std::string& path = assignment_path_;
  if (!doors_.files.exists(path)) return once("waiting for " + path);
  const Result<std::string> text = doors_.files.read(path);
  if (!text) return once(to_string(text.error()));
  if (*text == followed_) return;
  Result<actuate::Assignment> assignment = actuate::parse_assignment(path, *text);
  if (!assignment) return once(to_string(assignment.error()));
  followed_ = *text;
  said_.clear();
  assignment_ = *std::move(assignment);
  const std::vector<ServedService> services = served_by(assignment_);
  const auto models = token_services_by(assignment_, workers_, doors_.given);
  doors_.say(fmt::format("assignment {}: {} services on {} instances", assignment_.revision,
                         services.size() + models.size(), assignment_.segments.size()));
  doors_.core.serve(services);
  doors_.engines.serve(models);
  write();
}

// The engines of language models are told from the supervisor's state: they have ports.
void Host::look_at_workers() {
  const std::string& path = workers_path_;
  if (!has_tokens(assignment_) || !doors_.files.exists(path)) return;
  const Result<std::string> text = doors_.files.read(path);
  if (!text || *text == workers_text_) return;
  Result<actuate::WorkersState> workers = actuate::parse_workers(path, *text);
  if (!workers) return once(to_string(workers.error()));
  workers_text_ = *text;
  workers_ = *std::move(workers);
  doors_.engines.serve(token_services_by(assignment_, workers_, doors_.given));
  write();
}

// What cannot be read leaves what was read before.
void Host::look_at_peers() {
  const std::string& path = peers_path_;
  if (doors_.peers == nullptr || !doors_.files.exists(path)) return;
  const Result<std::string> text = doors_.files.read(path);
  if (!text || *text == peers_text_) return;
  const auto peers = actuate::parse_peers(path, *text);
  peers_text_ = *text;
  if (!peers) return doors_.say(to_string(peers.error()));
  doors_.peers->serve(*peers);
}

std::vector<ServiceView> Host::views() const {
  std::vector<ServiceView> all = doors_.core.service_views();
  for (const auto& [name, service] : doors_.engines.services()) all.push_back(view_of(*service));
  return all;
}

void Host::write() {
  const double now_s = static_cast<double>(Loop::now_ns()) / 1e9;
  note_requests(recents_, views(), now_s);
  actuate::GatewayState state = state_of(doors_.core, doors_.engines, assignment_, recents_);
  if (doors_.peers) state.uncarried = uncarried_of(uncarried_, doors_.peers->uncarried(), now_s);
  state.pid = ::getpid();
  state.identity = identity_;
  state.written_s = now_s;
  write_soon(actuate::gateway_path(doors_.state_dir), actuate::gateway_json(state));
}

void Host::keep(const actuate::GatewayChoices& choices) {
  write_soon(actuate::choices_path(doors_.state_dir), actuate::choices_json(choices));
}

void Host::write_soon(const std::string& path, std::string text) {
  const std::lock_guard held(lock_);
  to_write_.insert_or_assign(path, std::move(text));
  changed_.notify_one();
}

// The newest of each file, as soon as what came before it is written; all of it before the end.
void Host::write_what_comes(const std::stop_token& stop) {
  bool failing = false;
  while (true) {
    std::map<std::string, std::string> all;
    {
      std::unique_lock held(lock_);
      if (!changed_.wait(held, stop, [&] { return !to_write_.empty(); })) return;
      all = std::exchange(to_write_, {});
    }
    bool well = true;
    for (const auto& [path, text] : all) {
      // How the gateway is, twice a second, does not wait for the disk.
      const bool live = path == actuate::gateway_path(doors_.state_dir);
      const Result<void> written = live ? doors_.files.write_unsynced(path, text)
                                        : doors_.files.write_atomic(path, text);
      if (!written && well && !failing)
        doors_.loop.post([say = doors_.say, why = to_string(written.error())] { say(why); });
      well = well && written;
    }
    failing = !well;
  }
}

}  // namespace partita::serve
