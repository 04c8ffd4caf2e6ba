#include "interop/balancer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>

#include "base/form.h"
#include "base/parse_number.h"
#include "base/url.h"
#include "interop/yaml_text.h"

namespace partita::interop {
namespace {

constexpr double kHeaviest = 256;       // HAProxy's; of the node with the largest share
constexpr std::size_t kMostAsked = 16;  // times after the first, for one request
constexpr double kRoom = 4, kLeastSeconds = 60;  // of timeouts: times the promise
constexpr std::size_t kMostHashed = 40;  // letters of a name: nginx's hash takes 46 by default
constexpr std::string_view kWritten =
    "# Written by `partita export`; what is changed here is lost.\n";

struct Address {
  std::string host;
  int port = 0;
};

Result<Address> parse_address(const std::string& node, const std::string& text) {
  const std::size_t colon = text.rfind(':');
  const auto port = colon == text.npos ? std::nullopt : parse_number<int>(text.substr(colon + 1));
  const bool fine =
      port && *port > 0 && *port < 65536 && colon > 0 &&
      std::ranges::none_of(text, [](unsigned char c) {
        return std::isalnum(c) == 0 && c != '.' && c != ':' && c != '-' && c != '[' && c != ']';
      });
  if (!fine)
    return bad_input("", fmt::format("the gateway of {} is '{}', no HOST:PORT", node, text));
  return Address{text.substr(0, colon), *port};
}

// What all three take as a name, and a path as it is.
bool is_plain(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
}

// Of hosts as they stand in an address: [::1] is ::1 by itself.
std::string bare(const std::string& host) {
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  return bracketed ? host.substr(1, host.size() - 2) : host;
}

Result<void> check(BalancedServices services, BalancerKind kind) {
  const auto why = leave_out_unfit(services, kind);
  return why.empty() ? Result<void>() : bad_input("", why.front());
}

// The largest share is the heaviest; whoever has any weighs at least 1.
int weight_of(const BalancedService& service, const BalancedNode& node) {
  double largest = 0;
  for (const BalancedNode& one : service.nodes) largest = std::max(largest, one.share);
  if (node.share <= 0 || largest <= 0) return 0;
  return std::max(1, static_cast<int>(std::lround(kHeaviest * node.share / largest)));
}

// Of all services together.
double longest_limit_s(const BalancedServices& services) {
  double limit = kLeastSeconds;
  for (const BalancedService& one : services) limit = std::max(limit, answer_limit_s(one));
  return limit;
}

// One of the two doors of a balancer.
struct Door {
  std::string listen;
  char letter;  // of its pools' names
  std::string BalancedNode::*address;
  std::string ca;
  KnownHosts hosts;
  std::string pool(const BalancedService& service) const {
    return fmt::format("{}_{}", letter, service.name);
  }
  // HAProxy's alone; no pool is called so.
  std::string unchecked(const BalancedService& service) const { return "any_" + pool(service); }
};
std::vector<Door> doors_of(const BalancerOptions& options) {
  std::vector<Door> doors;
  if (!options.http.empty())
    doors.push_back({options.http, 's', &BalancedNode::http, options.ca, options.hosts});
  if (!options.grpc.empty())
    doors.push_back({options.grpc, 'g', &BalancedNode::grpc, options.ca, options.hosts});
  return doors;
}

// Where it listens, as it is written into the file: [HOST:]PORT, of which nginx takes a port alone.
Result<void> check_doors(const BalancerOptions& options, bool port_alone) {
  for (const auto& [flag, text] : {std::pair("--http", options.http), {"--grpc", options.grpc}}) {
    if (text.empty()) continue;
    const std::size_t colon = text.rfind(':');
    const std::string port = colon == text.npos ? text : text.substr(colon + 1);
    const bool host = std::ranges::all_of(text.substr(0, text.size() - port.size()), [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
             std::string_view(".-_:*[]").find(c) != std::string_view::npos;
    });
    const auto number = parse_number<int>(port);
    const bool fine = number && *number >= 1 && *number <= 65'535;
    if (!host || !fine || (colon == text.npos && !port_alone))
      return bad_input("", fmt::format("{} is '{}', no {} where a balancer could listen", flag,
                                       text, port_alone ? "[HOST:]PORT" : "HOST:PORT"));
  }
  return {};
}

// ---- HAProxy

// A name that is not found keeps its server down, and no file from being read (init-addr).
// Gateways say that they are asked for what they do not have with 404, and that they cannot now
// with 503: another one is asked then. An answer that has begun is never asked for again, nor is
// what must not run twice (the frontend says so).
constexpr std::string_view kHaproxyDefaults = R"(
defaults
  mode http
  timeout connect 1s
  timeout check 1s
  option srvtcpka
  srvtcpka-idle 1s
  srvtcpka-intvl 1s
  srvtcpka-cnt 3
  option redispatch 1
  option idle-close-on-response
  retries 2
  retry-on conn-failure empty-response 404 503
  balance roundrobin
  default-server init-addr libc,none
)";

std::string haproxy_frontend(const BalancedServices& services, const Door& door) {
  const bool grpc = door.letter == 'g';
  std::string text = fmt::format("\nfrontend partita_{}\n  bind {}{}\n", grpc ? "grpc" : "http",
                                 door.listen, grpc ? " proto h2" : "");
  text +=
      "  http-request disable-l7-retry if { req.hdr(partita-idempotent) -i false }\n"
      "  http-request set-var(txn.service) req.hdr(partita-service)\n";
  // What has begun to go out before all of it is there is never sent again: bodies that come behind
  // their heads are waited for. Of gRPC's streams that would be for ever.
  if (!grpc)
    text +=
        "  option http-buffer-request\n"
        "  http-request set-var(txn.service) path,field(4,/) if { path_beg /v2/models/ }\n";
  for (const BalancedService& one : services)
    text += fmt::format(
        "  use_backend {2} if {{ var(txn.service) -m str {1} }} {{ nbsrv({0}) eq 0 }} "
        "!{{ req.hdr(partita-idempotent) -i false }}\n"
        "  use_backend {0} if {{ var(txn.service) -m str {1} }}\n",
        door.pool(one), one.name, door.unchecked(one));
  return text + "  default_backend nobody\n";
}

bool is_name(const std::string& host) {
  return std::ranges::any_of(host, [](unsigned char c) { return std::isalpha(c) != 0; }) &&
         host.find(':') == host.npos;
}

// Of certificates HAProxy compares names; of addresses it checks who signed them.
std::string haproxy_tls(const std::string& host, const Door& door, bool checked) {
  if (door.ca.empty()) return door.letter == 'g' ? " proto h2" : "";
  std::string text = fmt::format(" ssl verify required ca-file {}", door.ca);
  if (is_name(host)) text += fmt::format(" sni str({0}) verifyhost {0}", host);
  if (is_name(host) && checked) text += fmt::format(" check-sni {}", host);
  if (door.letter != 'g') return text;
  return text + (checked ? " alpn h2 check-alpn http/1.1" : " alpn h2");
}

// Whether HAProxy can ask the HTTP door of a node that it sends gRPC to: where a check goes is an
// address, or where the server is; of a name that is not found the file would be refused.
bool is_asked(const BalancedNode& node) {
  if (node.http.empty() || node.grpc.empty()) return !node.http.empty();
  const std::string host = parse_address("", node.http)->host;
  return is_address(bare(host)) || host == parse_address("", node.grpc)->host;
}

// What a name was found to be, for where it is not found when the file is read.
std::string haproxy_address(const std::string& host, const Door& door) {
  const auto known = door.hosts.find(host);
  if (known == door.hosts.end() || known->second.empty()) return {};
  return fmt::format(" init-addr libc,{},none", known->second.front());
}

// A check of another protocol than HTTP has none to name: all of a pool are asked, or none.
bool are_asked(const BalancedService& service, const Door& door) {
  return door.letter == 's' || std::ranges::all_of(service.nodes, is_asked);
}

std::string haproxy_server(const BalancedService& service, const BalancedNode& node,
                           const Door& door) {
  const std::string host = parse_address("", node.*door.address)->host;
  std::string text = fmt::format("  server {} {} weight {} check{}{}", node.node,
                                 node.*door.address, weight_of(service, node),
                                 haproxy_tls(host, door, true), haproxy_address(host, door));
  if (door.letter != 'g' || !are_asked(service, door)) return text + "\n";
  const auto asked = parse_address("", node.http);
  if (is_address(bare(asked->host))) text += " addr " + asked->host;
  return text + fmt::format(" port {} check-proto h1\n", asked->port);
}

std::string haproxy_backend(const BalancedService& service, const Door& door) {
  std::string text = fmt::format("\nbackend {}\n  timeout server {}s\n", door.pool(service),
                                 answer_limit_s(service));
  if (are_asked(service, door))
    text += fmt::format("  option httpchk GET /v2/models/{}/ready\n", service.name) +
            "  http-check expect rstatus ^(200|401)\n";  // 401: it wants a token, so it is there
  text += "  default-server inter 500ms fastinter 200ms fall 2 rise 1\n";
  for (const BalancedNode& node : service.nodes)
    if (!(node.*door.address).empty()) text += haproxy_server(service, node, door);
  return text;
}

// Who is asked where no node passes its check: all in turn, whatever checks and weights say. A
// service that has just moved is where the check of half a second ago did not find it.
// Twice, as the turns are shared with other requests; what is weighed anew (roundrobin) skips some.
std::string haproxy_unchecked(const BalancedService& service, const Door& door) {
  std::string text = fmt::format(
      "\nbackend {}\n  balance static-rr\n  retries {}\n  timeout server {}s\n",
      door.unchecked(service), std::clamp(2 * service.nodes.size(), std::size_t{1}, kMostAsked),
      answer_limit_s(service));
  for (const BalancedNode& node : service.nodes)
    if (const std::string& address = node.*door.address; !address.empty()) {
      const std::string host = parse_address("", address)->host;
      text += fmt::format("  server {} {}{}{}\n", node.node, address,
                          haproxy_tls(host, door, false), haproxy_address(host, door));
    }
  return text;
}

// ---- nginx

// A name's own addresses, as nginx takes a name for all that it has.
std::vector<std::string> nginx_hosts(const std::string& host, const KnownHosts& known) {
  if (is_address(bare(host))) return {host};
  const auto found = known.find(host);
  std::vector<std::string> all;
  if (found == known.end()) return all;
  for (const std::string& one : found->second)
    all.push_back(one.find(':') == one.npos ? one : "[" + one + "]");
  return all;
}

std::string nginx_upstream(const BalancedService& service, const Door& door) {
  std::string text = fmt::format("upstream {} {{\n", door.pool(service));
  bool any = false;
  for (const BalancedNode& node : service.nodes) {
    if ((node.*door.address).empty()) continue;
    const int weight = weight_of(service, node);
    const Address address = *parse_address("", node.*door.address);
    const std::vector<std::string> hosts = nginx_hosts(address.host, door.hosts);
    const std::string what =
        is_address(bare(address.host)) ? node.node : node.node + ", " + address.host;
    if (hosts.empty()) text += fmt::format("  # {}: nobody knows that name\n", what);
    for (const std::string& host : hosts)
      text += weight > 0
                  ? fmt::format("  server {}:{} weight={} max_fails=1 fail_timeout=1s;  # {}\n",
                                host, address.port, weight, what)
                  : fmt::format("  server {}:{} down;  # {}\n", host, address.port, what);
    any = any || !hosts.empty();
  }
  if (!any) text += "  server 127.0.0.1:9 down;\n";
  return text + "  keepalive 64;\n}\n";
}

// Words that mean something else at the head of a line of `map`.
bool is_word_of_map(const std::string& name) {
  return name == "default" || name == "hostnames" || name == "include" || name == "volatile";
}

// A name at the head of a line of `map`; a long one as an expression, which is in no hash.
std::string nginx_word(const std::string& name) {
  if (name.size() <= kMostHashed) return (is_word_of_map(name) ? "\\" : "") + name;
  std::string text = "~^";
  for (const char c : name) text += c == '.' ? "[.]" : std::string(1, c);
  return text + "$";
}

// Which pool a header names.
std::string nginx_map(const BalancedServices& services, const Door& door) {
  std::string text =
      fmt::format("map $http_partita_service $partita_{} {{\n  default \"\";\n", door.letter);
  for (const BalancedService& one : services)
    text += fmt::format("  {} {};\n", nginx_word(one.name), door.pool(one));
  return text + "}\n";
}

std::string nginx_server(const BalancedServices& services, const Door& door) {
  const bool grpc = door.letter == 'g';
  const std::string word = grpc ? "grpc" : "proxy";
  const std::string scheme = (grpc ? "grpc" : "http") + std::string(door.ca.empty() ? "" : "s");
  std::string text = fmt::format("server {{\n  listen {}{};\n  client_max_body_size 0;\n",
                                 door.listen, grpc ? " http2" : "");
  // Not after a timeout: whoever has a request and takes long would run it beside the next one.
  text += fmt::format(
      "  {0}_connect_timeout 1s;\n  {0}_read_timeout {1}s;\n  {0}_send_timeout {1}s;\n"
      "  {0}_next_upstream error http_404 http_503 non_idempotent;\n"
      "  {0}_next_upstream_tries 3;\n",
      word, longest_limit_s(services));
  if (!grpc)
    text +=
        "  proxy_http_version 1.1;\n  proxy_set_header Connection \"\";\n"
        "  proxy_set_header Host $host;\n  proxy_buffering off;\n";
  if (!door.ca.empty())
    text += fmt::format(
        "  {0}_ssl_trusted_certificate {1};\n  {0}_ssl_verify on;\n  {0}_ssl_name partita;\n", word,
        door.ca);
  for (const BalancedService& one : services)
    if (!grpc)
      text += fmt::format(
          "  location /v2/models/{0}/ {{ proxy_read_timeout {3}s; proxy_pass {2}://{1}; }}\n"
          "  location = /v2/models/{0} {{ proxy_pass {2}://{1}; }}\n",
          one.name, door.pool(one), scheme, answer_limit_s(one));
  text += fmt::format(
      "  location / {{\n    if ($partita_{0} = \"\") {{ return 404; }}\n    {1}_pass "
      "{2}://$partita_{0};\n  }}\n}}\n",
      door.letter, word, scheme);
  return text;
}

// ---- Envoy

void tell_endpoint(Form& f, const BalancedNode& node, const Address& address, int weight) {
  f.told_object("endpoint", [&](Form& endpoint) {
    endpoint.told_object("address", [&](Form& g) {
      g.told_object("socket_address", [&](Form& socket) {
        socket.told("address", bare(address.host));
        socket.told("port_value", address.port);
      });
    });
    endpoint.told("hostname", node.node);
  });
  f.told("load_balancing_weight", std::max(weight, 1));  // none may be 0
  f.told("health_status", weight > 0 ? "UNKNOWN" : "DRAINING");
}

struct Cluster {
  const BalancedService* service;
  Door door;
};

void tell_cluster(Form& f, const Cluster& cluster) {
  std::vector<const BalancedNode*> nodes;
  for (const BalancedNode& node : cluster.service->nodes)
    if (!(node.*cluster.door.address).empty()) nodes.push_back(&node);
  f.told("@type", "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment");
  f.told("cluster_name", cluster.door.pool(*cluster.service));
  const std::vector<int> one{0};  // of places
  f.rows("endpoints", one,
         [&](Form& g, int) {
           g.rows("lb_endpoints", nodes,
                  [&](Form& h, const BalancedNode* node) {
                    tell_endpoint(h, *node, *parse_address(node->node, node->*cluster.door.address),
                                  weight_of(*cluster.service, *node));
                  },
                  {});
         },
         {});
}

}  // namespace

