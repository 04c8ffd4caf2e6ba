#include "heat/lcf.h"

#include <fmt/format.h>

#include <map>

#include "heat/text_lines.h"

namespace partita::thermal {
namespace {

// Takes the lines of a file one after the other.
class Taker {
 public:
  Taker(const std::string& file, const std::vector<WordLine>& lines) : file_(file), lines_(lines) {}
  bool done() const { return next_ == lines_.size(); }
  std::string where() const { return done() ? file_ : place(file_, lines_[next_].line); }
  int line() const { return done() ? 0 : lines_[next_].line; }

  Result<std::string_view> word(const char* what) {
    if (done()) return bad_input(file_, fmt::format("the file ends where {} is due", what));
    return lines_[next_++].words[0];
  }
  Result<double> number(const NumberWanted& wanted) {
    const std::string at = where();
    const std::string_view found = TRY(word(wanted.what));
    return number_at(at, found, wanted);
  }
  Result<bool> yes(const char* what) {
    const std::string at = where();
    const std::string_view found = TRY(word(what));
    const char first = found.front();
    if (first == 'Y' || first == 'y') return true;
    if (first == 'N' || first == 'n') return false;
    return bad_input(at, fmt::format("{}: '{}'; Y or N is wanted", what, found));
  }
  bool number_next() const {
    return !done() && number_at("", lines_[next_].words[0], {"", -1e300, 1e300, ""}).has_value();
  }

 private:
  const std::string& file_;
  const std::vector<WordLine>& lines_;
  std::size_t next_ = 0;
};

Result<LayerLine> layer_of(Taker& in, int line) {
  LayerLine layer;
  layer.line = line;
  const bool lateral = TRY(in.yes("sideways heat flow"));
  const bool power = TRY(in.yes("power"));
  layer.lateral = lateral;
  layer.power = power;
  if (in.number_next()) {
    const double capacity = TRY(in.number({"heat capacity", 1e3, 1e8, "J/(m^3 K)"}));
    const double resistivity = TRY(in.number({"resistivity", 1e-5, 1e4, "m K/W"}));
    layer.capacity = capacity;
    layer.resistivity = resistivity;
  } else {
    layer.material = TRY(in.word("heat capacity or a material"));
  }
  layer.thickness =
      TRY(in.number({"thickness", 1e-8, 0.1, "metres are wanted, are these millimetres?"}));
  const std::string where = in.where();
  const std::string_view flp = TRY(in.word("a floorplan file"));
  if (flp.ends_with(".csv"))
    return bad_input(where, fmt::format("{} describes microchannels, which are not modelled", flp));
  layer.flp = flp;
  return layer;
}

}  // namespace

Result<std::vector<LayerLine>> read_lcf(const std::string& file, std::string_view text) {
  const std::vector<WordLine> lines = TRY(word_lines(file, text));
  Taker in(file, lines);
  std::map<int, LayerLine> layers;
  while (!in.done()) {
    const std::string where = in.where();
    const int line = in.line();
    const double number = TRY(in.number({"layer number", 0, kMostLayers - 1, ""}));
    const int index = static_cast<int>(number);
    if (index != number) return bad_input(where, "layer number: a whole number is wanted");
    LayerLine layer = TRY(layer_of(in, line));
    if (!layers.emplace(index, std::move(layer)).second)
      return bad_input(where, fmt::format("layer {} stands twice", index));
  }
  if (layers.empty()) return bad_input(file, "a layer file without layers");
  std::vector<LayerLine> ordered;
  for (auto& [index, layer] : layers) {
    if (index != static_cast<int>(ordered.size()))
      return bad_input(place(file, layer.line),
                       fmt::format("there is a layer {} but no layer {}", index, ordered.size()));
    ordered.push_back(std::move(layer));
  }
  return ordered;
}

}  // namespace partita::thermal
