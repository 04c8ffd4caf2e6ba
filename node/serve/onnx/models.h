// Small models with seeded weights: the same sizes and seed give the same file. Each has one input
// "x" and one output "y" of FP32, the batch dimension open. Weights are scaled so that values
// neither die out nor grow from layer to layer.
#pragma once

#include <cstdint>
#include <vector>

#include "serve/onnx/graph.h"

namespace partita::serve {

// x [inputs] -> layers of Gemm and Relu, no Relu after the last -> y [outputs]
struct MlpSize {
  int inputs = 256;
  std::vector<int> hidden = {512, 512};
  int outputs = 256;
};
OnnxGraph onnx_mlp(const MlpSize& size, std::uint64_t seed);

// x [channels, side, side] -> `blocks` times Conv 3x3, Relu, MaxPool 2x2; channels grow from
// `width` by twice a block -> mean over the picture -> Gemm -> y [classes]
struct CnnSize {
  int channels = 3;
  int side = 32;  // a multiple of 2^blocks
  int width = 16;
  int blocks = 3;
  int classes = 10;
};
OnnxGraph onnx_cnn(const CnnSize& size, std::uint64_t seed);

// x [tokens, width] -> `layers` encoder blocks (attention with `heads`, then two linear layers with
// Relu; each added to what came in and normalised) -> y [tokens, width]
struct TransformerSize {
  int tokens = 32;
  int width = 64;  // a multiple of heads
  int heads = 4;
  int feedforward = 256;
  int layers = 1;
};
OnnxGraph onnx_transformer(const TransformerSize& size, std::uint64_t seed);

}  // namespace partita::serve
