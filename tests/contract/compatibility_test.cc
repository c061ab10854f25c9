#include "tests/contract/compatibility.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <functional>

namespace gpueta {
namespace {

using google::protobuf::FieldDescriptorProto;
using google::protobuf::FileDescriptorProto;
using google::protobuf::FileDescriptorSet;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

FileDescriptorSet SmallContract() {
  FileDescriptorSet files;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
    file {
      name: "a.proto" package: "p"
      message_type {
        name: "M"
        field { name: "a" number: 1 label: LABEL_OPTIONAL type: TYPE_INT64 }
        field { name: "b" number: 2 label: LABEL_REPEATED type: TYPE_STRING }
        field { name: "c" number: 3 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".p.N" oneof_index: 0 }
        oneof_decl { name: "choice" }
        nested_type { name: "Inner" field { name: "x" number: 1 label: LABEL_OPTIONAL type: TYPE_FLOAT } }
      }
      message_type { name: "N" }
      enum_type { name: "E" value { name: "E_UNSPECIFIED" number: 0 } value { name: "E_ONE" number: 1 } }
      service {
        name: "S"
        method { name: "Get" input_type: ".p.M" output_type: ".p.N" }
        method { name: "Watch" input_type: ".p.M" output_type: ".p.N" server_streaming: true }
      }
    })",
                                                            &files));
  return files;
}

// What is said about the small contract after a change.
std::vector<std::string> After(const std::function<void(FileDescriptorProto&)>& change) {
  FileDescriptorSet changed = SmallContract();
  change(*changed.mutable_file(0));
  return IncompatibilitiesOf(SmallContract(), changed);
}

void RemoveField(FileDescriptorProto& file, int index) {
  file.mutable_message_type(0)->mutable_field()->DeleteSubrange(index, 1);
}

TEST(CompatibilityTest, AContractIsCompatibleWithItself) {
  EXPECT_THAT(After([](auto&) {}), IsEmpty());
}

TEST(CompatibilityTest, AdditionsBreakNobody) {
  EXPECT_THAT(After([](FileDescriptorProto& file) {
                FieldDescriptorProto& field = *file.mutable_message_type(0)->add_field();
                field.set_name("d");
                field.set_number(9);
                file.add_message_type()->set_name("New");
                auto& value = *file.mutable_enum_type(0)->add_value();
                value.set_name("E_TWO");
                value.set_number(2);
                file.mutable_service(0)->add_method()->set_name("List");
                file.add_service()->set_name("T");
              }),
              IsEmpty());
}

TEST(CompatibilityTest, ReportsARemovedField) {
  EXPECT_THAT(After([](FileDescriptorProto& file) { RemoveField(file, 0); }), ElementsAre(HasSubstr("p.M.a is gone")));
}

TEST(CompatibilityTest, AllowsARemovedFieldWhoseNumberAndNameAreReserved) {
  const auto remove_and_reserve = [](bool name, bool number) {
    return [name, number](FileDescriptorProto& file) {
      RemoveField(file, 0);
      if (name) file.mutable_message_type(0)->add_reserved_name("a");
      if (!number) return;
      auto& range = *file.mutable_message_type(0)->add_reserved_range();
      range.set_start(1);
      range.set_end(2);
    };
  };
  EXPECT_THAT(After(remove_and_reserve(true, true)), IsEmpty());
  EXPECT_THAT(After(remove_and_reserve(true, false)), ElementsAre(HasSubstr("is gone")));
  EXPECT_THAT(After(remove_and_reserve(false, true)), ElementsAre(HasSubstr("is gone")));
}

TEST(CompatibilityTest, ReportsARenumberedField) {
  EXPECT_THAT(After([](FileDescriptorProto& file) { file.mutable_message_type(0)->mutable_field(0)->set_number(7); }),
              ElementsAre(HasSubstr("p.M.a had number 1, has now 7")));
}

TEST(CompatibilityTest, ReportsANumberThatIsUsedAgain) {
  EXPECT_THAT(After([](FileDescriptorProto& file) { file.mutable_message_type(0)->mutable_field(0)->set_name("z"); }),
              ElementsAre(HasSubstr("number 1 was a, is now z")));
}

