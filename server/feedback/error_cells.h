// Error figures by everything they can be asked by.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/feedback/error_windows.h"

namespace gpueta {

// Names as shown to people.
struct CellKey {
  std::string device;
  std::string family;
  std::string dtype;  // empty for graphs
  std::string model;
  std::string provenance;
  std::string node;

  friend auto operator<=>(const CellKey&, const CellKey&) = default;
};

// What things beyond a limit are together in.
inline constexpr char kOther[] = "other";

// A bounded number of cells, each with windows over time. Not thread-safe.
class ErrorCells {
 public:
  explicit ErrorCells(std::size_t limit) : limit_(limit) {}

  // Past the limit new models and nodes fold into `other`; past one and a half
  // times the limit everything new does.
  void Add(const CellKey& key, std::int64_t now_unix_s, const PredictedAndObserved& pair);

  // Makes room of cells that were not observed for as long as windows reach back.
  void Forget(std::int64_t now_unix_s);

  const std::map<CellKey, ErrorWindows>& cells() const { return cells_; }

  // Buckets changed since the last call, which then are not.
  struct Bucket {
    const CellKey* key;
    std::size_t length;
    std::int64_t start_unix_s;
    const ErrorStats* stats;
  };
  std::vector<Bucket> TakeChanged();
  void Restore(const CellKey& key, std::size_t length, std::int64_t start_unix_s, ErrorStats stats);

 private:
  CellKey Fold(const CellKey& key) const;

  std::size_t limit_;
  std::map<CellKey, ErrorWindows> cells_;
  std::map<CellKey, std::int64_t> changed_;  // since when
  // The last one added to: columns add many to one cell.
  const CellKey* last_key_ = nullptr;
  ErrorWindows* last_cell_ = nullptr;
  CellKey last_asked_;
};

}  // namespace gpueta
