// Many models that share an instance: how often a model is not there when it is asked for.
// Che's approximation of a cache that lets go of what was asked for longest ago (Che, Tung, Wang,
// IEEE JSAC 2002): a model is there if it was asked for within a time that is the same for all,
// such that in the mean the cache is full.
#pragma once

#include <vector>

namespace partita::model {

// The share of requests whose model is not among the `held` >= 1 that are; weights are positive.
double cold_share(const std::vector<double>& weights, int held);

}  // namespace partita::model