std::set<std::string> host_names(const BalancedServices& services) {
  std::set<std::string> names;
  for (const BalancedService& service : services)
    for (const BalancedNode& node : service.nodes)
      for (const std::string* address : {&node.http, &node.grpc})
        if (const auto fine = parse_address(node.node, *address);
            fine && !is_address(bare(fine->host)))
          names.insert(fine->host);
  return names;
}

std::vector<std::string> leave_out_unfit(BalancedServices& services, BalancerKind kind) {
  std::vector<std::string> why;
  std::map<std::string, std::string> alike;  // names by how nginx compares them
  std::erase_if(services, [&](const BalancedService& service) {
    const bool plain = is_plain(service.name);
    const auto [first, fresh] = alike.try_emplace(lower(service.name), service.name);
    if (plain && (fresh || kind != BalancerKind::nginx)) return false;
    why.push_back(
        plain ? fmt::format("service '{}': nginx does not tell it from '{}'", service.name,
                            first->second)
              : fmt::format(
                    "service '{}': a balancer's names have letters, digits, '-', '_' and '.' only",
                    service.name));
    return true;
  });
  for (BalancedService& service : services)
    for (BalancedNode& node : service.nodes)
      for (std::string* address : {&node.http, &node.grpc}) {
        if (address->empty()) continue;
        const auto fine = parse_address(node.node, *address);
        if (fine && (kind != BalancerKind::envoy || is_address(bare(fine->host)))) continue;
        const std::string said =
            fine ? fmt::format("the gateway of {} is '{}', and Envoy's endpoints are IP addresses",
                               node.node, *address)
                 : fine.error().message;
        if (std::ranges::count(why, said) == 0) why.push_back(said);
        address->clear();
      }
  return why;
}

