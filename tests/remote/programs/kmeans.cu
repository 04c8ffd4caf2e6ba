// Clusters of points, in the style of Rodinia's kmeans: distances to centres in constant memory,
// counts and sums by atomics, the host moves the centres.
#include "program.h"

constexpr int kFeatures = 4, kCentres = 5;
CONSTANT_VARIABLE(float, centres, [kCentres * kFeatures]);

HOST_DEVICE inline int nearest(const float* point, const float* all) {
  int best = 0;
  float least = 1e30F;
  for (int centre = 0; centre < kCentres; ++centre) {
    float sum = 0;
    for (int f = 0; f < kFeatures; ++f) {
      const float d = point[f] - all[centre * kFeatures + f];
      sum += d * d;
    }
    if (sum < least) {
      least = sum;
      best = centre;
    }
  }
  return best;
}

KERNEL(kmeans_assign, (const float* points, int* member, float* sums, int* counts, int count)) {
  const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (at >= count) return;
  const int best = nearest(points + at * kFeatures, centres);
  member[at] = best;
  atomicAdd(&counts[best], 1);
  for (int f = 0; f < kFeatures; ++f) {
    atomicAdd(&sums[best * kFeatures + f], points[at * kFeatures + f]);
  }
}

int main() {
  const int count = 1000, rounds = 4;
  Noise noise(9);
  std::vector<float> points(count * kFeatures), middle(kCentres * kFeatures);
  for (float& value : points) value = noise.unit();
  for (float& value : middle) value = noise.unit();
  std::vector<float> want_middle = middle;
  std::vector<int> want(count);
  const float* on_points = to_device(points);
  int* on_member = empty_on_device<int>(count);
  int* on_counts = empty_on_device<int>(kCentres);
  float* on_sums = empty_on_device<float>(middle.size());
  const auto move = [](std::vector<float>& all, const std::vector<float>& sums,
                       const std::vector<int>& counts) {
    for (size_t at = 0; at < all.size(); ++at) {
      const int members = counts[at / kFeatures];
      if (members > 0) all[at] = sums[at] / static_cast<float>(members);
    }
  };
  for (int round = 0; round < rounds; ++round) {
    MUST(cudaMemcpyToSymbol(SYMBOL(centres), middle.data(), sizeof centres, 0,
                            cudaMemcpyHostToDevice));
    MUST(cudaMemset(on_sums, 0, middle.size() * sizeof(float)));
    MUST(cudaMemset(on_counts, 0, kCentres * sizeof(int)));
    LAUNCH(kmeans_assign, blocks_for(count, 128), 128, 0, nullptr, on_points, on_member, on_sums,
           on_counts, count);
    move(middle, to_host(on_sums, middle.size()), to_host(on_counts, kCentres));
    std::vector<float> sums(middle.size(), 0.0F);
    std::vector<int> counts(kCentres, 0);
    for (int at = 0; at < count; ++at) {
      want[at] = nearest(&points[at * kFeatures], want_middle.data());
      ++counts[want[at]];
      for (int f = 0; f < kFeatures; ++f)
        sums[want[at] * kFeatures + f] += points[at * kFeatures + f];
    }
    move(want_middle, sums, counts);
  }
  // Coordinates are multiples of 2^-10 and sums below 2^14: exact in any order.
  const double off =
      std::fmax(difference(to_host(on_member, count), want), difference(middle, want_middle));
  return finish("kmeans", off == 0, off);
}
