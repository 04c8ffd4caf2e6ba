#include "heat/floorplan/rectangles.h"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numbers>
#include <span>

#include "base/check.h"
#include "heat/floorplan/deconvolve.h"
#include "base/numeric/dense.h"

namespace partita::floorplan {
namespace {

constexpr double kLeastSide = 2;            // pixels
constexpr double kLeastInformation = 1e-3;  // modes that say less are left out
constexpr int kMostModes = 12000;
constexpr double kLongestStep = 8;  // pixels an edge may move at once
constexpr int kPhysics = 5;
// How well the slab is known before: standard deviations of logarithms of conductivity, thickness,
// bottom, contact and sheet.
constexpr std::array<double, kPhysics> kPhysicsSpread = {0.1, 0.05, 0.3, 0.5, 0.7};

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;
using Index = Eigen::Index;

std::span<const double> values_of(const Matrix& m) {
  return {m.data(), static_cast<std::size_t>(m.size())};
}
std::span<const double> values_of(const Vector& v) {
  return {v.data(), static_cast<std::size_t>(v.size())};
}

Matrix transposed_product(const Matrix& a, const Matrix& b) {
  const auto out =
      numeric::transposed_product(values_of(a), values_of(b), static_cast<std::size_t>(a.rows()));
  return Eigen::Map<const Matrix>(out.data(), a.cols(), b.cols());
}

std::array<double, kPhysics> logarithms(const SlabGuess& s) {
  return {std::log(s.conductivity), std::log(s.thickness_m), std::log(s.bottom),
          std::log(s.contact), std::log(s.sheet)};
}
SlabGuess slab_of(const std::array<double, kPhysics>& logs) {
  SlabGuess s{std::exp(logs[0]), std::exp(logs[1]), std::exp(logs[2]), std::exp(logs[3]),
              std::exp(logs[4])};
  s.contact = std::max(s.contact, 1.05 * s.bottom);
  return s;
}

struct Mode {
  int p = 0, q = 0;  // rows, columns
  std::size_t index = 0;
};

// Everything that is fitted. Shares are those of a component's blocks; they sum to 1.
struct Guess {
  std::vector<std::vector<PixelBox>> boxes;
  std::vector<std::vector<double>> shares;
  Matrix errors;  // of counters: capture x component, 0 is right
  std::array<double, kPhysics> physics{};
};

// One direction of a rectangle's picture: coefficients of the interval and of its ends.
struct Interval {
  Vector inside, begin, end;
};
Interval interval(double from, double to, int cells) {
  Interval made{Vector(cells), Vector(cells), Vector(cells)};
  for (int k = 0; k < cells; ++k) {
    const double scale = std::sqrt((k == 0 ? 1.0 : 2.0) / cells), w = std::numbers::pi * k / cells;
    made.inside(k) = scale * (k == 0 ? to - from : (std::sin(w * to) - std::sin(w * from)) / w);
    made.begin(k) = -scale * std::cos(w * from);
    made.end(k) = scale * std::cos(w * to);
  }
  return made;
}

class Fit {
 public:
  Fit(const Session& session, const std::vector<raster::Grid>& pictures, const RectangleFit& start,
      const RectangleOptions& options)
      : session_(session), options_(options), start_(start) {
    captures_ = static_cast<Index>(session.captures.size());
    components_ = static_cast<Index>(session.components.size());
    watts_ = Matrix(captures_, components_);
    double frames = 0;
    for (Index b = 0; b < captures_; ++b) {
      const Capture& capture = session.captures[static_cast<std::size_t>(b)];
      frames += capture.frames / static_cast<double>(captures_);
      for (Index c = 0; c < components_; ++c)
        watts_(b, c) = capture.watts[static_cast<std::size_t>(c)];
    }
    choose_modes(session.noise_k * session.noise_k / frames);
    take_data(pictures);
  }

  RectangleFit run() {
    Guess guess = first_guess();
    double damping = 1e-3;
    Step now = look(guess);
    int steps = 0;
    for (; steps < options_.steps && damping < 1e6; ++steps) {
      Matrix system = now.normal;
      system.diagonal() *= 1 + damping;
      const auto solved = numeric::solve_symmetric(values_of(system), values_of(now.gradient));
      const Vector move = Eigen::Map<const Vector>(solved.data(), now.gradient.size());
      if (!move.allFinite()) break;
      const Guess next = moved(guess, move);
      Step there = look(next);
      if (there.cost < now.cost) {
        const bool done = now.cost - there.cost < 1e-7 * now.cost;
        guess = next;
        now = std::move(there);
        damping = std::max(1e-7, damping / 5);
        if (done) break;
      } else {
        damping *= 6;
      }
    }
    return result(guess, now, steps);
  }

