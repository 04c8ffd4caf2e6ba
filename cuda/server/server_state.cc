#include "server/server_state.h"

#include <fmt/format.h>

#include "base/form.h"

namespace partita::remote::server {
namespace {

constexpr Range kNumbers{.low = 0, .high = 9e15};

void describe(Form& f, SessionEntry& entry) {
  f.whole("session", entry.session, "its number");
  f.text("part", entry.part, "where it runs");
  f.note("shape", entry.shape, "what it asked for");
  f.note("program", entry.program, "as the client says");
  f.note("address", entry.address, "where the client is");
  f.whole("client_pid", entry.client_pid, "as the client says");
  f.whole("worker_pid", entry.worker_pid, kNumbers, "the process of the session");
  f.note("worker_identity", entry.worker_identity, "what tells it from a later one");
  f.whole("begun_s", entry.begun_s, kNumbers, "seconds since 1970");
  f.whole("operations", entry.operations, "so far");
  f.whole("launches", entry.launches, "so far");
  f.whole("refused", entry.refused, "operations so far");
  f.whole("bytes_in", entry.bytes_in, "so far");
  f.whole("bytes_out", entry.bytes_out, "so far");
  f.whole("memory", entry.memory, "allocated now, bytes");
}

void describe(Form& f, ServerState& state) {
  f.document("RemoteServer");
  f.lines("  ");
  f.whole("pid", state.pid, kNumbers, "the server's process");
  f.note("identity", state.identity, "what tells it from a later one");
  f.text("address", state.address, "where it listens");
  f.note("backend", state.backend, "cpu or cuda");
  f.integer("parts", state.parts, kNumbers, "sessions that can be at the same time");
  f.integer("ready", state.ready, kNumbers, "workers that wait for a client");
  f.integer("waiting", state.waiting, kNumbers, "clients that wait for a part");
  f.list("sessions", state.sessions, describe, {.indent = "    "}, "those that run");
}

}  // namespace

std::string server_state_json(const ServerState& state) { return write_form(state, describe); }

Result<ServerState> parse_server_state(const std::string& file, std::string_view text) {
  return read_form<ServerState>(file, text, describe);
}

std::string server_metrics(const ServerState& state, const ServerTotals& ended) {
  ServerTotals all = ended;
  std::uint64_t memory = 0;
  for (const SessionEntry& session : state.sessions) {
    all.operations += session.operations;
    all.launches += session.launches;
    all.refused += session.refused;
    all.bytes_in += session.bytes_in;
    all.bytes_out += session.bytes_out;
    memory += session.memory;
  }
  std::string text;
  const auto metric = [&text](std::string_view name, std::string_view type, std::string_view help,
                              std::uint64_t value) {
    text += fmt::format(
        "# HELP partita_remote_{0} {1}\n# TYPE partita_remote_{0} {2}\n"
        "partita_remote_{0} {3}\n",
        name, help, type, value);
  };
  metric("sessions", "gauge", "sessions that run", state.sessions.size());
  metric("parts", "gauge", "sessions that can run", static_cast<std::uint64_t>(state.parts));
  metric("ready_workers", "gauge", "workers that wait", static_cast<std::uint64_t>(state.ready));
  metric("waiting_clients", "gauge", "clients that wait",
         static_cast<std::uint64_t>(state.waiting));
  metric("memory_bytes", "gauge", "device memory allocated by sessions", memory);
  metric("sessions_total", "counter", "sessions begun", all.sessions);
  metric("denied_total", "counter", "clients turned away", all.denied);
  metric("bad_hellos_total", "counter", "connections without a good hello", all.bad_hellos);
  metric("operations_total", "counter", "operations received", all.operations);
  metric("launches_total", "counter", "kernels launched", all.launches);
  metric("refused_total", "counter", "operations refused", all.refused);
  metric("bytes_in_total", "counter", "bytes copied to devices", all.bytes_in);
  metric("bytes_out_total", "counter", "bytes copied from devices", all.bytes_out);
  return text;
}

}  // namespace partita::remote::server
