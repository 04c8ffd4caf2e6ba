#include "fleet/etcd/etcd_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/append.h"
#include "base/base64.h"
#include "base/document.h"
#include "base/form.h"
#include "base/parse_number.h"

namespace partita::fleet {
namespace {

constexpr auto kCompact = Form::Style::compact;
constexpr std::size_t kMostQuoted = 200;  // of an answer that is no JSON
// gRPC's codes.
constexpr long kNotFound = 5, kPermissionDenied = 7, kOutOfRange = 11, kUnauthenticated = 16;

void tell(Form& f, const Condition& condition) {
  const bool created = condition.what == Condition::What::created;
  f.told("target", created ? "CREATE" : "MOD");
  f.told("key", base64(condition.key));
  f.told("result", "EQUAL");
  f.told(created ? "create_revision" : "mod_revision", std::to_string(condition.revision));
}

void tell(Form& f, const Change& change) {
  if (!change.value)
    return f.told_object("request_delete_range",
                         [&](Form& g) { g.told("key", base64(change.key)); });
  f.told_object("request_put", [&](Form& g) {
    g.told("key", base64(change.key));
    g.told("value", base64(*change.value));
    if (change.lease != 0) g.told("lease", std::to_string(change.lease));
  });
}

// Reads an answer; what it misses is at its default, and the first that is wrong sticks.
class Answer {
 public:
  explicit Answer(std::string_view body) : document_(parse_document("etcd", body)) {
    if (!document_) why_ = to_string(document_.error());
  }
  const Node* root() const { return document_ ? &document_->root : nullptr; }
  const Node* at(const Node* node, std::string_view key) const {
    return node == nullptr ? nullptr : node->find(key);
  }
  // 64-bit numbers are texts, small ones may be numbers.
  long whole(const Node* node, std::string_view key) {
    const Node* found = at(node, key);
    if (found == nullptr) return 0;
    if (found->kind == Node::Kind::number && found->number >= 0 && found->number < 9e15)
      return static_cast<long>(found->number);
    const auto number = parse_number<long>(found->text);
    if (!number || *number < 0) refuse(fmt::format("'{}' is no number", key));
    return number.value_or(0);
  }
  bool boolean(const Node* node, std::string_view key) const {
    const Node* found = at(node, key);
    return found != nullptr && found->boolean;
  }
  std::string bytes(const Node* node, std::string_view key) {
    const Node* found = at(node, key);
    if (found == nullptr) return {};
    auto read = parse_base64(found->text);
    if (!read) refuse(fmt::format("'{}' is not base64", key));
    return std::move(read).value_or("");
  }
  const std::vector<Node>& list(const Node* node, std::string_view key) const {
    static const std::vector<Node> none;
    const Node* found = at(node, key);
    return found == nullptr ? none : found->items;
  }
  void refuse(const std::string& why) {
    if (why_.empty()) why_ = why;
  }
  template <class T>
  Result<T> or_fault(T value) const {
    if (!why_.empty()) return environment_error("etcd", "its answer cannot be read: " + why_);
    return value;
  }

 private:
  Result<Document> document_;
  std::string why_;
};

}  // namespace

std::string end_of_prefix(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xff) prefix.pop_back();
  if (prefix.empty()) return std::string(1, '\0');
  ++prefix.back();
  return prefix;
}

std::string end_of(const std::string& place) {
  return place.ends_with('/') ? end_of_prefix(place) : std::string();
}

std::string range_request(const std::string& first, const std::string& end, long revision) {
  return write_form(
      [&](Form& f) {
        f.told("key", base64(first));
        if (!end.empty()) f.told("range_end", base64(end));
        f.told("limit", std::to_string(kKeysOfPage));
        if (revision != 0) f.told("revision", std::to_string(revision));
      },
      kCompact);
}

std::string txn_request(const Transaction& transaction) {
  return write_form(
      [&](Form& f) {
        f.rows("compare", transaction.conditions,
               [](Form& g, const Condition& one) { tell(g, one); }, {});
        f.rows("success", transaction.changes, [](Form& g, const Change& one) { tell(g, one); },
               {});
      },
      kCompact);
}

std::string grant_request(int seconds) {
  return write_form([&](Form& f) { f.told("TTL", std::to_string(seconds)); }, kCompact);
}

std::string lease_request(long lease) {
  return write_form([&](Form& f) { f.told("ID", std::to_string(lease)); }, kCompact);
}