 private:
  struct Step {
    double cost = 0;
    Matrix normal;
    Vector gradient;
  };

  void choose_modes(double noise) {
    const int rows = session_.rows(), cols = session_.cols();
    const Trust trust = trust_of(start_.slab, session_, 0);
    const double watts = (watts_.rowwise() - watts_.colwise().mean()).cwiseAbs().maxCoeff();
    std::vector<std::pair<double, Mode>> all;
    for (int p = 0; p < rows; ++p)
      for (int q = 0; q < cols; ++q) {
        const auto i = static_cast<std::size_t>(p) * static_cast<std::size_t>(cols) +
                       static_cast<std::size_t>(q);
        const double signal = std::pow(trust.kernel[i] * watts, 2) * trust.expected[i];
        const double error = options_.model_error * options_.model_error * signal;
        if (signal > kLeastInformation * noise) all.push_back({noise + error, {p, q, i}});
      }
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    if (all.size() > kMostModes) all.resize(kMostModes);
    weight_ = Vector(static_cast<Index>(all.size()));
    for (std::size_t m = 0; m < all.size(); ++m) {
      modes_.push_back(all[m].second);
      weight_(static_cast<Index>(m)) = 1 / all[m].first;
    }
  }

  void take_data(const std::vector<raster::Grid>& pictures) {
    const numeric::CosineTransform transform(session_.rows(), session_.cols());
    data_ = Matrix(static_cast<Index>(modes_.size()), captures_);
    for (Index b = 0; b < captures_; ++b) {
      raster::Grid picture = pictures[static_cast<std::size_t>(b)];
      transform.forward(picture.values);
      for (std::size_t m = 0; m < modes_.size(); ++m)
        data_(static_cast<Index>(m), b) = picture.values[modes_[m].index];
    }
    const Vector mean = data_.rowwise().mean();
    data_.colwise() -= mean;
  }

  Guess first_guess() const {
    Guess guess;
    guess.boxes = start_.boxes;
    for (const auto& boxes : guess.boxes)
      guess.shares.emplace_back(boxes.size(), 1.0 / static_cast<double>(boxes.size()));
    guess.errors = Matrix::Zero(captures_, components_);
    guess.physics = logarithms(start_.slab);
    return guess;
  }

  Vector kernel_of(const std::array<double, kPhysics>& physics) const {
    const std::vector<double> all = kernel(slab_of(physics), session_);
    Vector chosen(static_cast<Index>(modes_.size()));
    for (std::size_t m = 0; m < modes_.size(); ++m)
      chosen(static_cast<Index>(m)) = all[modes_[m].index];
    return chosen;
  }

  // A rectangle of one watt and its change with each edge, in the chosen modes.
  struct BoxPicture {
    Vector picture;
    std::array<Vector, 4> edges;  // left, right, top, bottom
  };
  BoxPicture picture_of(const PixelBox& box) const {
    const Interval x = interval(box.left, box.right, session_.cols());
    const Interval y = interval(box.top, box.bottom, session_.rows());
    const double width = box.right - box.left, height = box.bottom - box.top;
    const double area = width * height;
    BoxPicture made;
    const auto count = static_cast<Index>(modes_.size());
    made.picture = Vector(count);
    for (Vector& edge : made.edges) edge = Vector(count);
    for (Index m = 0; m < count; ++m) {
      const Mode& mode = modes_[static_cast<std::size_t>(m)];
      const double across = x.inside(mode.q), down = y.inside(mode.p);
      made.picture(m) = across * down / area;
      made.edges[0](m) = x.begin(mode.q) * down / area + made.picture(m) / width;
      made.edges[1](m) = x.end(mode.q) * down / area - made.picture(m) / width;
      made.edges[2](m) = across * y.begin(mode.p) / area + made.picture(m) / height;
      made.edges[3](m) = across * y.end(mode.p) / area - made.picture(m) / height;
    }
    return made;
  }

