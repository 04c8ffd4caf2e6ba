// What a request costs at the front doors, in CPU time of the server, against servers built here:
//
//   epoll       own loop, body read into one place, nlohmann parses and writes the JSON head
//   beast       Boost.Beast's async_read of vector_body, same JSON work
//   grpc echo   gRPC's callback API with the message read into strings, as generated code has it
//
// All answer the same inference (an input of 1 KiB or 600 KiB, an output of 1,000 bytes, binary
// form) over loopback; each server is a process of its own. They take turns, and the median of the
// rounds' ratios counts, so that it means something on a busy machine. Exit status 1 when a target
// is missed. usage: front_bench [ROUNDS [SECONDS]] | --one SERVER 1024|602112 SECONDS
#include <fmt/format.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "serve/front/front.h"
#include "serve/grpc/grpc_front.h"
#include "serve/oip/grpc_messages.h"
#include "base/proto_scan.h"

namespace partita {
namespace {

namespace http = boost::beast::http;
using boost::asio::ip::tcp;
using nlohmann::json;
using serve::RequestId;

constexpr std::size_t kOutputBytes = 1000;
constexpr std::size_t kSmall = 1024, kLarge = 602'112;

// ---- what all of them answer

std::string_view answer_body() {
  static const std::string body(kOutputBytes, 'y');
  return body;
}

// The work on a request's JSON by a library: read it, write the answer's.
std::string nlohmann_answer(std::string_view head) {
  const json request = json::parse(head);
  const auto rows = request["inputs"][0]["shape"][0].get<int>();
  const json answer = {{"model_name", "m"},
                       {"model_version", "1"},
                       {"id", request["id"]},
                       {"outputs",
                        {{{"name", "y"},
                          {"datatype", "FP32"},
                          {"shape", {rows, 250}},
                          {"parameters", {{"binary_data_size", kOutputBytes}}}}}}};
  return answer.dump();
}

std::string http_request(std::size_t bytes) {
  const std::string head =
      fmt::format(R"({{"id":"42","inputs":[{{"name":"x","shape":[1,{}],"datatype":"FP32",)"
                  R"("parameters":{{"binary_data_size":{}}}}}],"outputs":[{{"name":"y",)"
                  R"("parameters":{{"binary_data":true}}}}]}})",
                  bytes / 4, bytes);
  return fmt::format(
             "POST /v2/models/{}/infer HTTP/1.1\r\nHost: localhost:8000\r\nUser-Agent: bench\r\n"
             "Accept: */*\r\nContent-Type: application/octet-stream\r\n"
             "Inference-Header-Content-Length: {}\r\nContent-Length: {}\r\n\r\n",
             bytes == kSmall ? "small" : "large", head.size(), head.size() + bytes) +
         head + std::string(bytes, 'x');
}

std::string grpc_request(std::size_t bytes) {
  std::string tensor, shape, out;
  append_field(tensor, 1, std::string_view("x"));
  append_field(tensor, 2, std::string_view("FP32"));
  append_varint(shape, 1);
  append_varint(shape, bytes / 4);
  append_field(tensor, 3, shape);
  append_field(out, 1, std::string_view(bytes == kSmall ? "small" : "large"));
  append_field(out, 3, std::string_view("42"));
  append_field(out, 5, tensor);
  append_field(out, 7, std::string(bytes, 'x'));
  return out;
}

// ---- servers

int listen_anywhere() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  CHECK(::listen(fd, 128) == 0);
  return fd;
}

int port_of(int fd) {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.sin_port);
}

std::size_t header_value(std::string_view head, std::string_view name) {
  const std::size_t at = head.find(name);
  return at == std::string_view::npos ? 0
                                      : std::strtoul(head.data() + at + name.size(), nullptr, 10);
}

