#include "core/device/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/errors.h"

namespace gpueta {
namespace {

using ::testing::HasSubstr;

TEST(NodePresetsTest, AreValidAndFoundByName) {
  for (const NodeTopology& preset : NodePresets()) {
    EXPECT_TRUE(Validate(preset).ok()) << preset.name;
    EXPECT_EQ(FindNodePreset(preset.name), &preset);
    EXPECT_GT(preset.network.gb_s, 0) << preset.name;
  }
  EXPECT_EQ(FindNodePreset("dgx"), nullptr);
}

TEST(PlaceTest, NeighboursShareANodeUntilItIsFull) {
  NodeTopology topology = *FindNodePreset("dgx-h100");
  topology.nodes = 8;
  struct Case {
    std::int64_t ranks, stride, per_node, nodes;
  };
  for (const Case& c : {Case{4, 1, 4, 1}, {8, 1, 8, 1}, {16, 1, 8, 2}, {2, 4, 2, 1}, {8, 4, 2, 4}, {8, 8, 1, 8}}) {
    GroupPlacement placement;
    ASSERT_TRUE(Place(topology, c.ranks, c.stride, placement).ok());
    EXPECT_EQ(placement.per_node, c.per_node) << c.ranks << " " << c.stride;
    EXPECT_EQ(placement.nodes, c.nodes) << c.ranks << " " << c.stride;
  }
  GroupPlacement placement;
  EXPECT_THAT(MessageOf(Place(topology, 128, 1, placement)), HasSubstr("nodes: is 8"));
}

TEST(ValidateTopologyTest, WhatNoNodeHasIsNamed) {
  NodeTopology topology = *FindNodePreset("pc");
  topology.nodes = 2;
  topology.network.gb_s = 0;
  EXPECT_EQ(FieldOf(Validate(topology)), "network");
  topology.link.gb_s = -1;
  EXPECT_EQ(FieldOf(Validate(topology)), "link");
  topology.devices = 0;
  EXPECT_EQ(FieldOf(Validate(topology)), "devices");
}

}  // namespace
}  // namespace gpueta
