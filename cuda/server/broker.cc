#include "server/broker.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <fstream>

#include "base/processes.h"
#include "hw/cpu_units.h"

namespace partita::remote::server {
namespace {

constexpr int kTickMs = 100;
constexpr Nanos kPublish = std::chrono::milliseconds(200);  // between two state files
constexpr Nanos kWritePatience = std::chrono::milliseconds(200);
constexpr std::size_t kMaxName = 200;  // of what clients say of themselves

// The parent of a process, by /proc; -1 when there is none.
long parent_of(std::int64_t pid) {
  std::ifstream status(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(status, text, '\0');
  const std::size_t name_end = text.rfind(')');
  if (name_end == text.npos || name_end + 4 >= text.size()) return -1;
  return std::strtol(text.c_str() + name_end + 4, nullptr, 10);  // ") S 123"
}

// Who sessions belong to: the user of this host, or the host that they come from.
std::string client_of(const Listener::Accepted& from) {
  return from.address.substr(0, from.address.rfind(':')) + std::to_string(from.uid);
}

std::string bounded(std::string_view text) { return std::string(text.substr(0, kMaxName)); }

void put_text(std::array<char, StartMessage::kMaxText>& into, const std::string& text) {
  text.copy(into.data(), into.size() - 1);
}

void end_zygote(Zygote& zygote) {
  zygote.socket.close_now();
  if (zygote.pid <= 0) return;
  ::kill(static_cast<pid_t>(zygote.pid), SIGKILL);  // and its workers with it
  ::waitpid(static_cast<pid_t>(zygote.pid), nullptr, 0);
}

}  // namespace

Broker::Broker(BrokerOptions options, Files& files, Zygote zygote, std::unique_ptr<PartMaker> maker,
               std::shared_ptr<void> beside)
    : options_(std::move(options)),
      files_(files),
      zygote_(std::move(zygote)),
      beside_(std::move(beside)),
      part_maker_(std::move(maker)),
      brain_(options_.parts, options_.limits,
             part_maker_ ? part_maker_->shapes() : std::vector<std::string>{}),
      shared_(options_.worker.limits.memory),
      identity_(RealProcesses().identity(::getpid())) {
  if (part_maker_) maker_ = std::make_unique<MakerThread>(*part_maker_);
}

Result<std::unique_ptr<Broker>> Broker::open(const std::string& address, BrokerOptions options,
                                             Files& files) {
  // Before anything of clients, or of the device, is in this process.
  Zygote zygote = TRY(start_zygote(options.worker));
  const auto give_up = [&](const Error& why) {
    end_zygote(zygote);
    return failed(why);
  };
  std::shared_ptr<void> beside;
  if (options.begin_beside) {
    auto begun = options.begin_beside();
    if (!begun) return give_up(begun.error());
    beside = *std::move(begun);
  }
  std::unique_ptr<PartMaker> maker;
  if (options.open_maker) {
    auto opened = options.open_maker();
    if (!opened) return give_up(opened.error());
    maker = *std::move(opened);
  }
  Result<std::unique_ptr<Listener>> listener = system_net().listen(address);
  if (!listener) return give_up(listener.error());
  std::unique_ptr<Broker> broker(new Broker(std::move(options), files, std::move(zygote),
                                            std::move(maker), std::move(beside)));
  broker->listener_ = *std::move(listener);
  return broker;
}

Broker::~Broker() {
  workers_.clear();
  end_zygote(zygote_);
}

Result<void> Broker::run(int stop) {
  for (const broker::Action& action : brain_.begin())
    std::visit([this](const auto& what) { act(what); }, action);
  bool down = false;
  publish();
  for (;;) {
    pollfd asked = readable(stop);
    if (!down && ::poll(&asked, 1, 0) > 0) {
      down = true;
      listener_.reset();
      tell(broker::ShutDown{});
    }
    if (down && workers_.empty() && brain_.borrowed() == 0) break;
    wait(down ? -1 : stop);
    if (listener_) accept();
    listen_to_clients();
    listen_to_workers();
    listen_to_maker();
    stop_late_ones();
    publish();
    if (::waitpid(static_cast<pid_t>(zygote_.pid), nullptr, WNOHANG) == zygote_.pid) {
      zygote_.pid = 0;
      return environment_error("", "the process that makes workers has ended");
    }
  }
  if (!options_.state_file.empty()) static_cast<void>(files_.remove(options_.state_file));
  return {};
}

void Broker::wait(int stop) {
  std::vector<pollfd> ready = {readable(stop)};
  if (listener_) ready.push_back(readable(listener_->descriptor()));
  for (const auto& [id, client] : clients_)
    ready.push_back(readable(client.from.channel->descriptor()));
  for (const auto& [id, worker] : workers_) {
    ready.push_back(readable(worker.control.get()));
    ready.push_back(readable(worker.shelf.get()));
  }
  if (maker_) ready.push_back(readable(maker_->descriptor()));
  ::poll(ready.data(), ready.size(), kTickMs);
}

// ---- clients ----

void Broker::accept() {
  // Half of the places at most are taken before those that came are listened to.
  for (std::size_t i = 0; i < std::max<std::size_t>(1, options_.greeting / 2); ++i) {
    auto accepted = listener_->accept(kNoWait);
    if (!accepted) return;
    make_room_to_greet();
    Client client;
    client.from = *std::move(accepted);
    client.reader = std::make_unique<FrameReader>(*client.from.channel);
    client.due = std::chrono::steady_clock::now() + options_.hello_patience;
    clients_.emplace(next_client_++, std::move(client));
  }
}

// Who has not said hello keeps nobody out who does: where their places are taken, the one that has
// been silent for longest goes, of the address that has most of them.
void Broker::make_room_to_greet() {
  std::map<std::string, std::size_t> silent;
  std::size_t all = 0, most = 0;
  for (const auto& [id, client] : clients_) {
    if (client.greeted) continue;
    ++all;
    most = std::max(most, ++silent[client_of(client.from)]);
  }
  if (all < options_.greeting) return;
  const auto longest = std::ranges::find_if(clients_, [&](const auto& entry) {
    return !entry.second.greeted && silent.at(client_of(entry.second.from)) == most;
  });
  clients_.erase(longest);
  ++totals_.bad_hellos;
  changed_ = true;
}

void Broker::listen_to_clients() {
  std::vector<ClientId> ids;
  for (const auto& [id, client] : clients_) ids.push_back(id);
  for (const ClientId id : ids) {
    const auto found = clients_.find(id);
    if (found == clients_.end() || hear(id, found->second)) continue;
    totals_.bad_hellos += found->second.greeted ? 0 : 1;
    clients_.erase(found);
    tell(broker::Left{id});
  }
}

// What a client sends before it has a worker: its hello, then pings. False: it is to go.
bool Broker::hear(ClientId id, Client& client) {
  const Result<Frame> frame = client.reader->next(kNoWait);
  if (!frame) {
    if (frame.error().code != ErrorCode::timeout) return false;
    return client.greeted || std::chrono::steady_clock::now() < client.due;
  }
  if (!client.greeted) return take_hello(id, client, *frame);
  if (frame->header.code != Ping::kSpec.code || frame->header.bulk_bytes != 0) return false;
  FrameWriter writer(*client.from.channel, kWritePatience);
  return writer.answer<Ping>(frame->header.request, {}, {}) && writer.flush();
}

bool Broker::take_hello(ClientId id, Client& client, const Frame& frame) {
  const std::optional<Hello> hello =
      frame.header.code == Hello::kSpec.code ? decode<Hello>(frame.body) : std::nullopt;
  if (!hello || frame.header.request == 0 || frame.header.bulk_bytes != 0 ||
      client.reader->has_buffered())
    return false;
  client.request = frame.header.request;
  client.wanted = {bounded(hello->shape), bounded(hello->program), hello->pid, hello->flags};
  if (const std::optional<Refused> why = refusal_of(*hello, options_.token)) {
    refuse(client, why->status, why->reason);
    return false;
  }
  client.greeted = true;
  tell(broker::Arrived{id, client.wanted.shape});
  return true;
}

void Broker::refuse(Client& client, Status status, const std::string& reason) {
  FrameWriter writer(*client.from.channel, kWritePatience);
  const std::string line = reason + "\n";
  if (writer.put(Said{.to_error = kToError, .text = std::as_bytes(std::span(line))}) &&
      writer.answer<Hello>(client.request, Outcome{status, 0}, {}))
    static_cast<void>(writer.flush());
  client.from.channel->shut();
}

// ---- workers ----

void Broker::listen_to_workers() {
  std::vector<WorkerId> ids;
  for (const auto& [id, worker] : workers_) ids.push_back(id);
  for (const WorkerId id : ids) {
    Worker& worker = workers_.at(id);
    if (worker.serving) hear_shelf(worker);
    if (hear(id, worker)) continue;
    shared_.ended(worker.entry.session);
    workers_.erase(id);
    tell(broker::WorkerEnded{id});
  }
}

// What a worker says; false when its process has ended.
bool Broker::hear(WorkerId id, Worker& worker) {
  for (;;) {
    Received<WorkerMessage> received;
    const Arrival arrival = receive_message(worker.control.get(), received);
    if (arrival == Arrival::none) return true;
    changed_ = true;
    if (arrival == Arrival::gone) {
      totals_.operations += worker.entry.operations;
      totals_.launches += worker.entry.launches;
      totals_.refused += worker.entry.refused;
      totals_.bytes_in += worker.entry.bytes_in;
      totals_.bytes_out += worker.entry.bytes_out;
      return false;
    }
    const WorkerMessage& message = received.message;
    if (message.kind == WorkerMessage::Kind::ready) {
      // A worker that lies of its pid could have us kill another: none but a child of the zygote.
      if (parent_of(message.pid) == zygote_.pid) {
        worker.entry.worker_pid = static_cast<long>(message.pid);
        worker.entry.worker_identity = RealProcesses().identity(message.pid);
      }
      tell(broker::WorkerReady{id});
    } else if (message.kind == WorkerMessage::Kind::unable) {
      const auto text = std::string_view(message.text.data(), message.text.size());
      problem_ = std::string(text.substr(0, text.find('\0')));
    } else if (worker.serving) {
      worker.entry.operations = message.counts.operations;
      worker.entry.launches = message.counts.launches;
      worker.entry.refused = message.counts.refused;
      worker.entry.bytes_in = message.counts.bytes_in;
      worker.entry.bytes_out = message.counts.bytes_out;
      worker.entry.memory = message.counts.memory;
    }
  }
}

// A few at a time, so that nobody keeps the others waiting.
void Broker::hear_shelf(Worker& worker) {
  constexpr int kAtOnce = 8;
  for (int i = 0; i < kAtOnce && worker.shelf.get() >= 0; ++i) {
    Received<ShareRequest> request;
    const Arrival arrival = receive_message(worker.shelf.get(), request);
    if (arrival == Arrival::none) return;
    if (arrival == Arrival::gone) {
      worker.shelf.close_now();
      return;
    }
    const auto [answer, file] =
        shared_.take({worker.entry.session, worker.client}, request.message);
    if (request.message.kind == ShareRequest::Kind::drop) continue;
    const std::array<int, 1> beside{file};
    send_message(worker.shelf.get(), answer, std::span(beside).first(file < 0 ? 0 : 1));
  }
}

void Broker::stop_late_ones() {
  const auto now = std::chrono::steady_clock::now();
  for (auto& [id, worker] : workers_) {
    if (!worker.stopping || now < worker.kill_at || worker.entry.worker_pid <= 0) continue;
    ::kill(static_cast<pid_t>(worker.entry.worker_pid), SIGKILL);
  }
}

// ---- the brain's actions ----

void Broker::tell(const broker::Event& event) {
  changed_ = true;
  for (const broker::Action& action : brain_.step(event))
    std::visit([this](const auto& what) { act(what); }, action);
}

void Broker::act(const broker::Start& start) {
  auto pair = message_pair();
  auto shelf = message_pair();
  Worker& worker = workers_[start.worker];
  worker.part = start.part;
  if (!pair || !shelf) return;  // its control is closed: it counts as ended
  worker.control = std::move(pair->first);
  worker.shelf = std::move(shelf->first);
  const std::array<int, 2> beside{pair->second.get(), shelf->second.get()};
  const Part& part = brain_.parts()[start.part];
  StartMessage message{.worker = start.worker, .units = part.units};
  put_text(message.name, part.name);
  put_text(message.shape, part.shape);
  send_message(zygote_.socket.get(), message, beside);
}

void Broker::act(const broker::Give& give) {
  const auto found = clients_.find(give.client);
  Worker& worker = workers_.at(give.worker);
  if (found == clients_.end()) return;
  Client& client = found->second;
  const Part& part = brain_.parts()[worker.part];
  GiveMessage message;
  message.session = next_session_++;
  message.request = client.request;
  message.flags = client.wanted.flags;
  const int wanted = hw::cpu_unit_count(client.wanted.shape);
  message.units = wanted > 0 ? std::min(wanted, part.units) : part.units;
  if (!send_message(worker.control.get(), message, client.from.channel->descriptors()))
    refuse(client, kInvalidDevice, "the session's process is gone");
  worker.serving = true;
  worker.client = client_of(client.from);
  ++totals_.sessions;
  worker.entry.session = message.session;
  worker.entry.part = part.name;
  worker.entry.shape = client.wanted.shape;
  worker.entry.program = client.wanted.program;
  worker.entry.address = client.from.address;
  worker.entry.client_pid = client.wanted.pid;
  worker.entry.begun_s = static_cast<long>(std::time(nullptr));
  clients_.erase(found);  // our copies of its descriptors
}

void Broker::act(const broker::Place& place) {
  const auto found = clients_.find(place.client);
  if (found == clients_.end()) return;
  FrameWriter writer(*found->second.from.channel, kWritePatience);
  if (writer.put(Waiting{place.place})) static_cast<void>(writer.flush());
}

void Broker::act(const broker::Deny& deny) {
  const auto found = clients_.find(deny.client);
  if (found == clients_.end()) return;
  ++totals_.denied;
  refuse(found->second, kInvalidDevice,
         deny.worker_failed && !problem_.empty() ? fmt::format("{} ({})", deny.reason, problem_)
                                                 : deny.reason);
  clients_.erase(found);
}

void Broker::act(const broker::Stop& stop) {
  const auto found = workers_.find(stop.worker);
  if (found == workers_.end()) return;
  found->second.stopping = true;
  found->second.kill_at = std::chrono::steady_clock::now() + options_.stop_patience;
  ::shutdown(found->second.control.get(), SHUT_WR);  // which ends it
}

// ---- parts on demand ----

void Broker::act(const broker::Make& make) { maker_->make(make.part, make.shape); }

void Broker::act(const broker::Unmake& unmake) {
  maker_->unmake(unmake.part, brain_.parts()[unmake.part].name);
}

void Broker::listen_to_maker() {
  if (!maker_) return;
  for (const broker::Event& event : maker_->done()) {
    tell(event);
    if (std::holds_alternative<broker::NotMade>(event))
      ask_again_ = std::chrono::steady_clock::now() + options_.ask_again;
  }
  if (std::chrono::steady_clock::now() < ask_again_) return;
  ask_again_ = Time::max();
  tell(broker::AskAgain{});
}

// ---- what others may know ----

ServerState Broker::state() const {
  ServerState state;
  state.pid = ::getpid();
  state.identity = identity_;
  state.address = listener_ ? listener_->address() : "going down";
  state.backend = options_.backend;
  state.parts = static_cast<int>(brain_.present());
  state.ready = static_cast<int>(brain_.ready());
  state.waiting = static_cast<int>(brain_.waiting());
  for (const auto& [id, worker] : workers_)
    if (worker.serving) state.sessions.push_back(worker.entry);
  return state;
}

void Broker::publish() {
  const auto now = std::chrono::steady_clock::now();
  if (!changed_ || now - published_ < kPublish) return;
  changed_ = false;
  published_ = now;
  const ServerState now_so = state();
  if (!options_.state_file.empty())
    static_cast<void>(files_.write_atomic(options_.state_file, server_state_json(now_so)));
  if (!options_.metrics_file.empty())
    static_cast<void>(files_.write_atomic(options_.metrics_file, server_metrics(now_so, totals_)));
}

}  // namespace partita::remote::server
