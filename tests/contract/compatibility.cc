#include "tests/contract/compatibility.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.pb.h>

#include <algorithm>
#include <map>

namespace gpueta {
namespace {

using google::protobuf::DescriptorProto;
using google::protobuf::EnumDescriptorProto;
using google::protobuf::EnumValueDescriptorProto;
using google::protobuf::FieldDescriptorProto;
using google::protobuf::FileDescriptorSet;
using google::protobuf::MethodDescriptorProto;
using google::protobuf::ServiceDescriptorProto;

// Everything with a name, by its full name.
struct Contract {
  std::map<std::string, const DescriptorProto*> messages;
  std::map<std::string, const EnumDescriptorProto*> enums;
  std::map<std::string, const ServiceDescriptorProto*> services;
};

void AddMessage(const std::string& scope, const DescriptorProto& message, Contract& contract) {
  const std::string name = scope + "." + message.name();
  contract.messages.emplace(name, &message);
  for (const auto& nested : message.nested_type()) AddMessage(name, nested, contract);
  for (const auto& nested : message.enum_type()) contract.enums.emplace(name + "." + nested.name(), &nested);
}

Contract ContractOf(const FileDescriptorSet& files) {
  Contract contract;
  for (const auto& file : files.file()) {
    for (const auto& message : file.message_type()) AddMessage(file.package(), message, contract);
    for (const auto& e : file.enum_type()) contract.enums.emplace(file.package() + "." + e.name(), &e);
    for (const auto& service : file.service())
      contract.services.emplace(file.package() + "." + service.name(), &service);
  }
  return contract;
}

template <class Items>
auto FindByNumber(const Items& items, int number) {
  return std::find_if(items.begin(), items.end(), [number](const auto& item) { return item.number() == number; });
}

template <class Items>
auto FindByName(const Items& items, const std::string& name) {
  return std::find_if(items.begin(), items.end(), [&name](const auto& item) { return item.name() == name; });
}

// The ranges of messages exclude their end, those of enums include it.
bool IsReserved(const DescriptorProto& message, int number, const std::string& name) {
  const auto& names = message.reserved_name();
  return std::find(names.begin(), names.end(), name) != names.end() &&
         std::any_of(message.reserved_range().begin(), message.reserved_range().end(),
                     [number](const auto& range) { return range.start() <= number && number < range.end(); });
}
bool IsReserved(const EnumDescriptorProto& e, int number, const std::string& name) {
  const auto& names = e.reserved_name();
  return std::find(names.begin(), names.end(), name) != names.end() &&
         std::any_of(e.reserved_range().begin(), e.reserved_range().end(),
                     [number](const auto& range) { return range.start() <= number && number <= range.end(); });
}

std::string TypeOf(const FieldDescriptorProto& field) {
  return fmt::format("{} {}{}", FieldDescriptorProto::Label_Name(field.label()),
                     FieldDescriptorProto::Type_Name(field.type()), field.type_name());
}

std::string OneofOf(const DescriptorProto& message, const FieldDescriptorProto& field) {
  return field.has_oneof_index() ? message.oneof_decl(field.oneof_index()).name() : "";
}

class Comparison {
 public:
  std::vector<std::string> Compare(const Contract& old_contract, const Contract& new_contract) {
    Match(old_contract.messages, new_contract.messages, "message",
          [this](auto&&... args) { CompareMessages(args...); });
    Match(old_contract.enums, new_contract.enums, "enum", [this](auto&&... args) { CompareEnums(args...); });
    Match(old_contract.services, new_contract.services, "service",
          [this](auto&&... args) { CompareServices(args...); });
    return std::move(problems_);
  }

 private:
  template <class... Args>
  void Add(fmt::format_string<Args...> format, Args&&... args) {
    problems_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  template <class Map, class CompareTwo>
  void Match(const Map& old_items, const Map& new_items, const char* kind, CompareTwo compare) {
    for (const auto& [name, item] : old_items) {
      const auto now = new_items.find(name);
      if (now == new_items.end()) {
        Add("{} {} is gone", kind, name);
      } else {
        compare(name, *item, *now->second);
      }
    }
  }

  // Fields of a message or values of an enum, which are the same to the extent
  // that they have numbers and names.
  template <class Parent, class Items>
  void CompareNumbers(const std::string& where, const Items& old_items, const Items& new_items, const Parent& now) {
    for (const auto& was : old_items) {
      const auto same_number = FindByNumber(new_items, was.number());
      const auto same_name = FindByName(new_items, was.name());
      if (same_number == new_items.end() && same_name == new_items.end()) {
        if (!IsReserved(now, was.number(), was.name())) {
          Add("{}.{} is gone; reserve its number {} and its name", where, was.name(), was.number());
        }
      } else if (same_name == new_items.end()) {
        Add("{}: number {} was {}, is now {}", where, was.number(), was.name(), same_number->name());
      } else if (same_name->number() != was.number()) {
        Add("{}.{} had number {}, has now {}", where, was.name(), was.number(), same_name->number());
      }
    }
  }

  void CompareMessages(const std::string& name, const DescriptorProto& was, const DescriptorProto& now) {
    CompareNumbers(name, was.field(), now.field(), now);
    for (const FieldDescriptorProto& field : was.field()) {
      const auto same = FindByName(now.field(), field.name());
      if (same == now.field().end()) continue;
      if (TypeOf(*same) != TypeOf(field))
        Add("{}.{} was {}, is now {}", name, field.name(), TypeOf(field), TypeOf(*same));
      if (OneofOf(now, *same) != OneofOf(was, field)) Add("{}.{} moved into or out of a oneof", name, field.name());
    }
  }

  void CompareEnums(const std::string& name, const EnumDescriptorProto& was, const EnumDescriptorProto& now) {
    CompareNumbers(name, was.value(), now.value(), now);
  }

  void CompareServices(const std::string& name, const ServiceDescriptorProto& was, const ServiceDescriptorProto& now) {
    for (const MethodDescriptorProto& method : was.method()) {
      const auto same = FindByName(now.method(), method.name());
      if (same == now.method().end()) {
        Add("method {}.{} is gone", name, method.name());
      } else if (same->input_type() != method.input_type() || same->output_type() != method.output_type() ||
                 same->client_streaming() != method.client_streaming() ||
                 same->server_streaming() != method.server_streaming()) {
        Add("method {}.{} has another signature", name, method.name());
      }
    }
  }

  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> IncompatibilitiesOf(const FileDescriptorSet& old_files, const FileDescriptorSet& new_files) {
  return Comparison().Compare(ContractOf(old_files), ContractOf(new_files));
}

}  // namespace gpueta
