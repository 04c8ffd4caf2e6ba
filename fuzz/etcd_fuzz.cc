// What etcd answers, and what a fleet keeps in it. What is read of a value is what was written.
#include <string>
#include <string_view>

#include "base/check.h"
#include "fleet/brain/documents.h"
#include "fleet/etcd/etcd_messages.h"
#include "target.h"

namespace fleet = partita::fleet;

FUZZ_TARGET(etcd) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto page = fleet::parse_range(text)) CHECK(!page->more || !page->range.all.empty());
  static_cast<void>(fleet::parse_txn(text));
  static_cast<void>(fleet::parse_granted(text));
  static_cast<void>(fleet::parse_kept_alive(text));
  static_cast<void>(fleet::parse_token(text));
  static_cast<void>(fleet::parse_alarms(text));
  static_cast<void>(fleet::parse_watch_line(text));
  static_cast<void>(fleet::fault_of(text));
  if (const auto node = fleet::parse_node_record("node", text))
    CHECK(fleet::write(*fleet::parse_node_record("node", fleet::write(*node))) ==
          fleet::write(*node));
  static_cast<void>(fleet::parse_part("part", text));
  if (const auto power = fleet::parse_power("power", text)) {
    CHECK(*fleet::parse_power("power", fleet::write(*power)) == *power);
    static_cast<void>(fleet::tree_of("power", *power));
  }
  if (const auto budgets = fleet::parse_budgets("budgets", text))
    CHECK(*fleet::parse_budgets("budgets", fleet::write(*budgets)) == *budgets);
  static_cast<void>(fleet::parse_held_budget("held", text));
  if (const auto wanted = fleet::parse_wanted("wanted", text))
    CHECK(*fleet::parse_wanted("wanted", fleet::write(*wanted)) == *wanted);
  static_cast<void>(fleet::parse_proposal("proposal", text));
  static_cast<void>(fleet::parse_leader_record("leader", text));
  static_cast<void>(fleet::parse_rate_record("rates", text));
  static_cast<void>(fleet::parse_fleet_event("event", text));
  return 0;
}
