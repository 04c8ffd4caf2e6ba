// Times that are not exact: lognormal around their mean. What a time is expected to be once some of
// it has passed, and times as they may turn out. Pure.
#pragma once

namespace partita::planners::batch {

// The value below which a standard normal is with probability `p`, 0 < p < 1, to 1e-8.
double normal_quantile(double p);

// A time of mean 1 and that coefficient of variation, at a quantile, given that it is longer than
// `passed`.
double lognormal_at(double quantile, double cv, double passed);

// Its mean, given that it is longer than `passed`.
double lognormal_mean(double cv, double passed);

}  // namespace partita::planners::batch