  // What the pictures and their derivatives are made of: the first columns are those of the
  // components, then come a column per edge, per free share, per component and physical constant.
  struct Fields {
    Matrix columns;
    std::vector<std::pair<Index, Index>> parameters;  // component, column: edges, then shares
    std::vector<Index> physics;                       // first column of each constant
  };
  Fields fields_of(const Guess& guess) const {
    const Vector kernel = kernel_of(guess.physics);
    std::vector<Vector> columns(static_cast<std::size_t>(components_));
    Fields made;
    std::vector<std::pair<Index, Vector>> shares;
    const auto add = [&](Index component, Vector column) {
      made.parameters.emplace_back(component, static_cast<Index>(columns.size()));
      columns.push_back(std::move(column));
    };
    for (Index c = 0; c < components_; ++c) {
      const auto at = static_cast<std::size_t>(c);
      Vector sum = Vector::Zero(kernel.size()), last;
      std::vector<Vector> pictures;
      for (std::size_t r = 0; r < guess.boxes[at].size(); ++r) {
        const BoxPicture box = picture_of(guess.boxes[at][r]);
        const double share = guess.shares[at][r];
        sum += share * box.picture;
        for (const Vector& edge : box.edges) add(c, share * kernel.cwiseProduct(edge));
        pictures.push_back(box.picture);
      }
      for (std::size_t r = 0; r + 1 < pictures.size(); ++r)
        shares.emplace_back(c, kernel.cwiseProduct(pictures[r] - pictures.back()));
      columns[at] = kernel.cwiseProduct(sum);
    }
    for (auto& [component, column] : shares) add(component, std::move(column));
    for (int k = 0; k < kPhysics; ++k) {
      constexpr double kSmall = 1e-3;
      auto more = guess.physics;
      more[static_cast<std::size_t>(k)] += kSmall;
      const Vector slope = ((kernel_of(more).array() / kernel.array()).log() / kSmall).matrix();
      made.physics.push_back(static_cast<Index>(columns.size()));
      for (Index c = 0; c < components_; ++c)
        columns.push_back(slope.cwiseProduct(columns[static_cast<std::size_t>(c)]));
    }
    made.columns = Matrix(kernel.size(), static_cast<Index>(columns.size()));
    for (std::size_t i = 0; i < columns.size(); ++i)
      made.columns.col(static_cast<Index>(i)) = columns[i];
    return made;
  }

  // Cost, gradient and Gauss-Newton matrix. Pictures are compared after their mean over the
  // captures is taken off, so what all share needs no model.
  Step look(const Guess& guess) const {
    const Fields fields = fields_of(guess);
    const Index shape = static_cast<Index>(fields.parameters.size());
    const Index counters = captures_ * components_;
    const Index all = shape + counters + kPhysics;
    const Matrix weighted = weight_.asDiagonal() * fields.columns;
    const Matrix gram = transposed_product(fields.columns, weighted);  // symmetric
    const Matrix against = transposed_product(weighted, data_);        // columns x captures
    const Matrix used = watts_.cwiseProduct((guess.errors.array() + 1).matrix());
    const Matrix centred = used.rowwise() - used.colwise().mean();
    Step step{0, Matrix::Zero(all, all), Vector::Zero(all)};
    for (Index b = 0; b < captures_; ++b) {
      Vector model = Vector::Zero(gram.rows());
      model.head(components_) = centred.row(b).transpose();
      Matrix change = Matrix::Zero(gram.rows(), all);
      for (Index k = 0; k < shape; ++k) {
        const auto& [component, column] = fields.parameters[static_cast<std::size_t>(k)];
        change(column, k) = centred(b, component);
      }
      for (Index other = 0; other < captures_; ++other)
        for (Index c = 0; c < components_; ++c)
          change(c, shape + other * components_ + c) =
              watts_(other, c) * ((other == b ? 1.0 : 0.0) - 1.0 / static_cast<double>(captures_));
      for (int k = 0; k < kPhysics; ++k)
        for (Index c = 0; c < components_; ++c)
          change(fields.physics[static_cast<std::size_t>(k)] + c, shape + counters + k) =
              centred(b, c);
      const Vector residual = against.col(b) - gram * model;
      step.gradient += change.transpose() * residual;
      step.normal += transposed_product(change, transposed_product(gram, change));
      step.cost += data_.col(b).cwiseAbs2().dot(weight_) - 2 * model.dot(against.col(b)) +
                   model.dot(gram * model);
    }
    add_priors(step, guess, shape);
    return step;
  }

