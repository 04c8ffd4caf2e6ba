// partita gateway: takes requests over HTTP (and gRPC) and gives them to the workers of the node.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <memory>
#include <thread>

#include "act/apply.h"
#include "base/door/listener.h"
#include "base/nearest.h"
#include "base/secret_file.h"
#include "base/url.h"
#include "commands.h"
#include "decide/serving_inputs.h"
#include "decide/traces.h"
#include "forms/serving_forms.h"
#include "node/devices.h"
#include "serve/engines/engine_pool.h"
#include "serve/front/front.h"
#include "serve/front/oidc_tokens.h"
#include "serve/front/tokens.h"
#include "serve/grpc/grpc_front.h"
#include "serve/host/host.h"
#include "serve/peers/peer_pool.h"
#include "serve/wire/frames.h"

namespace partita::cli {
namespace {

constexpr serve::Nanos kLookForIdle = 10'000'000;
constexpr std::chrono::milliseconds kPlacePatience{3000}, kPlaceLook{50};

struct GatewayFlags {
  std::string state_directory, tokens, oidc, access_log, grpc, grace = "10s", stream_idle = "60s";
  std::string services, profiles, gpu, route = "tokens";
  std::string peer_token, tls_ca;
  std::vector<std::string> engines, canaries, shadows, caches;
  std::string canary_watch = "60s";
  serve::FrontOptions front = {};
  serve::CoreOptions core = {};
  int memory_mib = 1024;
  bool no_shed = false;
  DeviceFlags device;
};

// As browsers write it: "https://app.example.com", "http://localhost:3000"; in small letters, and
// without the scheme's own port.
Result<void> check_origins(const std::vector<std::string>& origins) {
  for (const std::string& one : origins) {
    if (one == "*") continue;
    const auto url = parse_url("--allow-origin", one);
    const bool odd =
        std::ranges::any_of(one, [](char c) { return c == '*' || (c >= 'A' && c <= 'Z'); });
    const bool own_port = url && one.ends_with(url->tls ? ":443" : ":80");
    if (!url || !url->path.empty() || odd || own_port)
      return bad_input("--allow-origin",
                       "'" + one + "': say SCHEME://HOST[:PORT] as browsers do, or '*'");
  }
  return {};
}

Result<serve::FrontOptions> front_options(Context& context, const GatewayFlags& flags) {
  serve::FrontOptions options = flags.front;
  if (options.tls_certificate.empty() != options.tls_key.empty())
    return bad_input("--tls-cert", "it and --tls-key go together");
  options.access_log.file = flags.access_log;
  TRY(check_origins(options.origins));
  if (!flags.oidc.empty()) {
    TRY(check_trusted_file(flags.oidc));
    const std::string text = TRY(read_input(context.files, "--oidc", flags.oidc));
    options.oidc = TRY(serve::OidcTokens::open(flags.oidc, text));
  }
  if (flags.tokens.empty()) return options;
  TRY(check_secret_file(flags.tokens));
  options.tokens = TRY(read_input(context.files, "--tokens", flags.tokens, serve::parse_tokens));
  return options;
}

// "mlp@2=5%"
Result<void> add_canaries(const std::string& flag_name, const std::vector<std::string>& words,
                          serve::CoreOptions& core) {
  for (const std::string& word : words) {
    const std::size_t at = word.rfind('@'), is = word.rfind('=');
    const bool parts = at != word.npos && is != word.npos && at > 0 && is > at + 1;
    std::string percent = parts ? word.substr(is + 1) : "";
    if (percent.ends_with('%')) percent.pop_back();
    const auto share = parse_number<double>(percent);
    if (!parts || !share || !(*share > 0 && *share <= 100))
      return bad_input(flag_name, "'" + word + "': say SERVICE@VERSION=PERCENT, as in mlp@2=5%");
    const serve::CanaryWish wish{.version = word.substr(at + 1, is - at - 1),
                                 .share = *share / 100,
                                 .shadow = flag_name == "--shadow"};
    if (!core.canaries.emplace(word.substr(0, at), wish).second)
      return bad_input(flag_name, "'" + word + "': a service has one canary or shadow");
  }
  return {};
}

// "mlp=64", "mlp=64,10m", "mlp=64,10m,shared"
Result<void> add_caches(const std::vector<std::string>& words, serve::CoreOptions& core) {
  for (const std::string& word : words) {
    const std::size_t is = word.find('=');
    std::vector<std::string> said = split(is == word.npos ? "" : word.substr(is + 1), ',');
    plan::CacheTerms cache{.shared = said.size() > 1 && said.back() == "shared"};
    if (cache.shared) said.pop_back();
    const auto mib = parse_number<int>(said.front());
    if (is == 0 || !mib || *mib < 0 || *mib > plan::kMostCacheMib || said.size() > 2)
      return bad_input("--cache", fmt::format("'{}': say SERVICE=MIB[,TIME][,shared], as in "
                                              "mlp=64,10m; MIB up to {}, 0: it has none",
                                              word, plan::kMostCacheMib));
    cache.memory = Mib{static_cast<double>(*mib)};
    if (said.size() == 2) cache.ttl = TRY(parse_duration("--cache", said.back(), kMaxTerm));
    if (!core.caches.emplace(word.substr(0, is), cache).second)
      return bad_input("--cache", fmt::format("'{}': a service has one cache", word));
  }
  return {};
}

Result<serve::CoreOptions> core_options(const GatewayFlags& flags) {
  serve::CoreOptions core = flags.core;
  core.memory_bytes = static_cast<std::size_t>(flags.memory_mib) << 20;
  core.shed = !flags.no_shed;
  TRY(add_canaries("--canary", flags.canaries, core));
  TRY(add_canaries("--shadow", flags.shadows, core));
  TRY(add_caches(flags.caches, core));
  core.canary_watch = TRY(parse_nanos("--canary-watch", flags.canary_watch));
  return core;
}

// Engines are for language models, of --services or of the assignment, where these say which there
// are: a name that is misspelt would be served without its promises.
Result<void> check_engines(const serve::GivenEngines& given, const std::string& services,
                           const actuate::Assignment& assignment) {
  std::map<std::string, bool> known;  // whether they are language models
  for (const auto* list : {&assignment.services, &given.services})
    for (const plan::Terms& one : *list) known[one.name] = one.tokens.has_value();
  std::vector<std::string> models;
  for (const auto& [name, speaks] : known)
    if (speaks) models.push_back(name);
  for (const auto& [name, urls] : given.urls) {
    const auto found = known.find(name);
    if (found != known.end() && !found->second)
      return bad_input("--engine", fmt::format("'{}' is no language model (kind: llm)", name));
    if (found == known.end() && !services.empty())
      return bad_input("--engine",
                       fmt::format("there is no language model '{}' in {}, which has: {}{}", name,
                                   services, joined(models, ", "), did_you_mean(name, models)));
  }
  return {};
}

// Language models besides those of the assignment, and where their engines are.
Result<serve::GivenEngines> given_engines(Context& context, const GatewayFlags& flags,
                                          const std::string& directory) {
  serve::GivenEngines given;
  for (const std::string& word : flags.engines) {
    const std::size_t equals = word.find('=');
    if (equals == 0 || equals == std::string::npos)
      return bad_input("--engine", "SERVICE=URL is wanted");
    const std::string url = word.substr(equals + 1);
    TRY(parse_url_prefix("--engine", url));
    given.urls[word.substr(0, equals)].push_back(url);
  }
  if (!flags.services.empty()) {
    auto parsed = TRY(read_input(context.files, "--services", flags.services, forms::parse_services,
                                 files_beside(context.files, flags.services)));
    auto services = TRY(decide::with_traces(context.files, flags.services, std::move(parsed)));
    given.services = {services.begin(), services.end()};
  }
  // One that cannot be read is said by who follows it, and may be mended meanwhile.
  const auto assignment = actuate::read_assignment(context.files, directory);
  TRY(check_engines(given, flags.services, assignment.value_or(actuate::Assignment{})));
  return given;
}

Result<serve::EngineOptions> engine_options(Context& context, const GatewayFlags& flags) {
  serve::EngineOptions options;
  options.shed = !flags.no_shed;
  options.queue_limit = flags.core.queue_limit;
  options.stream_idle_ns = TRY(parse_nanos("--stream-idle", flags.stream_idle));
  if (flags.route != "tokens")
    options.routing =
        flags.route == "round-robin" ? serve::Routing::round_robin : serve::Routing::least_requests;
  if (flags.profiles.empty()) return options;
  const Result<hw::GpuModel> gpu = hw::builtin_model(flags.gpu);
  if (!gpu) return bad_input("--gpu", gpu.error().message);
  auto measured = TRY(decide::load_measured(context.files, "--profiles", flags.profiles, *gpu));
  options.engines = std::move(measured.engines);
  const auto whole = std::ranges::max_element(gpu->profiles, {}, &hw::MigProfile::gpcs);
  for (auto& [model, engines] : options.engines)
    for (profile::TokenEngine& one : engines)
      if (one.mig_profile.empty() && whole != gpu->profiles.end()) one.mig_profile = whole->name;
  return options;
}

// What gateways of one fleet show each other; its first line.
Result<serve::PeerOptions> peer_options(Context& context, const GatewayFlags& flags) {
  serve::PeerOptions options{.tls = !flags.front.tls_certificate.empty(), .ca_file = flags.tls_ca};
  if (flags.peer_token.empty()) return options;
  options.token = TRY(read_secret(context, "--peer-token", flags.peer_token));
  if (const std::string fault = serve::token_fault(options.token); !fault.empty())
    return bad_input(flags.peer_token + ":1", fault);
  const Url here{.tls = options.tls, .host = "127.0.0.1"};  // whether the certificates can be read
  TRY(serve::HttpDialer::to(here, {.ca_file = flags.tls_ca}));
  return options;
}

// Everything that lives while the gateway runs, in the order in which it may die.
struct Running {
  std::unique_ptr<serve::Loop> loop;
  std::unique_ptr<serve::Core> core;
  std::unique_ptr<serve::EnginePool> engines;
  std::unique_ptr<serve::PeerPool> peers = {};
  std::unique_ptr<serve::Front> front;
  std::unique_ptr<serve::GrpcFront> grpc = {};
  RealProcesses processes = {};
  std::unique_ptr<serve::Host> host = {};
  std::unique_ptr<serve::Loop::Timer> ending = {};
  serve::Nanos patience_ends = 0;
};

// What was decided while the gateway before ran, and what is from now on. A file that cannot be
// read keeps nobody from being served.
void keep_choices(Context& context, Running& running, const std::string& path,
                  const std::function<void(const std::string&)>& tell, serve::CoreOptions& core) {
  core.chosen = [&running](const actuate::GatewayChoices& choices) {
    if (running.host) running.host->keep(choices);
  };
  if (!context.files.exists(path)) return;
  const Result<std::string> text = context.files.read(path);
  Result<actuate::GatewayChoices> choices =
      text ? actuate::parse_choices(path, *text) : failed(text.error());
  if (choices)
    core.choices = *std::move(choices);
  else
    tell(to_string(choices.error()) + "; what was unloaded, or on trial, is forgotten");
}

// Opens it; where something still holds the place, as a gateway that was killed just now may, tries
// again for kPlacePatience.
template <class Open>
auto open_place(Context& context, const std::string& place, const Open& open) {
  auto opened = open();
  const auto in_use = [&] { return !opened && opened.error().code == ErrorCode::in_use; };
  if (!in_use()) return opened;
  say(context, fmt::format("{} is in use; waiting up to {:.0f} s for it\n", place,
                           std::chrono::duration<double>(kPlacePatience).count()));
  const auto until = std::chrono::steady_clock::now() + kPlacePatience;
  while (in_use() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(kPlaceLook);
    opened = open();
  }
  return opened;
}

// Null: nothing is handed over.
serve::PeerPool* open_peers(Running& running, const serve::PeerOptions& options,
                            const std::function<void(const std::string&)>& tell) {
  if (!options.token.empty())
    running.peers = std::make_unique<serve::PeerPool>(*running.loop, options, tell);
  return running.peers.get();
}

// Lets nothing new in, answers what is under way, and ends the loop.
void wind_up(Context& context, Running& running, serve::Nanos grace) {
  if (running.ending) return running.loop->stop();  // asked twice: now
  say(context, "stopping: requests under way are answered first\n");
  running.core->close_doors();
  running.engines->close_doors();
  running.front->drain();
  if (running.grpc) running.grpc->drain();
  running.patience_ends = serve::Loop::now_ns() + grace;
  running.ending = std::make_unique<serve::Loop::Timer>(*running.loop, [&running](std::int64_t) {
    const serve::Nanos now = serve::Loop::now_ns();
    const bool done =
        running.core->idle() && running.engines->idle() && running.front->connections() == 0;
    if (done || now >= running.patience_ends) return running.loop->stop();
    running.ending->at(now + kLookForIdle);
  });
  running.ending->at(serve::Loop::now_ns());
}

// The door that takes gRPC, by the same rules as the front and with its clients' memory.
Result<void> open_grpc(Context& context, const std::string& listen,
                       const serve::FrontOptions& secured, Running& running) {
  const serve::GrpcOptions options{.listen = listen,
                                   .tls_certificate = secured.tls_certificate,
                                   .tls_key = secured.tls_key,
                                   .tokens = secured.tokens,
                                   .oidc = secured.oidc,
                                   .new_traces = secured.new_traces,
                                   .peers = running.peers.get(),
                                   .log = running.front->access_log(),
                                   .memory = running.front->shared_memory()};
  running.grpc = TRY(open_place(context, listen, [&] {
    return serve::GrpcFront::open(*running.loop, *running.core, options);
  }));
  return {};
}

// In front of engines that are elsewhere there need be no GPU here.
Result<std::string> state_directory_of(Context& context, const GatewayFlags& flags) {
  auto found = found_state_directory(context, flags.device, flags.state_directory);
  if (found || found.error().code != ErrorCode::no_driver || flags.engines.empty()) return found;
  return state_home() + "/gateway";
}

Result<Exit> run_gateway(Context& context, const GatewayFlags& flags) {
  const auto grace = TRY(parse_nanos("--grace", flags.grace));
  serve::FrontOptions options = TRY(front_options(context, flags));
  const auto engines = TRY(engine_options(context, flags));
  const auto peers = TRY(peer_options(context, flags));
  const std::string directory = TRY(state_directory_of(context, flags));
  const auto given = TRY(given_engines(context, flags, directory));
  TRY(context.files.make_directories(directory));

  Running running;
  serve::raise_descriptor_limit();
  running.loop = TRY(serve::Loop::make());
  TRY(running.loop->on_signals({SIGINT, SIGTERM, SIGHUP},
                               [&](int) { wind_up(context, running, grace); }));
  const auto tell = [&context](const std::string& line) { say(context, line + "\n"); };
  serve::CoreOptions core = TRY(core_options(flags));
  core.link_path = serve::link_path(directory);
  keep_choices(context, running, actuate::choices_path(directory), tell, core);
  running.core = TRY(open_place(context, core.link_path,
                                [&] { return serve::Core::open(*running.loop, core, tell); }));
  running.engines = std::make_unique<serve::EnginePool>(*running.loop, engines, tell);
  const bool tls = !options.tls_certificate.empty();
  options.peers = open_peers(running, peers, tell);
  const serve::FrontOptions secured = options;
  running.front = TRY(open_place(context, flags.front.listen, [&] {
    return serve::Front::open(*running.loop, *running.core, secured, running.engines.get());
  }));
  if (!flags.grpc.empty()) TRY(open_grpc(context, flags.grpc, secured, running));
  const std::string host = flags.front.listen.substr(0, flags.front.listen.rfind(':'));
  say(context,
      fmt::format("listening at {}://{}:{}{}, workers at {}\n", tls ? "https" : "http", host,
                  running.front->port(),
                  running.grpc ? fmt::format(", gRPC at port {}", running.grpc->port()) : "",
                  core.link_path));
  running.host = std::make_unique<serve::Host>(
      serve::HostDoors{*running.loop, *running.core, *running.engines, context.files,
                       running.processes, directory, tell, given, running.peers.get()});
  running.loop->run();
  return Exit::done;
}

void add_flags(CLI::App& command, GatewayFlags& flags) {
  takes(command, "--state-dir", flags.state_directory, "--http", preset(flags.front.listen),
        "--grpc", flags.grpc, "--tokens", flags.tokens, "--oidc", flags.oidc, "--allow-origin",
        flags.front.origins, "--compress", flags.front.compress, "--tls-cert",
        flags.front.tls_certificate, "--tls-key", flags.front.tls_key);
  flag(command, "--tls-ca", flags.tls_ca, "Here: of the other gateways")
      ->needs(flag(command, "--peer-token", flags.peer_token));
  takes(command, "--queue-limit", within(flags.core.queue_limit, 1, 1'000'000), "--memory",
        within(flags.memory_mib, 1, 1'000'000), "--no-shed", flags.no_shed, "--cache", flags.caches,
        "--canary", flags.canaries, "--shadow", flags.shadows, "--canary-watch",
        preset(flags.canary_watch), "--engine", flags.engines, "--route",
        one_of(flags.route, {"tokens", "round-robin", "least-requests"}), "--stream-idle",
        preset(flags.stream_idle), "--services",
        also(flags.services, "Language models beside those of the assignment"));
  flag(command, "--profiles", flags.profiles, "Here: of the language models")
      ->needs(flag(command, "--gpu", flags.gpu, "Here: the one whose profiles are taken"));
  takes(command, "--access-log", flags.access_log, "--otlp", flags.front.access_log.otlp,
        "--new-traces", flags.front.new_traces, "--grace", preset(flags.grace));
}

}  // namespace

Command add_gateway(CLI::App& app) {
  auto [command, flags] = adding<GatewayFlags>(
      app, "gateway", "Route requests for this node's services to its workers");
  add_flags(*command, *flags);
  add_device_flags(*command, flags->device);
  return runs(command, flags, run_gateway,
              "partita gateway --http 127.0.0.1:8000 --grpc 127.0.0.1:8001\n"
              "partita gateway --http 0.0.0.0:8443 --tls-cert chain.pem --tls-key key.pem --tokens "
              "tokens.txt\n"
              "partita gateway --services services.yaml --engine chat=http://gpu1:8000 --engine "
              "chat=http://gpu2:8000\n"
              "curl localhost:8000/v2/models/chat");
}

}  // namespace partita::cli
