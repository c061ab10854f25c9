#include "core/importers/onnx/read_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "core/base/errors.h"

namespace gpueta::onnx_import {
namespace {

using onnx::TensorProto;
using ::testing::HasSubstr;

TensorProto Stored(std::int32_t type, const std::vector<std::int64_t>& dims) {
  TensorProto stored;
  stored.set_data_type(type);
  for (std::int64_t dim : dims) stored.add_dims(dim);
  return stored;
}

template <class T>
TensorProto Raw(std::int32_t type, const std::vector<T>& values) {
  TensorProto stored = Stored(type, {static_cast<std::int64_t>(values.size())});
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  stored.set_raw_data(bytes);
  return stored;
}

// Integers as themselves, floats as they are.
std::vector<double> Values(const TensorProto& stored) {
  const absl::StatusOr<Tensor> tensor = ReadTensor(stored);
  EXPECT_TRUE(tensor.ok()) << tensor.status();
  if (!tensor.ok() || !tensor->contents.has_value()) return {-999};
  std::vector<double> values;
  for (const Number& number : *tensor->contents) {
    const auto* real = std::get_if<double>(&number);
    values.push_back(real != nullptr ? *real : static_cast<double>(ConstantOf(number).value_or(-999)));
  }
  return values;
}

TEST(ReadTensorTest, RawDataOfEveryNumericType) {
  using V = std::vector<double>;
  EXPECT_EQ(Values(Raw<std::int64_t>(TensorProto::INT64, {-1, 1LL << 40})), (V{-1, 1099511627776.0}));
  EXPECT_EQ(Values(Raw<std::int32_t>(TensorProto::INT32, {-7, 7})), (V{-7, 7}));
  EXPECT_EQ(Values(Raw<std::uint32_t>(TensorProto::UINT32, {0xFFFFFFFFU})), (V{4294967295.0}));
  EXPECT_EQ(Values(Raw<std::int16_t>(TensorProto::INT16, {-3})), (V{-3}));
  EXPECT_EQ(Values(Raw<std::uint16_t>(TensorProto::UINT16, {65535})), (V{65535}));
  EXPECT_EQ(Values(Raw<std::int8_t>(TensorProto::INT8, {-128, 127})), (V{-128, 127}));
  EXPECT_EQ(Values(Raw<std::uint8_t>(TensorProto::UINT8, {255})), (V{255}));
  EXPECT_EQ(Values(Raw<std::uint8_t>(TensorProto::BOOL, {0, 1})), (V{0, 1}));
  EXPECT_EQ(Values(Raw<float>(TensorProto::FLOAT, {1.5F, -2})), (V{1.5, -2}));
  EXPECT_EQ(Values(Raw<double>(TensorProto::DOUBLE, {0.1})), (V{0.1}));
  EXPECT_EQ(Values(Raw<std::uint16_t>(TensorProto::FLOAT16, {0x3C00, 0xC100, 0x0001, 0x7C00})),
            (V{1, -2.5, 5.9604644775390625e-08, std::numeric_limits<double>::infinity()}));
  EXPECT_EQ(Values(Raw<std::uint16_t>(TensorProto::BFLOAT16, {0x3F80, 0xC020})), (V{1, -2.5}));
}

TEST(ReadTensorTest, TypedFields) {
  using V = std::vector<double>;
  TensorProto ints = Stored(TensorProto::INT64, {2});
  ints.add_int64_data(3);
  ints.add_int64_data(-4);
  EXPECT_EQ(Values(ints), (V{3, -4}));
  TensorProto bools = Stored(TensorProto::BOOL, {2});
  bools.add_int32_data(1);
  bools.add_int32_data(0);
  EXPECT_EQ(Values(bools), (V{1, 0}));
  TensorProto halves = Stored(TensorProto::FLOAT16, {1});
  halves.add_int32_data(0x4000);
  EXPECT_EQ(Values(halves), (V{2}));
  TensorProto floats = Stored(TensorProto::FLOAT, {});
  floats.add_float_data(0.25F);
  EXPECT_EQ(Values(floats), (V{0.25}));
}

TEST(ReadTensorTest, ContentsAreUnknownWithoutDataOrOutside) {
  const std::vector<TensorProto> unknown = {
      Stored(TensorProto::FLOAT, {3}),                   // stripped
      Stored(TensorProto::INT64, {kMaxContents + 1}),    // too many to follow
      Stored(TensorProto::STRING, {1}),                  // no numbers
      Raw<std::uint8_t>(TensorProto::INT64, {1, 2, 3}),  // not 3 elements
      Raw<std::uint8_t>(kFloat8First, {1}),              // not decoded
  };
  for (const TensorProto& stored : unknown) {
    const absl::StatusOr<Tensor> tensor = ReadTensor(stored);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_FALSE(tensor->contents.has_value()) << stored.DebugString();
    EXPECT_EQ(tensor->origin, Origin::kConstant);
  }
  TensorProto external = Raw<float>(TensorProto::FLOAT, {1});
  external.set_data_location(TensorProto::EXTERNAL);
  EXPECT_FALSE(ReadTensor(external)->contents.has_value());
}

TEST(ReadTensorTest, DimsAreChecked) {
  EXPECT_THAT(MessageOf(ReadTensor(Stored(TensorProto::FLOAT, {2, -3})).status()), HasSubstr("negative dim -3"));
  EXPECT_THAT(MessageOf(ReadTensor(Stored(TensorProto::FLOAT, {1LL << 40, 1LL << 40})).status()),
              HasSubstr("more than 2^55 elements"));
  EXPECT_THAT(MessageOf(ReadTensor(Stored(TensorProto::FLOAT, std::vector<std::int64_t>(17, 1))).status()),
              HasSubstr("has 17 dims"));
}

TEST(ReadTensorTest, SizesFollowTheType) {
  const auto bytes = [](std::int32_t type) { return SizeOf(*ReadTensor(Stored(type, {3, 5}))).bytes; };
  EXPECT_EQ(bytes(TensorProto::FLOAT), 60);
  EXPECT_EQ(bytes(TensorProto::FLOAT16), 30);
  EXPECT_EQ(bytes(TensorProto::INT64), 120);
  EXPECT_EQ(bytes(TensorProto::BOOL), 15);
  EXPECT_EQ(bytes(kFloat8First), 15);
  EXPECT_EQ(bytes(kInt4), 8);  // two in a byte, rounded up
  EXPECT_EQ(bytes(TensorProto::STRING), 0);
}

}  // namespace
}  // namespace gpueta::onnx_import