std::string watch_request(const Places& places, long after) {
  std::string all;
  for (const std::string& place : places)
    all += write_form(
        [&](Form& f) {
          f.told_object("create_request", [&](Form& g) {
            g.told("key", base64(place));
            if (const std::string end = end_of(place); !end.empty())
              g.told("range_end", base64(end));
            g.told("start_revision", std::to_string(after + 1));
          });
        },
        kCompact);
  return all;
}

std::string compaction_request(long revision) {
  return write_form([&](Form& f) { f.told("revision", std::to_string(revision)); }, kCompact);
}

std::string login_request(const std::string& user, const std::string& password) {
  return write_form(
      [&](Form& f) {
        f.told("name", user);
        f.told("password", password);
      },
      kCompact);
}

Result<RangePage> parse_range(std::string_view body) {
  Answer answer(body);
  RangePage page;
  page.range.revision = answer.whole(answer.at(answer.root(), "header"), "revision");
  page.more = answer.boolean(answer.root(), "more");
  for (const Node& one : answer.list(answer.root(), "kvs"))
    page.range.all.push_back({answer.bytes(&one, "key"), answer.bytes(&one, "value"),
                              answer.whole(&one, "create_revision"),
                              answer.whole(&one, "mod_revision"), answer.whole(&one, "lease")});
  if (page.more && page.range.all.empty()) answer.refuse("more of nothing");
  return answer.or_fault(std::move(page));
}

Result<Committed> parse_txn(std::string_view body) {
  Answer answer(body);
  const Committed committed{answer.boolean(answer.root(), "succeeded"),
                            answer.whole(answer.at(answer.root(), "header"), "revision")};
  return answer.or_fault(committed);
}

Result<long> parse_granted(std::string_view body) {
  Answer answer(body);
  const long lease = answer.whole(answer.root(), "ID");
  if (lease == 0) answer.refuse("no lease");
  return answer.or_fault(lease);
}

Result<long> parse_kept_alive(std::string_view body) {
  Answer answer(body);
  return answer.or_fault(answer.whole(answer.at(answer.root(), "result"), "TTL"));
}

Result<std::string> parse_token(std::string_view body) {
  Answer answer(body);
  const Node* token = answer.at(answer.root(), "token");
  std::string text = token == nullptr ? "" : token->text;
  if (text.empty() || !std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; }))
    answer.refuse("no token");
  return answer.or_fault(std::move(text));
}

Result<std::string> parse_alarms(std::string_view body) {
  Answer answer(body);
  std::set<std::string> names;
  for (const Node& one : answer.list(answer.root(), "alarms"))
    if (const Node* name = one.find("alarm")) names.insert(name->text);
  return answer.or_fault(joined(names, ", "));
}

Result<WatchLine> parse_watch_line(std::string_view line) {
  Answer answer(line);
  const Node* result = answer.at(answer.root(), "result");
  if (answer.root() != nullptr && result == nullptr) return failed(fault_of(line));
  if (answer.boolean(result, "canceled"))
    return environment_error("etcd", answer.whole(result, "compact_revision") > 0
                                         ? "the changes that are watched for are compacted"
                                         : "it has ended the watch");
  WatchLine seen;
  seen.revision = answer.whole(answer.at(result, "header"), "revision");
  for (const Node& event : answer.list(result, "events")) {
    const Node* type = event.find("type");
    const Node* key = event.find("kv");
    SeenChange& change = seen.changes.emplace_back();
    change.key = answer.bytes(key, "key");
    change.version = answer.whole(key, "mod_revision");
    if (type == nullptr || type->text != "DELETE") change.value = answer.bytes(key, "value");
  }
  return answer.or_fault(std::move(seen));
}

Error fault_of(std::string_view body) {
  Answer answer(body);
  const Node* inner = answer.at(answer.root(), "error");  // of a stream, an object
  const Node* whole = inner != nullptr && inner->kind == Node::Kind::object ? inner : answer.root();
  const Node* message = answer.at(whole, "message");
  const long code = std::max(answer.whole(whole, "code"), answer.whole(whole, "grpc_code"));
  std::string text = message == nullptr ? "" : message->text;
  if (text.empty()) text = fmt::format("its answer is '{}'", body.substr(0, kMostQuoted));
  const bool who = code == kUnauthenticated || text.find("invalid auth token") != text.npos;
  return {code == kNotFound                  ? ErrorCode::not_found
          : who || code == kPermissionDenied ? ErrorCode::denied
          : code == kOutOfRange              ? ErrorCode::invalid_argument
                                             : ErrorCode::environment,
          std::move(text), "etcd"};
}

}  // namespace partita::fleet
