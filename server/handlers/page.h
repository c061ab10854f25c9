// Pages of a list that is sorted by a unique text key (aip.dev/158).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/errors.h"

namespace gpueta {

inline constexpr std::int32_t kDefaultPageSize = 100;
inline constexpr std::int32_t kLargestPageSize = 1000;

template <class Item>
struct Page {
  std::vector<const Item*> items;
  std::string next_token;  // empty on the last page
};

// The items after `token`, which is the key of the last item of the page
// before: a list that changes meanwhile neither repeats nor skips those that
// stay. `key` maps an item to its key. INVALID_ARGUMENT for a negative size.
template <class Item, class Key>
absl::StatusOr<Page<Item>> TakePage(const std::vector<Item>& sorted, Key key, std::int32_t page_size,
                                    const std::string& token) {
  if (page_size < 0) return FieldError("page_size", "is negative");
  const auto size = static_cast<std::size_t>(page_size == 0 ? kDefaultPageSize : std::min(page_size, kLargestPageSize));
  Page<Item> page;
  for (const Item& item : sorted) {
    if (!token.empty() && key(item) <= token) continue;
    if (page.items.size() == size) {
      page.next_token = key(*page.items.back());
      return page;
    }
    page.items.push_back(&item);
  }
  return page;
}

}  // namespace gpueta
