// Flags of prices and carbon by the hour.
#pragma once

#include <CLI/CLI.hpp>

#include "decide/gpu_costs.h"
#include "flags.h"

namespace partita::cli {

// Adds --prices, which it returns, and --carbon-price.
inline CLI::Option* add_tariff_flags(CLI::App& command, decide::TariffFiles& files) {
  CLI::Option* prices = flag(command, "--prices", files.prices);
  within(flag(command, "--carbon-price", files.carbon_price), 0, 1e6);
  return prices;
}

}  // namespace partita::cli