struct EpollPeer {
  int fd = -1;
  std::vector<char> input = std::vector<char>(16'384 + kLarge);
  std::size_t have = 0, head = 0, wanted = 0, json_bytes = 0;
};

// One request of the peer, when it is whole.
void serve_peer(EpollPeer& peer) {
  while (true) {
    const std::size_t room = (peer.wanted > 0 ? peer.wanted : peer.input.size()) - peer.have;
    const auto got = ::recv(peer.fd, peer.input.data() + peer.have, room, 0);
    if (got <= 0) return;
    peer.have += static_cast<std::size_t>(got);
    const std::string_view text(peer.input.data(), peer.have);
    if (peer.wanted == 0) {
      const std::size_t end = text.find("\r\n\r\n");
      if (end == std::string_view::npos) continue;
      peer.head = end + 4;
      const std::string_view head = text.substr(0, peer.head);
      peer.json_bytes = header_value(head, "\r\nInference-Header-Content-Length: ");
      peer.wanted = peer.head + header_value(head, "\r\nContent-Length: ");
    }
    if (peer.have < peer.wanted) {
      if (static_cast<std::size_t>(got) < room) return;
      continue;
    }
    const std::string answer = nlohmann_answer(text.substr(peer.head, peer.json_bytes));
    const std::string out = fmt::format(
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\n"
        "Inference-Header-Content-Length: {}\r\n\r\n{}",
        answer.size() + kOutputBytes, answer.size(), answer);
    const iovec parts[] = {{const_cast<char*>(out.data()), out.size()},
                           {const_cast<char*>(answer_body().data()), kOutputBytes}};
    CHECK(::writev(peer.fd, parts, 2) == static_cast<ssize_t>(out.size() + kOutputBytes));
    peer.have = peer.wanted = 0;
    return;
  }
}

void serve_epoll(auto&& tell) {
  const int listener = listen_anywhere(), epoll = ::epoll_create1(0);
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  ::epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
  tell(port_of(listener));
  std::vector<std::unique_ptr<EpollPeer>> peers;
  while (true) {
    epoll_event events[64];
    const int count = ::epoll_wait(epoll, events, 64, -1);
    for (int i = 0; i < count; ++i) {
      if (events[i].data.ptr != nullptr) {
        serve_peer(*static_cast<EpollPeer*>(events[i].data.ptr));
        continue;
      }
      auto peer = std::make_unique<EpollPeer>();
      peer->fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK);
      const int on = 1;
      ::setsockopt(peer->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      event.data.ptr = peer.get();
      ::epoll_ctl(epoll, EPOLL_CTL_ADD, peer->fd, &event);
      peers.push_back(std::move(peer));
    }
  }
}

class BeastPeer : public std::enable_shared_from_this<BeastPeer> {
 public:
  explicit BeastPeer(tcp::socket socket) : stream_(std::move(socket)) {}
  void read() {
    parser_.emplace();
    parser_->body_limit(1u << 30);
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](boost::system::error_code error, std::size_t) {
                       if (!error) self->answer();
                     });
  }

 private:
  void answer() {
    const auto& request = parser_->get();
    const auto length = std::stoul(std::string(request["Inference-Header-Content-Length"]));
    const std::string head = nlohmann_answer({request.body().data(), length});
    response_ = {http::status::ok, 11};
    response_.set(http::field::content_type, "application/octet-stream");
    response_.set("Inference-Header-Content-Length", std::to_string(head.size()));
    response_.body() = head + std::string(answer_body());
    response_.prepare_payload();
    http::async_write(stream_, response_,
                      [self = shared_from_this()](boost::system::error_code error, std::size_t) {
                        if (!error) self->read();
                      });
  }
  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::vector_body<char>>> parser_;
  http::response<http::string_body> response_;
};

void serve_beast(auto&& tell) {
  boost::asio::io_context context(1);
  tcp::acceptor acceptor(context, {boost::asio::ip::address_v4::loopback(), 0});
  tell(acceptor.local_endpoint().port());
  std::function<void()> next = [&] {
    acceptor.async_accept([&](boost::system::error_code error, tcp::socket socket) {
      if (error) return;
      socket.set_option(tcp::no_delay(true));
      std::make_shared<BeastPeer>(std::move(socket))->read();
      next();
    });
  };
  next();
  context.run();
}

