// How the values of a fleet are written in its store: JSON documents, one a key. Everything read
// back is checked; a document of another fleet's version is refused with its key.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"
#include "fleet/brain/view.h"

namespace partita::fleet {

// parse(write(value)) == value; refused with FILE:LINE.
std::string write(const NodeRecord& value);
std::string write(const Part& value);
std::string write(const Wanted& value);
std::string write(const Proposal& value);
std::string write(const LeaderRecord& value);
std::string write(const RateRecord& value);
std::string write(const FleetEvent& value);
Result<NodeRecord> parse_node_record(const std::string& key, std::string_view text);
Result<Part> parse_part(const std::string& key, std::string_view text);
Result<Wanted> parse_wanted(const std::string& key, std::string_view text);
Result<Proposal> parse_proposal(const std::string& key, std::string_view text);
Result<LeaderRecord> parse_leader_record(const std::string& key, std::string_view text);
Result<RateRecord> parse_rate_record(const std::string& key, std::string_view text);
Result<FleetEvent> parse_fleet_event(const std::string& key, std::string_view text);

// What people write beside a fleet's services, the key `priorities`; refused with FILE:LINE.
Result<std::map<std::string, int>> read_priorities(const Document& document, const Node& list);

// The document FleetHistory, oldest first.
std::string history_json(const FleetView& view);

std::vector<DocumentKind> document_kinds();

}  // namespace partita::fleet
