// Speckle reducing anisotropic diffusion, in the style of Rodinia's srad: a reduction that the host
// reads each round, then two stencils with divisions.
#include "program.h"

constexpr int kBlock = 128;

KERNEL(srad_sums, (const float* image, double* sums, int count)) {
  SHARED(double, sum, [kBlock]);
  SHARED(double, squares, [kBlock]);
  const int lane = static_cast<int>(threadIdx.x);
  double s = 0, q = 0;
  for (int at = static_cast<int>(blockIdx.x) * kBlock + lane; at < count;
       at += static_cast<int>(gridDim.x) * kBlock) {
    s += image[at];
    q += static_cast<double>(image[at]) * image[at];
  }
  sum[lane] = s;
  squares[lane] = q;
  for (int half = kBlock / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane >= half) continue;
    sum[lane] += sum[lane + half];
    squares[lane] += squares[lane + half];
  }
  if (lane == 0) {
    sums[2 * blockIdx.x] = sum[0];
    sums[2 * blockIdx.x + 1] = squares[0];
  }
}

struct Slopes {
  float north, south, west, east;
};

HOST_DEVICE inline Slopes slopes_at(const float* image, int x, int y, int width, int height) {
  const float here = image[y * width + x];
  return {image[(y > 0 ? y - 1 : 0) * width + x] - here,
          image[(y + 1 < height ? y + 1 : y) * width + x] - here,
          image[y * width + (x > 0 ? x - 1 : 0)] - here,
          image[y * width + (x + 1 < width ? x + 1 : x)] - here};
}

HOST_DEVICE inline float coefficient(Slopes d, float here, float q0) {
  const float g =
      (d.north * d.north + d.south * d.south + d.west * d.west + d.east * d.east) / (here * here);
  const float l = (d.north + d.south + d.west + d.east) / here;
  const float num = 0.5F * g - 0.0625F * (l * l);
  float den = 1.0F + 0.25F * l;
  const float q = num / (den * den);
  den = (q - q0) / (q0 * (1.0F + q0));
  const float c = 1.0F / (1.0F + den);
  return c < 0 ? 0 : c > 1 ? 1 : c;
}

KERNEL(srad_coefficients, (const float* image, float* c, int width, int height, float q0)) {
  const int x = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int y = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  if (x >= width || y >= height) return;
  const int at = y * width + x;
  c[at] = coefficient(slopes_at(image, x, y, width, height), image[at], q0);
}

HOST_DEVICE inline float diffused(const float* image, const float* c, int x, int y, int width,
                                  int height) {
  const Slopes d = slopes_at(image, x, y, width, height);
  const int at = y * width + x;
  const float south = c[(y + 1 < height ? y + 1 : y) * width + x];
  const float east = c[y * width + (x + 1 < width ? x + 1 : x)];
  const float flow = c[at] * d.north + south * d.south + c[at] * d.west + east * d.east;
  return image[at] + 0.125F * flow;
}

KERNEL(srad_update, (const float* image, const float* c, float* to, int width, int height)) {
  const int x = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int y = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  if (x < width && y < height) to[y * width + x] = diffused(image, c, x, y, width, height);
}

static float spread(double sum, double squares, int count) {
  const double mean = sum / count;
  return static_cast<float>((squares / count - mean * mean) / (mean * mean));
}

int main() {
  const int width = 60, height = 45, count = width * height, rounds = 6;
  Noise noise(4);
  std::vector<float> image(count), c(count);
  for (float& value : image) value = 1.0F + noise.unit();
  float *from = to_device(image), *to = empty_on_device<float>(count);
  float* on_c = empty_on_device<float>(count);
  double* on_sums = empty_on_device<double>(8);
  const dim3 grid(blocks_for(width, 16), blocks_for(height, 8)), block(16, 8);
  for (int round = 0; round < rounds; ++round) {
    LAUNCH(srad_sums, 4, kBlock, 0, nullptr, from, on_sums, count);
    const std::vector<double> sums = to_host(on_sums, 8);
    const float q0 =
        spread(sums[0] + sums[2] + sums[4] + sums[6], sums[1] + sums[3] + sums[5] + sums[7], count);
    LAUNCH(srad_coefficients, grid, block, 0, nullptr, from, on_c, width, height, q0);
    LAUNCH(srad_update, grid, block, 0, nullptr, from, on_c, to, width, height);
    std::swap(from, to);
  }
  const std::vector<float> have = to_host(from, count);
  for (int round = 0; round < rounds; ++round) {
    double sum = 0, squares = 0;
    for (float value : image) sum += value, squares += static_cast<double>(value) * value;
    const float q0 = spread(sum, squares, count);
    std::vector<float> next(count);
    for (int at = 0; at < count; ++at) {
      c[at] = coefficient(slopes_at(image.data(), at % width, at / width, width, height), image[at],
                          q0);
    }
    for (int at = 0; at < count; ++at) {
      next[at] = diffused(image.data(), c.data(), at % width, at / width, width, height);
    }
    image = next;
  }
  const double off = difference(have, image);
  return finish("srad", off < 1e-4, off);
}
