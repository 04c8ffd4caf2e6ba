#include "base/parse_number.h"
#include "flags.h"
#include "lease/lease_desk.h"
#include "server/remote.h"

namespace partita::cli {
namespace {

Result<lease::Wanted> wanted_of(const Said& said) {
  lease::Wanted wanted;
  wanted.owner = said.text("--for");
  wanted.profile = said.text("--profile");
  wanted.from = said.text("--from");
  wanted.exact = said.given("--exact");
  wanted.gpu = parse_number<int>(said.text("--gpu"));
  wanted.start = parse_number<int>(said.text("--start"));
  wanted.while_pid = parse_number<long>(said.text("--while")).value_or(0);
  if (wanted.owner.empty()) return bad_input("--for", "whose lease?");
  if (!said.given("--ttl")) return wanted;
  const Result<Seconds> ttl = parse_duration("--ttl", said.text("--ttl"));
  if (!ttl) return failed(ttl.error());
  wanted.ttl_s = ttl->value;
  return wanted;
}

}  // namespace

Result<Exit> remote_lease(const Remote& remote) {
  const auto wanted = wanted_of(remote.said);
  if (!wanted) return failed(wanted.error());
  const auto answer = take_of_agent(remote.client, *wanted);
  if (!answer) return failed(by_flag(answer.error()));
  return show_lease(remote.context, remote.said.output(), *answer);
}

Result<Exit> remote_return(const Remote& remote) {
  const std::string owner = remote.said.text("--for");
  if (owner.empty()) return bad_input("--for", "whose leases?");
  const auto answer = give_back_to_agent(remote.client, owner);
  if (!answer) return failed(by_flag(answer.error()));
  return show_returned(remote.context, remote.said.output(), owner, *answer);
}

Result<Exit> remote_leases(const Remote& remote) {
  const auto text = remote.client.call("leases");
  if (!text) return failed(text.error());
  auto leases = lease::parse_leases_document("the server's answer", *text);
  if (!leases) return failed(leases.error());
  return show_leases(remote.context, remote.said.output(), {*std::move(leases), {}});
}

}  // namespace partita::cli
