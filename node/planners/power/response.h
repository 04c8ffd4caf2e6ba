// What a service can be given on a GPU, and what it takes then: per clock the options (units,
// largest batch) with the rate that each carries within the SLO and its power as a function of the
// rate. The planners' formulas of power stand here and nowhere else in this module; the judge has
// its own. A value, made once per problem and shared by its solvers.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/power.h"

namespace partita::power {

// Power above that of the idle board against the rate: linear between (0, 0) and the batches'
// (max rate, power when always busy). Batches form only as far as the rate asks for them.
struct BusyPower {
  struct Step {
    Rps rate;
    Watts power;
    bool operator==(const Step&) const = default;
  };
  std::vector<Step> steps;  // by batch; at least one

  Watts at(Rps rate) const;  // at most the last step's from its rate on
  Watts full() const;        // the most that it can be
};

struct ServiceOption {
  std::size_t clock = 0;  // of the table
  int units = 0;
  int batch = 0;
  Rps capacity;  // within the SLO; above 0
  BusyPower busy;
};

// Per clock, by units and batch; options that carry nothing are left out.
using ServiceOptions = std::vector<std::vector<ServiceOption>>;

enum class BatchChoice { one, any };  // the smallest batch of the table alone, or every one

// Of every service of the problem, in its order. A service whose model is not in the table has
// none.
std::vector<ServiceOptions> options_of(const plan::PowerProblem& problem, BatchChoice batches);

// The board at a clock with so many units in use, none of them busy.
Watts ready_power(const plan::ResponseTable& table, plan::Gating gating, std::size_t clock,
                  int used_units);

// What a GPU without work takes.
Watts unused_power(const plan::PowerProblem& problem);

}  // namespace partita::power