Result<std::string> haproxy_config(const BalancedServices& services,
                                   const BalancerOptions& options) {
  TRY(check_doors(options, false));
  TRY(check(services, BalancerKind::haproxy));
  std::string text(kWritten);
  if (!options.stats_socket.empty())
    text += fmt::format("global\n  stats socket {} mode 600 level admin\n", options.stats_socket);
  text += kHaproxyDefaults;
  text += fmt::format("  timeout client {0}s\n  timeout server {0}s\n", longest_limit_s(services));
  for (const Door& door : doors_of(options)) text += haproxy_frontend(services, door);
  for (const Door& door : doors_of(options))
    for (const BalancedService& one : services)
      text += haproxy_backend(one, door) + haproxy_unchecked(one, door);
  return text +
         "\nbackend nobody\n  http-request return status 404 content-type text/plain string \"no "
         "such service\"\n";
}

Result<std::string> nginx_config(const BalancedServices& services, const BalancerOptions& options) {
  TRY(check_doors(options, true));
  TRY(check(services, BalancerKind::nginx));
  std::string text(kWritten);
  for (const Door& door : doors_of(options)) {
    for (const BalancedService& one : services) text += nginx_upstream(one, door);
    text += nginx_map(services, door) + nginx_server(services, door);
  }
  return text;
}