  void add_priors(Step& step, const Guess& guess, Index shape) const {
    const auto add = [&](Index at, double value, double spread) {
      const double weight = 1 / (spread * spread);
      step.cost += value * value * weight;
      step.normal(at, at) += weight;
      step.gradient(at) -= value * weight;
    };
    for (Index b = 0; b < captures_; ++b)
      for (Index c = 0; c < components_; ++c)
        add(shape + b * components_ + c, guess.errors(b, c),
            std::max(1e-4, options_.counter_error));
    const auto before = logarithms(start_.slab);
    for (int k = 0; k < kPhysics; ++k) {
      const auto at = static_cast<std::size_t>(k);
      add(shape + captures_ * components_ + k, guess.physics[at] - before[at], kPhysicsSpread[at]);
    }
    // A weak pull to stay: keeps what no picture shows from wandering.
    for (Index k = 0; k < shape; ++k) step.normal(k, k) += 1e-6;
  }

  Guess moved(const Guess& from, const Vector& move) const {
    Guess to = from;
    Index k = 0;
    const double cols = session_.cols(), rows = session_.rows();
    for (auto& boxes : to.boxes)
      for (PixelBox& box : boxes) {
        std::array<double, 4> by{};
        for (double& one : by) one = std::clamp(move(k++), -kLongestStep, kLongestStep);
        box.left = std::clamp(box.left + by[0], 0.0, cols - kLeastSide);
        box.right = std::clamp(box.right + by[1], box.left + kLeastSide, cols);
        box.top = std::clamp(box.top + by[2], 0.0, rows - kLeastSide);
        box.bottom = std::clamp(box.bottom + by[3], box.top + kLeastSide, rows);
      }
    for (auto& shares : to.shares) {
      double last = 1;
      for (std::size_t r = 0; r + 1 < shares.size(); ++r) {
        shares[r] = std::clamp(shares[r] + std::clamp(move(k++), -0.2, 0.2), 0.02, 0.98);
        last -= shares[r];
      }
      shares.back() = std::max(0.02, last);
    }
    for (Index b = 0; b < captures_; ++b)
      for (Index c = 0; c < components_; ++c)
        to.errors(b, c) = std::clamp(to.errors(b, c) + move(k++), -0.5, 0.5);
    for (double& value : to.physics) value += std::clamp(move(k++), -0.3, 0.3);
    return to;
  }

  RectangleFit result(const Guess& guess, const Step& step, int steps) const {
    RectangleFit fit;
    fit.boxes = guess.boxes;
    fit.slab = slab_of(guess.physics);
    fit.misfit =
        step.cost / (static_cast<double>(modes_.size()) * static_cast<double>(captures_ - 1));
    for (Index b = 0; b < captures_; ++b) {
      fit.counters.emplace_back();
      for (Index c = 0; c < components_; ++c) fit.counters.back().push_back(1 + guess.errors(b, c));
    }
    fit.steps = steps;
    return fit;
  }