// Answers at once, from slots that are there already.
class InstantBackend final : public serve::Backend {
 public:
  std::vector<std::string> services() const override { return {"small", "large"}; }
  const serve::ModelSpec* model(std::string_view service) const override {
    return service == "small" ? &small_ : &large_;
  }
  bool known(std::string_view) const override { return true; }
  bool ready(std::string_view) const override { return true; }
  bool ready() const override { return true; }
  tl::expected<RequestId, serve::Denial> admit(const serve::RequestHead& head) override {
    if (free_.empty()) {
      free_.push_back(slots_.size());
      slots_.emplace_back(kLarge);
      sizes_.push_back(0);
    }
    const RequestId id = free_.back();
    free_.pop_back();
    sizes_[id] = head.service == "small" ? kSmall : kLarge;
    return id;
  }
  void turned_away(std::string_view) override {}
  bool claim(RequestId, int) override { return true; }
  bool set_loaded(std::string_view, bool) override { return false; }
  bool loaded(std::string_view) const override { return true; }
  std::string set_canary(std::string_view, const serve::CanaryWish&) override { return {}; }
  std::optional<serve::CanaryView> canary(std::string_view) const override { return {}; }
  std::span<char> input(RequestId id, int, int) override { return {slots_[id].data(), sizes_[id]}; }
  void submit(RequestId, serve::Completion completion) override { completion.ended(std::nullopt); }
  std::span<const char> output(RequestId, int, int) override { return answer_body(); }
  void release(RequestId id) override { free_.push_back(id); }
  serve::ServiceStatistics statistics(std::string_view) const override { return {}; }
  std::string metrics() const override { return {}; }

 private:
  static serve::ModelSpec spec(const std::string& name, std::size_t bytes) {
    return {.name = name,
            .platform = "null",
            .inputs = {{"x", serve::DataType::fp32, {static_cast<std::int64_t>(bytes / 4)}}},
            .outputs = {{"y", serve::DataType::fp32, {kOutputBytes / 4}}},
            .max_batch = 8};
  }
  const serve::ModelSpec small_ = spec("small", kSmall), large_ = spec("large", kLarge);
  std::vector<std::vector<char>> slots_;
  std::vector<std::size_t> sizes_;
  std::vector<RequestId> free_;
};

void serve_ours(auto&& tell, bool grpc) {
  const auto loop = serve::Loop::make().value();
  InstantBackend backend;
  std::unique_ptr<serve::Front> front;
  std::unique_ptr<serve::GrpcFront> grpc_front;
  if (grpc)
    grpc_front = serve::GrpcFront::open(*loop, backend, {.listen = "127.0.0.1:0"}).value();
  else
    front = serve::Front::open(*loop, backend, {.listen = "127.0.0.1:0"}).value();
  tell(grpc ? grpc_front->port() : front->port());
  loop->run();
}

// A message's strings, as generated code would hold them.
struct EchoMessage {
  std::map<std::uint32_t, std::vector<std::string>> fields;
};

class EchoCall final : public grpc::ServerGenericBidiReactor {
 public:
  EchoCall() { StartRead(&request_); }
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    std::vector<grpc::Slice> slices;
    CHECK(request_.Dump(&slices).ok());
    std::vector<std::string_view> pieces;
    for (const grpc::Slice& slice : slices)
      pieces.emplace_back(reinterpret_cast<const char*>(slice.begin()), slice.size());
    ProtoScan scan(pieces);
    scan.message(scan.size(), [&](std::uint32_t number, WireType type) {
      if (type == WireType::bytes)
        message_.fields[number].push_back(scan.text(type, kLarge));
      else
        scan.skip(type);
    });
    CHECK(scan.ok());
    std::string out;
    append_field(out, 1, message_.fields[1][0]);
    append_field(out, 3, message_.fields[3][0]);
    append_field(out, 5, message_.fields[5][0]);
    append_field(out, 6, answer_body());
    grpc::Slice slice(out);
    response_ = grpc::ByteBuffer(&slice, 1);
    StartWriteAndFinish(&response_, {}, grpc::Status::OK);
  }
  void OnDone() override { delete this; }

 private:
  grpc::ByteBuffer request_, response_;
  EchoMessage message_;
};

class EchoService final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new EchoCall;
  }
};

void serve_grpc_echo(auto&& tell) {
  EchoService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterCallbackGenericService(&service);
  const auto server = builder.BuildAndStart();
  tell(port);
  server->Wait();
}

