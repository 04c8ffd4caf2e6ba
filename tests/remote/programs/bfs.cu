// Breadth-first search by levels, in the style of Rodinia's bfs: two kernels per level and a flag
// that the host reads back after each.
#include "program.h"

struct Vertex {
  int first;
  int edges;
};

KERNEL(bfs_expand, (const Vertex* vertices, const int* edges, unsigned char* frontier,
                    unsigned char* next, const unsigned char* visited, int* cost, int count)) {
  const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (at >= count || !frontier[at]) return;
  frontier[at] = 0;
  const Vertex vertex = vertices[at];
  for (int edge = vertex.first; edge < vertex.first + vertex.edges; ++edge) {
    const int other = edges[edge];
    if (visited[other]) continue;
    cost[other] = cost[at] + 1;
    next[other] = 1;
  }
}

KERNEL(bfs_advance, (unsigned char* frontier, unsigned char* next, unsigned char* visited,
                     int* again, int count)) {
  const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (at >= count || !next[at]) return;
  frontier[at] = 1;
  visited[at] = 1;
  next[at] = 0;
  *again = 1;
}

static std::vector<int> wanted_costs(const std::vector<Vertex>& vertices,
                                     const std::vector<int>& edges) {
  std::vector<int> cost(vertices.size(), -1), queue = {0};
  cost[0] = 0;
  for (size_t head = 0; head < queue.size(); ++head) {
    const int at = queue[head];
    for (int edge = 0; edge < vertices[at].edges; ++edge) {
      const int other = edges[vertices[at].first + edge];
      if (cost[other] >= 0) continue;
      cost[other] = cost[at] + 1;
      queue.push_back(other);
    }
  }
  return cost;
}

int main() {
  const int count = 2000;
  Noise noise(1);
  std::vector<Vertex> vertices;
  std::vector<int> edges;
  for (int at = 0; at < count; ++at) {
    const int degree = noise.below(5);
    vertices.push_back({static_cast<int>(edges.size()), degree});
    for (int edge = 0; edge < degree; ++edge) edges.push_back(noise.below(count));
  }
  std::vector<unsigned char> mark(count, 0);
  std::vector<int> cost(count, -1);
  unsigned char* next = to_device(mark);
  mark[0] = 1;
  cost[0] = 0;
  const Vertex* on_vertices = to_device(vertices);
  const int* on_edges = to_device(edges);
  unsigned char *frontier = to_device(mark), *visited = to_device(mark);
  int *on_cost = to_device(cost), *on_again = empty_on_device<int>(1);
  const unsigned blocks = blocks_for(count, 256);
  int again = 1, levels = 0;
  while (again) {
    again = 0;
    MUST(cudaMemcpy(on_again, &again, sizeof again, cudaMemcpyHostToDevice));
    LAUNCH(bfs_expand, blocks, 256, 0, nullptr, on_vertices, on_edges, frontier, next, visited,
           on_cost, count);
    LAUNCH(bfs_advance, blocks, 256, 0, nullptr, frontier, next, visited, on_again, count);
    MUST(cudaGetLastError());
    MUST(cudaMemcpy(&again, on_again, sizeof again, cudaMemcpyDeviceToHost));
    ++levels;
  }
  const double off = difference(to_host(on_cost, count), wanted_costs(vertices, edges));
  std::printf("bfs: %d levels\n", levels);
  return finish("bfs", off == 0, off);
}