  const Session& session_;
  const RectangleOptions& options_;
  const RectangleFit& start_;
  Index captures_ = 0, components_ = 0;
  Matrix watts_;
  std::vector<Mode> modes_;
  Vector weight_;
  Matrix data_;  // modes x captures, without their mean
};

// Cells of a patch, and their power.
struct Patch {
  double mass = 0;
  std::vector<std::pair<int, int>> cells;  // row, column
};

// Cells over `level` that touch each other, the strongest patches first.
std::vector<Patch> patches_over(const raster::Grid& power, const PixelBox& window, double level) {
  raster::Grid seen(power.rows, power.cols);
  std::vector<Patch> patches;
  const auto inside = [&](int r, int c) {
    return r >= window.top && r < window.bottom && c >= window.left && c < window.right && r >= 0 &&
           c >= 0 && r < power.rows && c < power.cols;
  };
  for (int row = 0; row < power.rows; ++row)
    for (int col = 0; col < power.cols; ++col) {
      if (!inside(row, col) || seen.at(row, col) > 0 || power.at(row, col) <= level) continue;
      Patch patch;
      std::vector<std::pair<int, int>> open = {{row, col}};
      seen.at(row, col) = 1;
      while (!open.empty()) {
        const auto [r, c] = open.back();
        open.pop_back();
        patch.mass += power.at(r, c);
        patch.cells.emplace_back(r, c);
        for (const auto& [dr, dc] : {std::pair{1, 0}, {-1, 0}, {0, 1}, {0, -1}}) {
          if (!inside(r + dr, c + dc) || seen.at(r + dr, c + dc) > 0 ||
              power.at(r + dr, c + dc) <= level)
            continue;
          seen.at(r + dr, c + dc) = 1;
          open.emplace_back(r + dr, c + dc);
        }
      }
      patches.push_back(std::move(patch));
    }
  std::stable_sort(patches.begin(), patches.end(),
                   [](const Patch& a, const Patch& b) { return a.mass > b.mass; });
  return patches;
}

// A box of the patch's centre and spread: an even rectangle's variance is its side squared / 12.
PixelBox box_of(const Patch& patch, const raster::Grid& power) {
  double x = 0, y = 0, xx = 0, yy = 0;
  for (const auto& [r, c] : patch.cells) {
    const double w = power.at(r, c) / patch.mass;
    x += w * (c + 0.5), y += w * (r + 0.5);
    xx += w * (c + 0.5) * (c + 0.5), yy += w * (r + 0.5) * (r + 0.5);
  }
  const double half_x = std::max(kLeastSide, std::sqrt(3 * std::max(0.0, xx - x * x)));
  const double half_y = std::max(kLeastSide, std::sqrt(3 * std::max(0.0, yy - y * y)));
  return {x - half_x, x + half_x, y - half_y, y + half_y};
}

// Two halves of the strongest patch, across its longer side.
std::vector<Patch> halved(const Patch& patch, const raster::Grid& power) {
  const PixelBox box = box_of(patch, power);
  const bool tall = box.bottom - box.top > box.right - box.left;
  std::vector<Patch> halves(2);
  for (const auto& [r, c] : patch.cells) {
    const bool second = tall ? 2 * r + 1 > box.top + box.bottom : 2 * c + 1 > box.left + box.right;
    Patch& half = halves[second ? 1 : 0];
    half.mass += power.at(r, c);
    half.cells.emplace_back(r, c);
  }
  return halves;
}

}  // namespace

std::vector<PixelBox> strongest_patches(const raster::Grid& power, const PixelBox& window,
                                        int count) {
  std::vector<double> inside;
  for (int r = 0; r < power.rows; ++r)
    for (int c = 0; c < power.cols; ++c)
      if (r >= window.top && r < window.bottom && c >= window.left && c < window.right)
        inside.push_back(power.at(r, c));
  if (inside.empty()) return std::vector<PixelBox>(static_cast<std::size_t>(count), window);
  const auto high = inside.begin() + static_cast<std::ptrdiff_t>(inside.size() * 98 / 100);
  std::nth_element(inside.begin(), high, inside.end());
  std::vector<Patch> patches = patches_over(power, window, *high / 2);
  if (patches.empty()) return std::vector<PixelBox>(static_cast<std::size_t>(count), window);
  // Specks beside a large patch are noise: the large one is two that touch.
  while (patches.size() > 1 && patches.back().mass < 0.15 * patches.front().mass)
    patches.pop_back();
  while (static_cast<int>(patches.size()) < count && patches.front().cells.size() > 8) {
    const std::vector<Patch> halves = halved(patches.front(), power);
    patches.erase(patches.begin());
    for (const Patch& half : halves)
      if (half.mass > 0) patches.push_back(half);
    std::stable_sort(patches.begin(), patches.end(),
                     [](const Patch& a, const Patch& b) { return a.mass > b.mass; });
  }
  std::vector<PixelBox> boxes;
  for (int i = 0; i < count; ++i)
    boxes.push_back(
        box_of(patches[std::min(static_cast<std::size_t>(i), patches.size() - 1)], power));
  // Along the direction in which they lie apart.
  double least_x = 1e300, most_x = -1e300, least_y = 1e300, most_y = -1e300;
  for (const PixelBox& box : boxes) {
    least_x = std::min(least_x, box.left + box.right),
    most_x = std::max(most_x, box.left + box.right);
    least_y = std::min(least_y, box.top + box.bottom),
    most_y = std::max(most_y, box.top + box.bottom);
  }
  const bool stacked = most_y - least_y >= most_x - least_x;
  std::stable_sort(boxes.begin(), boxes.end(), [&](const PixelBox& a, const PixelBox& b) {
    return stacked ? a.top + a.bottom < b.top + b.bottom : a.left + a.right < b.left + b.right;
  });
  return boxes;
}

RectangleFit fit_rectangles(const Session& session, const std::vector<raster::Grid>& pictures,
                            const RectangleFit& start, const RectangleOptions& options) {
  CHECK(start.boxes.size() == session.components.size());
  return Fit(session, pictures, start, options).run();
}

}  // namespace partita::floorplan
