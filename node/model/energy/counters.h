// Counters of programs beside what they took, as rows of a CSV: what the component model is fitted
// to and predicts from. Measured is either energy in joules (then the other columns are accesses)
// or power in watts (then they are accesses per second, or watts that some other model says): in
// both cases measured = sum of columns x joules per access.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace partita::energy {

inline constexpr std::size_t kMaxCounterRows = 1'000'000;
inline constexpr std::size_t kMaxComponents = 200;
inline constexpr double kMaxBoardWatts = 20'000;  // more is in milliwatts
inline constexpr double kMaxRunSeconds = 1e7;     // more is in milliseconds
inline constexpr double kMaxAccesses = 1e24;

// A component and the columns that are added up for it.
struct ComponentColumns {
  std::string name;
  std::vector<std::string> columns;
  bool operator==(const ComponentColumns&) const = default;
};

// Which column is what. Empty: the columns that are neither name nor measurement are a component
// each. A component's column may be missing while another of it is there.
struct CounterColumns {
  std::vector<ComponentColumns> components;
  std::string measured;     // the column of joules (name ends in _j) or watts (_w); empty: found
  double idle_w = 0;        // taken off the measurement: what the board draws without work
  bool measurement = true;  // a row must have one; else only accesses are read
};

struct CounterRow {
  std::string name;
  int line = 0;
  double measured = 0;           // J or W; 0 without measurement
  std::vector<double> accesses;  // per component
  std::optional<double> time_s, instructions;
};

struct CounterTable {
  std::string file;
  bool watts = false;  // measured is power
  std::vector<ComponentColumns> components;
  std::vector<CounterRow> rows;       // at least one
  std::vector<std::string> left_out;  // columns that belong to no component

  std::string at(const CounterRow& row) const;  // "FILE:LINE"
};

// CSV with a header. The first of name, kernel, benchmark and row that is there names a row (else
// its line does). Measured is energy_j; or power_w with time_s, which gives energy; or power_w
// alone. Columns time_s and instructions are no components. Refused with FILE:LINE: what is no
// number, negative, beyond what a board can take, a measurement not above idle_w, components
// without a column, names twice.
Result<CounterTable> parse_counters(const std::string& file, std::string_view text,
                                    const CounterColumns& columns);

// The components of a YAML or JSON file: NAME: [column, ...] each.
Result<std::vector<ComponentColumns>> parse_component_columns(const std::string& file,
                                                              std::string_view text);

// Eq. 5.3 of the dissertation: mean watts x seconds / instructions, joules per instruction.
double energy_per_instruction(double watts, double seconds, double instructions);

}  // namespace partita::energy