Result<std::string> envoy_endpoints(const BalancedServices& services) {
  TRY(check(services, BalancerKind::envoy));
  std::vector<Cluster> clusters;
  for (const Door& door : doors_of({.http = "*", .grpc = "*"}))
    for (const BalancedService& one : services) clusters.push_back({&one, door});
  return write_form([&](Form& f) { f.rows("resources", clusters, tell_cluster, {}); });
}

double answer_limit_s(const BalancedService& service) {
  return std::max(kLeastSeconds, std::ceil(kRoom * service.answer_ms / 1e3));
}

std::string envoy_timeouts(const BalancedServices& services) {
  std::string all;
  for (const BalancedService& one : services)
    all += fmt::format("{}{} {}s", all.empty() ? "" : ", ", one.name, answer_limit_s(one));
  return fmt::format(
      "endpoints have no timeouts, and Envoy's routes give up after 15 s unless "
      "they say otherwise; 'timeout' that they need: {}",
      all.empty() ? "none" : all);
}

BalancedServices without_weights(BalancedServices services) {
  for (BalancedService& service : services)
    for (BalancedNode& node : service.nodes) node.share = 0;
  return services;
}

std::string haproxy_weights(const BalancedServices& services, const BalancerOptions& options) {
  std::string text;
  for (const Door& door : doors_of(options))
    for (const BalancedService& service : services)
      for (const BalancedNode& node : service.nodes)
        if (!(node.*door.address).empty())
          text += fmt::format("{}set weight {}/{} {}", text.empty() ? "" : ";", door.pool(service),
                              node.node, weight_of(service, node));
  return text;
}

}  // namespace partita::interop
