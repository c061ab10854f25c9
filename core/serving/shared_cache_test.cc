#include "core/serving/shared_cache.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace gpueta {
namespace {

struct Sized {
  std::size_t bytes = 0;
  std::size_t size_bytes() const { return bytes; }
};

TEST(SharedCacheTest, MakesAValueOnce) {
  SharedCache<Sized> cache(1000);
  int made = 0;
  const auto make = [&]() -> absl::StatusOr<Sized> {
    ++made;
    return Sized{100};
  };
  EXPECT_EQ(cache.Find("a"), nullptr);
  const auto first = cache.Get("a", make);
  EXPECT_EQ(*cache.Get("a", make), *first);
  EXPECT_EQ(made, 1);
}

TEST(SharedCacheTest, WhatWasNotAskedForLongestGoesFirst) {
  SharedCache<Sized> cache(310);
  const auto put = [&](const char* key) { (void)cache.Get(key, [] { return Sized{100}; }); };
  put("a");
  put("b");
  put("c");
  EXPECT_NE(cache.Find("a"), nullptr);
  put("d");
  EXPECT_NE(cache.Find("a"), nullptr);
  EXPECT_EQ(cache.Find("b"), nullptr);
  EXPECT_LE(cache.size_bytes(), 310U);
}

TEST(SharedCacheTest, WhatIsTooLargeIsMadeButNotKept) {
  SharedCache<Sized> cache(100);
  EXPECT_EQ((*cache.Get("a", [] { return Sized{1000}; }))->bytes, 1000U);
  EXPECT_EQ(cache.size_bytes(), 0U);
}

TEST(SharedCacheTest, AnErrorIsNotKept) {
  SharedCache<Sized> cache(100);
  EXPECT_FALSE(cache.Get("a", []() -> absl::StatusOr<Sized> { return absl::InternalError("no"); }).ok());
  EXPECT_TRUE(cache.Get("a", [] { return Sized{1}; }).ok());
}

TEST(SharedCacheTest, ThreadsThatAskAtOnceGetOneValue) {
  SharedCache<Sized> cache(100'000);
  std::vector<std::shared_ptr<const Sized>> got(8);
  {
    std::vector<std::jthread> threads;
    for (auto& each : got) threads.emplace_back([&] { each = *cache.Get("a", [] { return Sized{10}; }); });
  }
  for (const auto& each : got) EXPECT_EQ(each, cache.Find("a"));
}

}  // namespace
}  // namespace gpueta
