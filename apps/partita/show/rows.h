// Rows: any of our documents as tables, for people and for plots: one table for each list of
// objects, a column for each value in them, objects inside flattened ("worst.slo_attainment").
// Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "context.h"

namespace partita::cli {

// Everything in it: single values first, then a table per list.
Result<std::string> document_text(const std::string& file, std::string_view json);
// One list as CSV (RFC 4180); `key` names it, empty: the first one.
Result<std::string> document_csv(const std::string& file, std::string_view json,
                                 std::string_view key = {});

// What is delivered of a document that a command has made: for csv its first list.
Result<std::string> document_as(const Output& output, std::string json);

}  // namespace partita::cli
