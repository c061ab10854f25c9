#include "server/feedback/error_cells.h"

namespace gpueta {

CellKey ErrorCells::Fold(const CellKey& key) const {
  CellKey folded = key;
  if (!folded.model.empty()) folded.model = kOther;
  if (!folded.node.empty()) folded.node = kOther;
  if (cells_.contains(folded) || cells_.size() < limit_ + limit_ / 2) return folded;
  return {kOther, kOther, kOther, kOther, kOther, kOther};
}

void ErrorCells::Add(const CellKey& key, std::int64_t now_unix_s, const PredictedAndObserved& pair) {
  if (last_cell_ == nullptr || key != last_asked_) {
    auto it = cells_.find(key);
    if (it == cells_.end()) it = cells_.try_emplace(cells_.size() < limit_ ? key : Fold(key)).first;
    last_key_ = &it->first;
    last_cell_ = &it->second;
    last_asked_ = key;
    changed_.try_emplace(*last_key_, now_unix_s);
  }
  last_cell_->Add(now_unix_s, pair);
}

void ErrorCells::Forget(std::int64_t now_unix_s) {
  for (auto& [key, windows] : cells_) windows.Forget(now_unix_s);
  std::erase_if(cells_, [this](const auto& cell) { return cell.second.empty() && !changed_.contains(cell.first); });
  last_cell_ = nullptr;
}

std::vector<ErrorCells::Bucket> ErrorCells::TakeChanged() {
  std::vector<Bucket> buckets;
  for (const auto& [changed_key, since] : changed_) {
    const auto& [key, windows] = *cells_.find(changed_key);
    for (std::size_t length = 0; length < ErrorWindows::kLengths.size(); ++length) {
      const auto& kept = windows.buckets()[length];
      for (auto it = kept.upper_bound(since - ErrorWindows::kLengths[length].seconds); it != kept.end(); ++it)
        buckets.push_back({&key, length, it->first, &it->second});
    }
  }
  changed_.clear();
  last_cell_ = nullptr;
  return buckets;
}

void ErrorCells::Restore(const CellKey& key, std::size_t length, std::int64_t start_unix_s, ErrorStats stats) {
  cells_[key].Restore(length, start_unix_s, std::move(stats));
}

}  // namespace gpueta