int run_server(const std::string& kind) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto tell = [](int port) {
    CHECK(::write(STDOUT_FILENO, &port, sizeof port) == sizeof port);
  };
  if (kind == "epoll") serve_epoll(tell);
  if (kind == "beast") serve_beast(tell);
  if (kind == "front") serve_ours(tell, false);
  if (kind == "grpc echo") serve_grpc_echo(tell);
  if (kind == "grpc front") serve_ours(tell, true);
  return 0;
}

// ---- clients

class Server {
 public:
  explicit Server(const std::string& kind) {
    int ends[2];
    CHECK(::pipe(ends) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::execl("/proc/self/exe", "front_bench", "--serve", kind.c_str(), nullptr);
      std::_Exit(1);
    }
    ::close(ends[1]);
    CHECK(::read(ends[0], &port_, sizeof port_) == sizeof port_);
    ::close(ends[0]);
    CHECK(::clock_getcpuclockid(pid_, &clock_) == 0);
  }
  ~Server() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  int port() const { return port_; }
  double cpu_us() const {
    timespec time{};
    ::clock_gettime(clock_, &time);
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
  }

 private:
  pid_t pid_ = 0;
  int port_ = 0;
  clockid_t clock_{};
};

double now_s() { return static_cast<double>(serve::Loop::now_ns()) / 1e9; }

struct HttpPeer {
  int fd = -1;
  std::size_t sent = 0, got = 0, wanted = 0;
};