TEST(CompatibilityTest, ReportsSwappedNumbers) {
  EXPECT_THAT(After([](FileDescriptorProto& file) {
                file.mutable_message_type(0)->mutable_field(0)->set_number(2);
                file.mutable_message_type(0)->mutable_field(1)->set_number(1);
              }),
              ElementsAre(HasSubstr("p.M.a had number 1"), HasSubstr("p.M.b had number 2")));
}

TEST(CompatibilityTest, ReportsAnotherTypeLabelOrOneof) {
  EXPECT_THAT(After([](FileDescriptorProto& file) {
                file.mutable_message_type(0)->mutable_field(0)->set_type(FieldDescriptorProto::TYPE_INT32);
              }),
              ElementsAre(AllOf(HasSubstr("p.M.a was"), HasSubstr("TYPE_INT64"), HasSubstr("TYPE_INT32"))));
  EXPECT_THAT(After([](FileDescriptorProto& file) {
                file.mutable_message_type(0)->mutable_field(1)->set_label(FieldDescriptorProto::LABEL_OPTIONAL);
              }),
              ElementsAre(HasSubstr("LABEL_REPEATED")));
  EXPECT_THAT(
      After([](FileDescriptorProto& file) { file.mutable_message_type(0)->mutable_field(2)->set_type_name(".p.M"); }),
      ElementsAre(HasSubstr(".p.N")));
  EXPECT_THAT(
      After([](FileDescriptorProto& file) { file.mutable_message_type(0)->mutable_field(2)->clear_oneof_index(); }),
      ElementsAre(HasSubstr("oneof")));
  EXPECT_THAT(After([](FileDescriptorProto& file) {
                file.mutable_message_type(0)->mutable_nested_type(0)->mutable_field(0)->set_type(
                    FieldDescriptorProto::TYPE_DOUBLE);
              }),
              ElementsAre(HasSubstr("p.M.Inner.x")));
}

TEST(CompatibilityTest, ReportsChangedEnumValues) {
  EXPECT_THAT(After([](FileDescriptorProto& file) { file.mutable_enum_type(0)->mutable_value(1)->set_name("E_UNO"); }),
              ElementsAre(HasSubstr("number 1 was E_ONE, is now E_UNO")));
  EXPECT_THAT(After([](FileDescriptorProto& file) { file.mutable_enum_type(0)->mutable_value(1)->set_number(5); }),
              ElementsAre(HasSubstr("p.E.E_ONE had number 1, has now 5")));
  EXPECT_THAT(After([](FileDescriptorProto& file) { file.mutable_enum_type(0)->mutable_value()->RemoveLast(); }),
              ElementsAre(HasSubstr("p.E.E_ONE is gone")));
}

TEST(CompatibilityTest, ReportsWhatIsGoneAsAWhole) {
  EXPECT_THAT(After([](FileDescriptorProto& file) { file.mutable_message_type()->RemoveLast(); }),
              ElementsAre(HasSubstr("message p.N is gone")));
  EXPECT_THAT(After([](FileDescriptorProto& file) { file.clear_enum_type(); }),
              ElementsAre(HasSubstr("enum p.E is gone")));
  EXPECT_THAT(After([](FileDescriptorProto& file) { file.clear_service(); }),
              ElementsAre(HasSubstr("service p.S is gone")));
}

TEST(CompatibilityTest, ReportsChangedMethods) {
  EXPECT_THAT(After([](FileDescriptorProto& file) { file.mutable_service(0)->mutable_method()->RemoveLast(); }),
              ElementsAre(HasSubstr("method p.S.Watch is gone")));
  EXPECT_THAT(
      After([](FileDescriptorProto& file) { file.mutable_service(0)->mutable_method(1)->set_server_streaming(false); }),
      ElementsAre(HasSubstr("p.S.Watch has another signature")));
  EXPECT_THAT(
      After([](FileDescriptorProto& file) { file.mutable_service(0)->mutable_method(0)->set_input_type(".p.N"); }),
      ElementsAre(HasSubstr("p.S.Get has another signature")));
}

}  // namespace
}  // namespace gpueta
