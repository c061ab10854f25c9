#include "server/profiles/resource_name.h"

#include <gtest/gtest.h>

#include "core/base/errors.h"

namespace gpueta {
namespace {

TEST(ResourceNameTest, ParsesWhatItPrints) {
  for (const char* name : {"devices/h100-sxm", "devices/a100/nodes/rack1.node_7", "devices/-"}) {
    const auto parsed = ParseDeviceName("parent", name);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(ToString(*parsed), name);
  }
  for (const char* name :
       {"devices/t4/profiles/0123456789abcdef", "devices/t4/profiles/active", "devices/t4/nodes/n1/profiles/ab"}) {
    const auto parsed = ParseProfileName("name", name);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(ToString(*parsed), name);
  }
}

TEST(ResourceNameTest, RefusesOtherFormsAndNamesTheField) {
  for (const char* name : {"", "h100", "devices", "devices/", "devices//nodes/x", "devices/a/b", "devices/a/nodes/",
                           "nodes/a/devices/b", "devices/a b", "devices/a/nodes/b/c", "devices/../x", "devices/a\n"}) {
    EXPECT_EQ(FieldOf(ParseDeviceName("parent", name).status()), "parent") << name;
  }
  for (const char* name :
       {"", "devices/a", "profiles/x", "devices/a/profiles/", "devices/a/profiles/b/c", "devices//profiles/b"}) {
    EXPECT_EQ(FieldOf(ParseProfileName("name", name).status()), "name") << name;
  }
}

}  // namespace
}  // namespace gpueta