// As many requests as go through in the time, each connection one at a time.
long http_load(int port, const std::string& request, int connections, double seconds) {
  const int epoll = ::epoll_create1(0);
  std::vector<HttpPeer> peers(static_cast<std::size_t>(connections));
  for (HttpPeer& peer : peers) {
    peer.fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(::connect(peer.fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    const int on = 1;
    ::setsockopt(peer.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLET, .data = {.ptr = &peer}};
    ::epoll_ctl(epoll, EPOLL_CTL_ADD, peer.fd, &event);
  }
  long done = 0;
  const double end = now_s() + seconds;
  std::vector<char> input(65'536);
  const auto push = [&](HttpPeer& peer) {
    while (peer.sent < request.size()) {
      const auto count = ::send(peer.fd, request.data() + peer.sent, request.size() - peer.sent,
                                MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count <= 0) return;
      peer.sent += static_cast<std::size_t>(count);
    }
  };
  while (now_s() < end) {
    epoll_event events[64];
    const int count = ::epoll_wait(epoll, events, 64, 100);
    for (int i = 0; i < count; ++i) {
      HttpPeer& peer = *static_cast<HttpPeer*>(events[i].data.ptr);
      push(peer);
      while (true) {
        const auto got = ::recv(peer.fd, input.data(), input.size(), MSG_DONTWAIT);
        if (got <= 0) break;
        if (peer.wanted == 0) {
          const std::string_view text(input.data(), static_cast<std::size_t>(got));
          CHECK(text.starts_with("HTTP/1.1 200"));
          peer.wanted = text.find("\r\n\r\n") + 4 + header_value(text, "\r\nContent-Length: ");
        }
        peer.got += static_cast<std::size_t>(got);
        if (peer.got < peer.wanted) continue;
        peer.got = peer.wanted = peer.sent = 0;
        ++done;
        push(peer);
      }
    }
  }
  for (const HttpPeer& peer : peers) ::close(peer.fd);
  ::close(epoll);
  return done;
}

class GrpcLoad {
 public:
  GrpcLoad(int port, std::size_t bytes, int calls) : slice_(grpc_request(bytes)), calls_(calls) {
    for (int i = 0; i < std::min(calls, 8); ++i) {
      grpc::ChannelArguments arguments;
      arguments.SetInt("bench.channel", i);  // a connection each
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      stubs_.push_back(std::make_unique<grpc::GenericStub>(grpc::CreateCustomChannel(
          "127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials(), arguments)));
    }
  }
  long run(double seconds) {
    end_ = now_s() + seconds;
    running_ = calls_;
    done_ = 0;
    for (int i = 0; i < calls_; ++i) start(static_cast<std::size_t>(i) % stubs_.size());
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return running_ == 0; });
    return done_;
  }

 private:
  struct OneCall {
    grpc::ClientContext context;
    grpc::ByteBuffer request, response;
  };
  void start(std::size_t stub) {
    auto call = std::make_shared<OneCall>();
    call->request = grpc::ByteBuffer(&slice_, 1);
    stubs_[stub]->UnaryCall(&call->context, "/inference.GRPCInferenceService/ModelInfer", {},
                            &call->request, &call->response,
                            [this, call, stub](grpc::Status status) {
                              CHECK(status.ok() && call->response.Length() > kOutputBytes);
                              ++done_;
                              if (now_s() < end_) return start(stub);
                              const std::lock_guard lock(mutex_);
                              if (--running_ == 0) ended_.notify_all();
                            });
  }
  grpc::Slice slice_;
  const int calls_;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
  double end_ = 0;
  std::atomic<long> done_ = 0;
  std::mutex mutex_;
  std::condition_variable ended_;
  int running_ = 0;
};

// ---- comparison

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// CPU of the server per request.
double cost_of(const std::string& kind, const Server& server, std::size_t bytes, double seconds) {
  const int clients = bytes == kSmall ? 32 : 8;
  const double before = server.cpu_us();
  const long count = kind.starts_with("grpc")
                         ? GrpcLoad(server.port(), bytes, clients).run(seconds)
                         : http_load(server.port(), http_request(bytes), clients, seconds);
  return (server.cpu_us() - before) / static_cast<double>(std::max(count, 1L));
}

struct Wanted {
  const char* ours;
  const char* baseline;
  std::size_t bytes;
  double ratio;
};

int compare(int rounds, double seconds) {
  const std::vector<std::string> kinds = {"epoll", "beast", "front", "grpc echo", "grpc front"};
  std::map<std::string, std::unique_ptr<Server>> servers;
  for (const std::string& kind : kinds) servers.emplace(kind, std::make_unique<Server>(kind));
  std::map<std::pair<std::string, std::size_t>, std::vector<double>> costs;
  for (int round = 0; round < rounds + 1; ++round) {
    for (const std::size_t bytes : {kSmall, kLarge}) {
      for (const std::string& kind : kinds) {
        const double cost = cost_of(kind, *servers.at(kind), bytes, seconds);
        if (round > 0) costs[{kind, bytes}].push_back(cost);  // the first one warms up
      }
    }
  }
  for (const auto& [key, values] : costs)
    fmt::print("{:10} {:7} B {:8.1f} us of server CPU per request (from {:.1f} to {:.1f})\n",
               key.first, key.second, median(values), *std::ranges::min_element(values),
               *std::ranges::max_element(values));
  bool held = true;
  for (const Wanted& wanted : {Wanted{"front", "epoll", kSmall, 1.0},
                               {"front", "beast", kSmall, 0.5},
                               {"front", "epoll", kLarge, 1.3},
                               {"front", "beast", kLarge, 0.1},
                               {"grpc front", "grpc echo", kSmall, 1.2},
                               {"grpc front", "grpc echo", kLarge, 0.7}}) {
    const auto& ours = costs[{wanted.ours, wanted.bytes}];
    const auto& theirs = costs[{wanted.baseline, wanted.bytes}];
    std::vector<double> ratios;  // of neighbours in time
    for (std::size_t i = 0; i < ours.size(); ++i) ratios.push_back(ours[i] / theirs[i]);
    const double ratio = median(ratios);
    fmt::print("{} / {}, {} B: {:.2f} x, wanted <= {} x{}\n", wanted.ours, wanted.baseline,
               wanted.bytes, ratio, wanted.ratio, ratio <= wanted.ratio ? "" : "  MISSED");
    held = held && ratio <= wanted.ratio;
  }
  return held ? 0 : 1;
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  if (argc > 2 && std::string_view(argv[1]) == "--serve") return partita::run_server(argv[2]);
  if (argc > 4 && std::string_view(argv[1]) == "--one") {  // for a profiler
    const partita::Server server(argv[2]);
    const auto bytes = static_cast<std::size_t>(std::stoul(argv[3]));
    fmt::print("{:.1f} us of server CPU per request\n",
               partita::cost_of(argv[2], server, bytes, std::stod(argv[4])));
    return 0;
  }
  return partita::compare(argc > 1 ? std::stoi(argv[1]) : 9, argc > 2 ? std::stod(argv[2]) : 0.5);
}
